//! Host names of sandboxes, and their resolver configuration.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::as_text;
use crate::{Dns, Error, IpNet, NetworkName, Result, text};

/// Below this domain stands `NAME.NETWORK` (RFC 6762 appendix G leaves such names to private use).
pub const NAME_DOMAIN: &str = "spoke";

/// The longest name of a host, in bytes (RFC 1035 §2.3.4, as text).
const LONGEST_NAME: usize = 253;

/// The longest part of one between dots.
const LONGEST_LABEL: usize = 63;

/// The longest option of a resolver; resolv.conf(5) knows none of half of it.
const LONGEST_OPTION: usize = 64;

/// The names that every hosts file gives to the host itself.
const OWN: [&str; 6] = [
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-localhost",
    "ip6-localnet",
    "ip6-loopback",
    "ip6-mcastprefix",
];

/// The name of a host: parts of letters, digits, `-` and `_` between dots (RFC 1123 §2.1). The last part
/// is no number, because that would be an address, and it is none of those that every host gives itself
/// (RFC 6761 §6.3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// A domain in which names are searched: in the form of a host name, or `.` for the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchDomain(String);

/// An option of the resolver: small letters, digits, `-`, `_` and `:` (resolv.conf(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverOption(String);

/// An address that means something on one link only (RFC 3927, RFC 4291 §2.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "IpAddr", into = "IpAddr")]
pub struct LinkLocal(IpAddr);

impl HostName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = Error;
    fn from_str(source: &str) -> Result<Self> {
        let name = || text::shown(source);
        labels(source).map_err(|why| Error::invalid(format!("host name '{}' {why}", name())))?;
        let lower = source.to_ascii_lowercase();
        let last = lower.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::invalid(format!(
                "host name '{}' ends in a number, as addresses do",
                name()
            )));
        }
        if last == "localhost" || OWN.contains(&lower.as_str()) {
            return Err(Error::invalid(format!(
                "host name '{}' is what every host calls itself",
                name()
            )));
        }
        Ok(Self(source.to_owned()))
    }
}

impl FromStr for SearchDomain {
    type Err = Error;
    fn from_str(source: &str) -> Result<Self> {
        let relative = source.strip_suffix('.').unwrap_or(source);
        if source != "." {
            labels(relative).map_err(|why| {
                Error::invalid(format!("search domain '{}' {why}", text::shown(source)))
            })?;
        }
        Ok(Self(source.to_owned()))
    }
}

impl FromStr for ResolverOption {
    type Err = Error;
    fn from_str(source: &str) -> Result<Self> {
        let fits = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b':')
        };
        let why = match source {
            "" => "is empty",
            _ if source.len() > LONGEST_OPTION => "is longer than 64 bytes",
            _ if !source.bytes().all(fits) => {
                "may hold only small letters, digits, '-', '_' and ':'"
            }
            _ => return Ok(Self(source.to_owned())),
        };
        Err(Error::invalid(format!("resolver option '{}' {why}", text::shown(source))))
    }
}

fn labels(source: &str) -> Result<(), &'static str> {
    if source.is_empty() {
        return Err("is empty");
    }
    if source.len() > LONGEST_NAME {
        return Err("is longer than 253 bytes");
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !source.bytes().all(fits) {
        return Err("may hold only letters, digits, '-', '_' and '.'");
    }
    for label in source.split('.') {
        if label.is_empty() || label.len() > LONGEST_LABEL {
            return Err("has a part between dots that is empty or longer than 63 bytes");
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err("has a part that starts or ends with '-'");
        }
    }
    Ok(())
}

impl LinkLocal {
    /// With the prefix length that libnetwork gives it.
    pub fn net(self) -> IpNet {
        let length = if self.0.is_ipv4() { 16 } else { 64 };
        IpNet::new_assert(self.0, length)
    }
}

impl TryFrom<IpAddr> for LinkLocal {
    type Error = Error;
    fn try_from(address: IpAddr) -> Result<Self> {
        let is_one = match address {
            // On a /16 the first and the last address are not usable.
            IpAddr::V4(v4) => {
                v4.is_link_local() && !matches!(v4.octets(), [.., 0, 0] | [.., 255, 255])
            }
            // The one whose host part is zero is every router's (RFC 4291 §2.6.1).
            IpAddr::V6(v6) => v6.is_unicast_link_local() && v6.segments()[4..] != [0; 4],
        };
        match is_one {
            true => Ok(Self(address)),
            false => Err(Error::invalid(format!(
                "{address} is no link-local address of a host: those are in 169.254.0.0/16 and fe80::/10"
            ))),
        }
    }
}

