//! The fence of a network: where its containers may go, by name and by address.

mod domain_name;
mod public;
mod spelling;

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::name::by_text;
use crate::{Error, Family, Moment, NAME_DOMAIN, Protocol, Result, moment, text};

pub use domain_name::DomainName;
pub use public::{behind_nat64, is_public, link_local};

/// The word for a fence that lets nothing out.
const NOTHING: &str = "none";
/// An operator cannot survey more rules, and no packet filter searches as fast.
const MOST: usize = 256;
/// More ports of one name would be too many elements for each of its addresses.
const MOST_PORTS: u16 = 64;
/// Where the containers of a network may go. What no rule allows is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// What is allowed; nothing where there are none.
    pub rules: Vec<EgressRule>,
    /// Until then nothing is refused, and what would be is recorded.
    #[serde(
        default,
        deserialize_with = "moment::lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub learning: Option<Moment>,
    /// Whether nothing is routed out of the network while the packet filter is not there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

/// One thing that is allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EgressRule {
    /// To where.
    pub target: EgressTarget,
    /// To which of its ports.
    pub service: Service,
}

/// What a rule allows the ports of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EgressTarget {
    /// This name.
    Name(DomainName),
    /// Every name below this one, and not the name itself (`*.NAME`).
    Below(DomainName),
    /// These addresses.
    Net(IpNet),
}

/// Ports of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// The protocol.
    pub protocol: Protocol,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl Service {
    /// One port of a protocol.
    pub fn one(protocol: Protocol, port: u16) -> Self {
        Self { protocol, first: port, last: port }
    }

    /// The ports.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// Whether the port is one of them.
    pub fn has(&self, protocol: Protocol, port: u16) -> bool {
        self.protocol == protocol && self.ports().contains(&port)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last != self.first {
            write!(f, "-{}", self.last)?;
        }
        match self.protocol {
            Protocol::Tcp => Ok(()),
            other => write!(f, "/{other}"),
        }
    }
}

impl FromStr for Service {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let (ports, protocol) = match given.split_once('/') {
            Some((ports, protocol)) => (ports, protocol.parse()?),
            None => (given, Protocol::Tcp),
        };
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { protocol, first, last }),
            _ => {
                let shown = text::shown(ports);
                Err(Error::invalid(format!(
                    "'{shown}' is no port (1 to 65535), and no range of such"
                )))
            }
        }
    }
}

impl EgressTarget {
    fn parse(given: &str) -> Result<Self> {
        if let Some(domain) = given.strip_prefix("*.") {
            return domain.parse().map(Self::Below);
        }
        // Packets to such an address leave as those of IPv4.
        let plain = |net: IpNet| spelling::mapped(net).unwrap_or(net);
        let bare = given.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let net = match bare {
            Some(inner) => net(inner).filter(|net| net.addr().is_ipv6()),
            None => net(given).filter(|net| net.addr().is_ipv4()),
        };
        match net {
            Some(net) => Ok(Self::Net(plain(net))),
            None => given.parse().map(Self::Name),
        }
    }
}

/// The subnet, without the bits that say nothing.
fn net(text: &str) -> Option<IpNet> {
    let parsed = text.parse::<IpNet>().ok().map(|net| net.trunc());
    parsed.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

impl fmt::Display for EgressTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Net(net) => {
                let is_one = net.prefix_len() == net.max_prefix_len();
                let shown = if is_one { net.addr().to_string() } else { net.to_string() };
                if net.addr().is_ipv6() { write!(f, "[{shown}]") } else { f.write_str(&shown) }
            }
        }
    }
}

impl EgressRule {
    /// Whether it allows the ports of this name.
    fn is_of(&self, name: &DomainName) -> bool {
        match &self.target {
            EgressTarget::Name(own) => own == name,
            EgressTarget::Below(domain) => name.is_below(domain),
            EgressTarget::Net(_) => false,
        }
    }

    /// The addresses that it allows by themselves.
    pub fn net(&self) -> Option<IpNet> {
        match &self.target {
            EgressTarget::Net(net) => Some(*net),
            EgressTarget::Name(_) | EgressTarget::Below(_) => None,
        }
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.target, self.service)
    }
}

impl FromStr for EgressRule {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let shown = || text::shown(given);
        let wrong = |why: &dyn fmt::Display| Error::invalid(format!("egress '{}': {why}", shown()));
        let (target, service) = given
            .rsplit_once(':')
            .filter(|(target, _)| !target.contains(':') || target.ends_with(']'))
            .ok_or_else(|| {
                wrong(
                    &"it is a name, address or [IPv6 address], a colon and ports, such as \
                        github.com:443 or [fd00::/8]:53/udp",
                )
            })?;
        if target == "*" {
            return Err(wrong(&"* alone is no name; 0.0.0.0/0 and [::/0] are all addresses"));
        }
        let target = EgressTarget::parse(target).map_err(|error| wrong(&error))?;
        let service: Service = service.parse().map_err(|error| wrong(&error))?;
        if let EgressTarget::Name(name) | EgressTarget::Below(name) = &target {
            let own = NAME_DOMAIN.parse::<DomainName>()?;
            if *name == own || name.is_below(&own) {
                return Err(wrong(&"names below .spoke are those of containers"));
            }
            if service.last - service.first >= MOST_PORTS {
                return Err(wrong(&format!("a name has at most {MOST_PORTS} ports in one rule")));
            }
        }
        Ok(Self { target, service })
    }
}

by_text!(EgressRule);

