//! Docker's ids of networks, endpoints and sandboxes. Each type states its grammar.

use std::fmt;
use std::str::FromStr;

/// Engines use 64 hexadecimal digits, swarm 25 letters and digits.
const LONGEST_ID: usize = 128;
/// A pool's key holds at most a space's name and two prefixes.
const LONGEST_KEY: usize = 512;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $valid:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $valid(text).map(|()| Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A network's id, given by the engine: `[A-Za-z0-9][A-Za-z0-9_.-]*`, at most 128 bytes. The
    /// network's name is never sent.
    NetworkId, identifier
);
id!(
    /// An endpoint's id, given by the engine, of the same grammar. A container that is started
    /// again gets a new one.
    EndpointId, identifier
);
id!(
    /// The IPAM driver's id of the pool: printable, at most 512 bytes.
    PoolKey, printable
);
id!(
    /// The name of an address space, from the IPAM driver or the user: printable, at most 512
    /// bytes.
    SpaceName, printable
);

fn identifier(text: &str) -> Result<(), &'static str> {
    if !text.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Err("must start with a letter or digit");
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)) {
        return Err("may hold only letters, digits, '_', '.' and '-'");
    }
    if text.len() > LONGEST_ID { Err("is longer than 128 bytes") } else { Ok(()) }
}

fn printable(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.chars().any(char::is_control) {
        return Err("holds control characters");
    }
    if text.len() > LONGEST_KEY { Err("is longer than 512 bytes") } else { Ok(()) }
}