impl FromStr for LinkLocal {
    type Err = Error;
    fn from_str(source: &str) -> Result<Self> {
        let address: IpAddr = source.parse().map_err(|_| {
            Error::invalid(format!("link-local address '{}' is no address", text::shown(source)))
        })?;
        address.try_into()
    }
}

impl Dns {
    /// These settings, and those of `other` where this has none.
    pub fn or(&self, other: &Dns) -> Dns {
        let first = |own: &Vec<String>, other: &Vec<String>| match own.is_empty() {
            true => other.clone(),
            false => own.clone(),
        };
        let is_searching = !self.search.is_empty() || self.domain.is_some();
        Dns {
            nameservers: first(&self.nameservers, &other.nameservers),
            domain: if is_searching { self.domain.clone() } else { other.domain.clone() },
            search: if is_searching { self.search.clone() } else { other.search.clone() },
            options: first(&self.options, &other.options),
        }
    }
}

as_text!(HostName);
as_text!(SearchDomain);
as_text!(ResolverOption);

impl From<LinkLocal> for IpAddr {
    fn from(address: LinkLocal) -> Self {
        address.0
    }
}

impl fmt::Display for LinkLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The domain in which the names of a network stand.
pub fn name_domain(network: &NetworkName) -> String {
    format!("{}.{NAME_DOMAIN}", network.as_str().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for good in ["db", "Db-1.example.com", "_ldap._tcp", "a.1b"] {
            assert!(good.parse::<HostName>().is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "",
            "a b",
            "a\nb",
            "a#b",
            "a..b",
            ".a",
            "a.",
            "-a",
            "a-",
            "10.0.0.1",
            "4711",
            "1.2",
            "localhost",
            "LocalHost",
            "x.localhost",
            "ip6-loopback",
            "ä",
            "a\u{7}",
            "::1",
            &long,
        ] {
            assert_eq!(
                bad.parse::<HostName>().unwrap_err().kind(),
                crate::Kind::Invalid,
                "{bad:?}"
            );
        }
        let source = "a\nb".parse::<HostName>().unwrap_err().to_string();
        assert_eq!(source, "host name 'a\\nb' may hold only letters, digits, '-', '_' and '.'");
    }

    #[test]
    fn domains_and_options_are_one_word() {
        for good in [".", "example.com", "example.com.", "10.in-addr.arpa"] {
            assert!(good.parse::<SearchDomain>().is_ok(), "{good}");
        }
        for bad in ["", "..", "a b", "a\nnameserver 1.1.1.1"] {
            assert_eq!(
                bad.parse::<SearchDomain>().unwrap_err().kind(),
                crate::Kind::Invalid,
                "{bad:?}"
            );
        }
        assert!("ndots:2".parse::<ResolverOption>().is_ok());
        for bad in ["", "a b", "a\nb", "A", "#", &"a".repeat(65)] {
            assert_eq!(
                bad.parse::<ResolverOption>().unwrap_err().kind(),
                crate::Kind::Invalid,
                "{bad:?}"
            );
        }
    }

    #[test]
    fn link_local_is_what_it_says() {
        let net = |source: &str| source.parse::<LinkLocal>().unwrap().net().to_string();
        assert_eq!(net("169.254.7.1"), "169.254.7.1/16");
        assert_eq!(net("fe80::7"), "fe80::7/64");
        for bad in [
            "10.0.0.1",
            "169.254.0.0",
            "169.254.255.255",
            "fe80::",
            "fec0::1",
            "::1",
            "x",
            "fe80::1%eth0",
        ] {
            let refused = bad.parse::<LinkLocal>().unwrap_err().to_string();
            assert!(refused.contains(bad), "{refused}");
        }
    }

    #[test]
    fn what_is_said_last_is_not_mixed_with_what_was_said_before() {
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let network = Dns {
            nameservers: text(&["10.0.0.1"]),
            domain: Some("lan".into()),
            search: text(&["lan"]),
            options: text(&["rotate"]),
        };
        let source = Dns { search: text(&["dev"]), ..Dns::default() };
        let both = source.or(&network);
        assert_eq!((both.domain, both.search), (None, text(&["dev"])));
        assert_eq!((both.nameservers, both.options), (network.nameservers, network.options));
    }

    proptest! {
        #[test]
        fn never_panics(source in ".*") {
            let _ = source.parse::<HostName>();
            let _ = source.parse::<SearchDomain>();
            let _ = source.parse::<ResolverOption>();
            let _ = source.parse::<LinkLocal>();
        }
    }
}