impl Fence {
    /// The ports that the rules allow of a name; none where the name is not allowed.
    pub fn services_of(&self, name: &DomainName) -> Vec<Service> {
        let rules = self.rules.iter().filter(|rule| rule.is_of(name));
        rules.map(|rule| rule.service).collect()
    }

    /// Whether some rule names a subnet with this address.
    pub fn covers(&self, address: IpAddr) -> bool {
        self.rules.iter().filter_map(EgressRule::net).any(|net| is_meant(net, address))
    }

    /// Whether a rule allows this port of the address, whatever led there.
    pub fn allows(&self, address: IpAddr, protocol: Protocol, port: u16) -> bool {
        self.rules.iter().any(|rule| {
            rule.net().is_some_and(|net| is_meant(net, address)) && rule.service.has(protocol, port)
        })
    }

    /// Whether the rules of one of these names allow a port.
    pub fn allows_by_name(&self, names: &[DomainName], protocol: Protocol, port: u16) -> bool {
        let mut services = names.iter().flat_map(|name| self.services_of(name));
        services.any(|service| service.has(protocol, port))
    }

    /// Whether it only records at this time.
    pub fn is_learning(&self, now: &Moment) -> bool {
        !self.remaining(now).is_zero()
    }

    /// For how long it only records from this time on.
    pub fn remaining(&self, now: &Moment) -> Duration {
        self.learning.as_ref().map_or(Duration::ZERO, |until| until.after(now))
    }

    /// These rules, which are strict also where those `before` were.
    #[must_use]
    pub fn staying_strict(&self, before: Option<&Self>) -> Self {
        let strict = self.strict || before.is_some_and(|before| before.strict);
        Self { strict, ..self.clone() }
    }

    /// The same rules, whatever is being learned.
    pub fn same_rules(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return f.write_str(NOTHING);
        }
        for (place, rule) in self.rules.iter().enumerate() {
            write!(f, "{}{rule}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Fence {
    type Err = Error;

    /// Reads rules between commas, semicolons or ends of lines, or `none`. Podman's command line has commas for
    /// itself, and a suggestion has a rule a line.
    fn from_str(given: &str) -> Result<Self> {
        let fence = Self::recorded(given)?;
        fence.rules.iter().try_for_each(spelling::refuse_hexadecimal)?;
        fence.rules.iter().try_for_each(refuse_unreachable)?;
        Ok(fence)
    }
}

/// Refuses addresses to which no packet leaves a container (RFC 6890). Multicast is none of these: a router of it may
/// lead it on. Not where rules are read from the book or from a file of an earlier version.
fn refuse_unreachable(rule: &EgressRule) -> Result<()> {
    let Some(net) = rule.net() else { return Ok(()) };
    let is_one = net.prefix_len() == net.max_prefix_len();
    let why = match net.addr() {
        IpAddr::V4(first) if first.is_loopback() && net.prefix_len() >= 8 => {
            "the container's own loopback device"
        }
        IpAddr::V4(first) if first.is_broadcast() && is_one => "all on the container's own segment",
        IpAddr::V6(first) if first.is_loopback() && is_one => "the container's own loopback device",
        first if first.is_unspecified() && is_one => "no host (all are 0.0.0.0/0 and [::/0])",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!(
        "egress '{rule}': this address means {why}, and no packet leaves the container for it: leave the rule out"
    )))
}

impl Fence {
    /// Reads rules as [`Fence::from_str`] does, where a file had them for an earlier version: what that took, and what
    /// opens nothing, does not stop the file's network.
    ///
    /// # Errors
    /// As of [`Fence::from_str`].
    pub fn recorded(given: &str) -> Result<Self> {
        let given = given.trim();
        if given.eq_ignore_ascii_case(NOTHING) {
            return Ok(Self::default());
        }
        let mut rules: Vec<EgressRule> = Vec::new();
        for part in given.split([',', ';', '\n']) {
            let rule = part.trim().parse()?;
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        if rules.len() > MOST {
            return Err(Error::invalid(format!("{} rules of egress: at most {MOST}", rules.len())));
        }
        Ok(Self { rules, ..Self::default() })
    }
}

impl Fence {
    /// The rules of one container as options say them, and in the option of this name whether they are strict.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`].
    pub fn of_one(
        rules: Option<&str>,
        (key, strict): (&str, Option<&str>),
    ) -> Result<Option<Self>> {
        let strict = match strict {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let shown = text::shown(other);
                return Err(Error::invalid(format!("{key}={shown}: it is true or false")));
            }
        };
        Self::strictly(rules.map(str::parse).transpose()?, (key, strict))
    }

    /// The rules of one container, which are strict where an option of this name says so.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`] where there are none.
    pub fn strictly(rules: Option<Self>, (key, strict): (&str, bool)) -> Result<Option<Self>> {
        match rules {
            Some(rules) => Ok(Some(Self { strict, ..rules })),
            None if strict => Err(Error::invalid(format!(
                "{key} makes rules of the container's own strict: give it some, as egress, or make the \
                 network strict"
            ))),
            None => Ok(None),
        }
    }
}

/// Whether a rule for `net` means the address. Those of a link are meant only where the rule names
/// nothing else: behind 169.254.169.254 a cloud tells its hosts' secrets, and `0.0.0.0/0` does not ask for
/// these.
pub fn is_meant(net: IpNet, address: IpAddr) -> bool {
    let link = link_local(Family::of(&net));
    net.contains(&address) && (!link.contains(&address) || link.contains(&net))
}

#[cfg(test)]
mod tests;
