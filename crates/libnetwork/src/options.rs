//! The engine's maps of options, by name. What is in them came with the engine's version: an
//! absent key says nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Error, IfName, Mac, Result as Parsed, Sysctl};

use super::Refusal;
use super::object::{Object, parse, quoted, text_of};
use super::ports::{EXPOSED, PORT_MAP, Ports};

pub(super) const GENERIC: &str = "com.docker.network.generic";
pub(super) const ENABLE_IPV4: &str = "com.docker.network.enable_ipv4";
pub(super) const ENABLE_IPV6: &str = "com.docker.network.enable_ipv6";
pub(super) const INTERNAL: &str = "com.docker.network.internal";
pub(super) const DNS_SERVERS: &str = "com.docker.network.endpoint.dnsservers";
pub(super) const MAC_ADDRESS: &str = "com.docker.network.endpoint.macaddress";
pub(super) const IFNAME: &str = "com.docker.network.endpoint.ifname";
pub(super) const SYSCTLS: &str = "com.docker.network.endpoint.sysctls";

const MOST_SERVERS: usize = 256;

/// The options with which a network was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkOptions {
    /// All options of `-o`, and the daemon's defaults for the driver.
    pub generic: BTreeMap<String, String>,
    /// Whether it has IPv4; known since 28.0, and before that it always had.
    pub ipv4: Option<bool>,
    /// Whether it has IPv6.
    pub ipv6: bool,
    /// Whether it is cut off from everything else.
    pub internal: bool,
}

impl NetworkOptions {
    pub(super) fn read(options: &Object<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            generic: options.object(GENERIC)?.all_texts()?,
            ipv4: options.flag(ENABLE_IPV4)?,
            ipv6: options.flag(ENABLE_IPV6)?.unwrap_or(false),
            internal: options.flag(INTERNAL)?.unwrap_or(false),
        })
    }
}

/// The options with which an endpoint was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointOptions {
    /// Offered and published ports. Empty for internal networks; up to 28 also where another
    /// endpoint of the container already publishes them.
    pub ports: Ports,
    /// `--dns`: the engine's own resolver asks them.
    pub dns: Vec<IpAddr>,
    /// The user's choice of a hardware address.
    pub mac: Option<Mac>,
    /// The user's choice of a name in the container (28.0). The engine does not honour it.
    pub ifname: Option<IfName>,
    /// Kernel parameters of the interface (27.0). The engine writes them itself.
    pub sysctls: Vec<SysctlSetting>,
    /// `--driver-opt` of this endpoint.
    pub driver: BTreeMap<String, String>,
}

impl EndpointOptions {
    const KNOWN: [&str; 6] = [EXPOSED, PORT_MAP, DNS_SERVERS, MAC_ADDRESS, IFNAME, SYSCTLS];

    pub(super) fn read(options: &Object<'_>) -> Result<Self, Refusal> {
        let mac = options.text(MAC_ADDRESS)?;
        Ok(Self {
            ports: Ports::read(options)?,
            dns: servers(options)?,
            mac: mac.map(|text| hardware(&options.place(MAC_ADDRESS), text)).transpose()?,
            ifname: options.parsed(IFNAME)?,
            sysctls: settings(options)?,
            driver: options.other_texts(&Self::KNOWN)?,
        })
    }
}

/// Go writes a hardware address as base64 of its octets here, and as text elsewhere.
fn hardware(place: &str, text: &str) -> Parsed<Mac> {
    if text.contains([':', '-']) {
        return parse(place, text);
    }
    let octets = STANDARD.decode(text).ok().and_then(|octets| <[u8; 6]>::try_from(octets).ok());
    let invalid = || Error::invalid(format!("{place}: {} is not six octets", quoted(text)));
    octets.map(Mac::new).ok_or_else(invalid)
}

fn servers(options: &Object<'_>) -> Result<Vec<IpAddr>, Refusal> {
    let place = options.place(DNS_SERVERS);
    let servers = options.list(DNS_SERVERS, MOST_SERVERS)?.iter();
    servers
        .map(|server| {
            let text = text_of(&place, server)?;
            // The zone of a link-local server is one of the host's, and of no use to us.
            let address = text.split_once('%').map_or(text, |(address, _zone)| address);
            Ok(parse(&place, address)?)
        })
        .collect()
}

/// A kernel parameter of an endpoint's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlSetting {
    /// Its parts, `net` and so on; none stands for the interface's name.
    parts: Vec<Option<String>>,
    value: String,
}

impl SysctlSetting {
    /// The setting for an interface.
    pub fn of(&self, interface: &IfName) -> Sysctl {
        let parts = self.parts.iter().map(|part| part.as_deref().unwrap_or(interface.as_str()));
        Sysctl { path: parts.collect::<PathBuf>(), value: self.value.clone() }
    }
}

impl fmt::Display for SysctlSetting {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, part) in self.parts.iter().enumerate() {
            let dot = if n == 0 { "" } else { "." };
            write!(f, "{dot}{}", part.as_deref().unwrap_or("IFNAME"))?;
        }
        write!(f, "={}", self.value)
    }
}

impl FromStr for SysctlSetting {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("is not name=value")?;
        let good = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        // Docker's client writes the placeholder in lower case where it was given in a long form.
        let part = |part: &str| (!part.eq_ignore_ascii_case("ifname")).then(|| part.to_owned());
        let parts: Vec<_> = name.split('.').map(part).collect();
        if !name.starts_with("net.") || !name.split('.').all(good) || !parts.contains(&None) {
            return Err("names no parameter net.….IFNAME.…");
        }
        Ok(Self { parts, value: value.to_owned() })
    }
}

fn settings(options: &Object<'_>) -> Result<Vec<SysctlSetting>, Refusal> {
    let place = options.place(SYSCTLS);
    let Some(text) = options.text(SYSCTLS)? else { return Ok(Vec::new()) };
    let settings = text.split(',').map(str::trim).filter(|setting| !setting.is_empty());
    settings.map(|setting| Ok(parse(&place, setting)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_of_the_interface_are_set() {
        let read = |text: &str| text.parse::<SysctlSetting>();
        let setting = read("net.ipv4.conf.ifname.log_martians=1").unwrap();
        let expected = Sysctl { path: "net/ipv4/conf/web0/log_martians".into(), value: "1".into() };
        assert_eq!(setting.of(&"web0".parse().unwrap()), expected);
        for other in ["net.ipv4.ip_forward=0", "kernel.IFNAME=1", "net./IFNAME.x=1"] {
            assert_eq!(read(other), Err("names no parameter net.….IFNAME.…"), "{other}");
        }
        assert_eq!(read("net.IFNAME"), Err("is not name=value"));
    }
}
