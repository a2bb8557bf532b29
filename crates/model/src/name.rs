//! Names, parsed once. Each type states its grammar; nothing else can be in it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Names longer than this are refused: every name must fit into a file name with room to spare.
const LONGEST: usize = 200;

/// The conversions of a type that is text in records: from a string as it is parsed, to a string as it is shown.
macro_rules! by_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = $crate::Error;
            fn try_from(text: String) -> $crate::Result<Self> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}
pub(crate) use by_text;

/// The same of a type that holds the text; it is shown as that.
macro_rules! as_text {
    ($name:ident) => {
        $crate::name::by_text!($name);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(crate) use as_text;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $valid:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                $valid(text).map_err(|why| Error::invalid(format!("{} {text:?} {why}", $what)))?;
                Ok(Self(text.to_owned()))
            }
        }

        as_text!($name);
    };
}

name!(
    /// The name of a network, unique on this host: `[A-Za-z0-9][A-Za-z0-9_.-]*` (CNI 1.0.0 §1).
    NetworkName, "network name", identifier
);
name!(
    /// A runtime's name of a container: `[A-Za-z0-9][A-Za-z0-9_.-]*` (CNI 1.0.0 §2).
    ContainerId, "container id", identifier
);
name!(
    /// A runtime's own id of a network: `[A-Za-z0-9][A-Za-z0-9_.-]*`.
    AliasId, "network id", identifier
);
name!(
    /// The base name of a plugin's executable, never a path (CVE-2021-20206).
    PluginName, "plugin type", identifier
);
name!(
    /// The name of a Docker plugin: the base name of its socket or description, never a path.
    DriverName, "driver name", identifier
);
name!(
    /// The name of a zone of firewalld: up to 17 of `[A-Za-z0-9_/-]` (firewalld.zone(5)).
    ZoneName, "zone name", zone
);
name!(
    /// How a container engine calls itself, such as Docker's `ID` of `GET /info`.
    EngineId, "engine id", printable
);
name!(
    /// The name of a network interface: 1 to 15 bytes, no `/`, `:` or white space (`dev_valid_name`). No
    /// `%`, which the kernel takes for a pattern and puts a number there, and neither `all` nor `default`,
    /// whose parameters are those of every interface.
    IfName, "interface name", interface
);
name!(
    /// A name that outlives a container, such as the pod's or service's: what sticky addresses
    /// are kept for. Printable, without white space.
    OwnerName, "owner name", printable
);

/// The longest name of a zone: iptables' chains once bore it.
const LONGEST_ZONE: usize = 17;

fn zone(text: &str) -> Result<(), &'static str> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/');
    match text.len() {
        0 => Err("is empty"),
        1..=LONGEST_ZONE if text.bytes().all(known) => Ok(()),
        1..=LONGEST_ZONE => Err("may hold only letters, digits, '_', '-' and '/'"),
        _ => Err("is longer than 17 bytes"),
    }
}

fn identifier(text: &str) -> Result<(), &'static str> {
    let mut bytes = text.bytes();
    match bytes.next() {
        None => return Err("is empty"),
        Some(first) if !first.is_ascii_alphanumeric() => {
            return Err("must start with a letter or digit");
        }
        Some(_) => {}
    }
    if !bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')) {
        return Err("may hold only letters, digits, '_', '.' and '-'");
    }
    bounded(text)
}

fn interface(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.len() > 15 {
        return Err("is longer than 15 bytes");
    }
    if text == "." || text == ".." {
        return Err("is a directory");
    }
    let forbidden = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    if text.chars().any(forbidden) {
        return Err("holds '/', ':' or white space");
    }
    if text.contains('%') {
        return Err("holds '%', which the kernel takes for a pattern");
    }
    if matches!(text, "all" | "default") {
        return Err("is what the kernel calls every interface");
    }
    Ok(())
}

fn printable(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("holds white space or control characters");
    }
    bounded(text)
}

fn bounded(text: &str) -> Result<(), &'static str> {
    if text.len() > LONGEST { Err("is longer than 200 bytes") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_could_be_a_path() {
        for bad in ["", "/", "..", "a/b", "-x", ".hidden", "a b", "a\0"] {
            assert_eq!(
                bad.parse::<NetworkName>().unwrap_err().kind(),
                crate::Kind::Invalid,
                "{bad:?}"
            );
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a:b",
            "a b",
            "a\tb",
            "sixteen-bytes-xx",
            "br%d",
            "%",
            "all",
            "default",
        ] {
            assert_eq!(bad.parse::<IfName>().unwrap_err().kind(), crate::Kind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn says_field_and_value() {
        let error = "a/b".parse::<IfName>().unwrap_err();
        assert_eq!(error.to_string(), "interface name \"a/b\" holds '/', ':' or white space");
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = text.parse::<NetworkName>();
            let _ = text.parse::<IfName>();
            let _ = text.parse::<OwnerName>();
        }

        #[test]
        fn round_trips(text in "[A-Za-z0-9][A-Za-z0-9_.-]{0,100}") {
            let name: ContainerId = text.parse().unwrap();
            prop_assert_eq!(String::from(name), text);
        }
    }
}
