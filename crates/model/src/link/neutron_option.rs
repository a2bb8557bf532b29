//! The options of a port of Neutron's.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::neutron::{AddressPair, Nesting, PortSpec, ResourceRef};
use super::{IpvlanMode, MacvlanMode};
use crate::text::{choice, shown};
use crate::{Error, IfName, Result, host_net};

/// The prefix of every key.
pub const NEUTRON_PREFIX: &str = "neutron.";

impl PortSpec {
    /// Whether a port can be so; otherwise why not.
    ///
    /// # Errors
    /// A sentence about what contradicts the rest.
    pub fn agrees(&self) -> Result<(), &'static str> {
        if self.port_security != Some(false) {
            return Ok(());
        }
        match &self.security_groups {
            Some(groups) if !groups.is_empty() => {
                Err("security groups are of no effect without port security; leave one out")
            }
            _ if !self.allowed_address_pairs.is_empty() => {
                Err("without port security every sender is allowed; leave the address pairs out")
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for AddressPair {
    type Err = Error;

    /// `ADDRESS[/LENGTH][@MAC]`.
    fn from_str(text: &str) -> Result<Self> {
        let (net, mac) = match text.split_once('@') {
            Some((net, mac)) => (net, Some(mac.parse()?)),
            None => (text, None),
        };
        let one = || net.parse::<IpAddr>().ok().map(host_net);
        let net = net.parse::<IpNet>().ok().or_else(one).ok_or_else(|| {
            Error::invalid(format!("{:?} is neither an IP address nor a prefix", shown(net)))
        })?;
        Ok(Self { net, mac })
    }
}

impl Nesting {
    /// The kind of nesting that `macvlan`, `ipvlan` or `trunk` with a parent, a mode and a trunk
    /// describe.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Invalid`] where they describe none.
    pub fn named(
        kind: &str,
        parent: Option<IfName>,
        mode: Option<&str>,
        trunk: Option<ResourceRef>,
    ) -> Result<Self> {
        let parent = parent.ok_or_else(|| {
            Error::invalid(format!(
                "{kind} needs a parent: the interface of this instance that is Neutron's port"
            ))
        })?;
        if trunk.is_some() && kind != "trunk" {
            return Err(Error::invalid(format!("{kind} is of no trunk; leave that out")));
        }
        let none_such = |words: &str| Error::invalid(format!("a mode of {kind} is {words}"));
        match (kind, mode) {
            ("macvlan", mode) => {
                let mode = mode.map_or(Some(MacvlanMode::default()), choice(&MacvlanMode::WORDS));
                let mode = mode.ok_or_else(|| none_such("bridge, private, vepa or passthru"))?;
                Ok(Nesting::Macvlan { parent, mode })
            }
            ("ipvlan", mode) => {
                let mode = mode.map_or(Some(IpvlanMode::default()), choice(&IpvlanMode::WORDS));
                Ok(Nesting::Ipvlan {
                    parent,
                    mode: mode.ok_or_else(|| none_such("l2, l3 or l3s"))?,
                })
            }
            ("trunk", None) => Ok(Nesting::Trunk { parent, trunk }),
            ("trunk", Some(_)) => Err(Error::invalid("a trunk has no mode; leave that out")),
            (other, _) => Err(Error::invalid(format!(
                "{:?} is none of macvlan, ipvlan and trunk",
                shown(other)
            ))),
        }
    }
}
