//! Exposed ports: a security group of the port's own.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use engine::port::ExposedPort;
use model::{Attachment, Error, Protocol, ResourceId, Result};

use crate::Neutron;
use crate::api::{
    Direction, NewGroup, NewRule, PortChange, PortResource, RuleResource, SecurityGroup,
    gone_is_done,
};
use crate::contract::{self, Mark};
use crate::port::{bound_port, link_of};

/// How often a lost race is run again.
const RACES: usize = 20;

/// Neutron's status for a revision that is not the one that was read.
const STALE: u16 = 412;

/// Neutron's status for a group that a port has.
const IN_USE: u16 = 409;

/// Consecutive ports of one protocol, for one family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Passage {
    ethertype: &'static str,
    protocol: &'static str,
    first: u16,
    last: u16,
}

impl Neutron {
    /// Lets these ports of the attachment's container be reached: its port gets a security group of
    /// its own. Repeating it, also with other ports, is no error.
    ///
    /// # Errors
    /// What Neutron refuses.
    pub fn expose_ports(&self, attachment: &Attachment, ports: &[ExposedPort]) -> Result<()> {
        let id = bound_port(attachment, link_of(attachment)?)?;
        let port = self.api().port(id)?.ok_or_else(|| {
            Error::not_found(format!("port {id} of {} is gone from Neutron", attachment.id))
        })?;
        // Without a filter the ports are reachable already.
        if ports.is_empty() || port.port_security_enabled == Some(false) {
            return Ok(());
        }
        let wanted = passages(ports, &families(&port));
        let group = match self.exposed_groups(id)?.into_iter().next() {
            Some(group) => group,
            None => self.api().create_group(&NewGroup {
                name: contract::exposed_group_name(id.as_str()),
                description: self.exposed_mark(id),
            })?,
        };
        self.fill(&group, &wanted)?;
        self.change_groups(port, |groups| match groups.contains(&group.id) {
            true => None,
            false => Some([groups, std::slice::from_ref(&group.id)].concat()),
        })
    }

    /// The opposite; what is not exposed is done.
    ///
    /// # Errors
    /// What Neutron refuses.
    pub fn conceal_ports(&self, attachment: &Attachment) -> Result<()> {
        match &link_of(attachment)?.binding {
            Some(binding) => self.conceal(&binding.port),
            None => Ok(()),
        }
    }

    /// The same for a port that its owner gets back. A group that another port has as well stays with
    /// that.
    ///
    /// # Errors
    /// What Neutron refuses.
    pub(crate) fn conceal_lent(&self, port: &ResourceId) -> Result<()> {
        match self.conceal(port) {
            Err(error) if error.status() == Some(IN_USE) => Ok(()),
            // Another call has removed it.
            done => gone_is_done(done),
        }
    }

    fn conceal(&self, port: &ResourceId) -> Result<()> {
        let groups = self.exposed_groups(port)?;
        let ids: Vec<ResourceId> = groups.into_iter().map(|group| group.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.take_off(port, &ids)?;
        ids.iter().try_for_each(|id| self.api().delete_group(id))
    }

    /// Takes security groups off a port; a port that is gone has none.
    ///
    /// # Errors
    /// What Neutron refuses.
    pub(crate) fn take_off(&self, port: &ResourceId, groups: &[ResourceId]) -> Result<()> {
        let Some(port) = self.api().port(port)? else { return Ok(()) };
        self.change_groups(port, |there| {
            let remaining: Vec<ResourceId> =
                there.iter().filter(|id| !groups.contains(id)).cloned().collect();
            (remaining.len() < there.len()).then_some(remaining)
        })
    }

    /// Those that were made for the port: by us, or by kuryr-libnetwork before us.
    fn exposed_groups(&self, port: &ResourceId) -> Result<Vec<SecurityGroup>> {
        let mark = self.exposed_mark(port);
        let name = contract::exposed_group_name(port.as_str());
        let mut groups = self.api().groups(&[("name", name)])?;
        groups.retain(|group| group.description == mark || group.description.is_empty());
        groups.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(groups)
    }

    fn exposed_mark(&self, port: &ResourceId) -> String {
        Mark::new(&self.settings.host, format!("exposed-{port}")).to_string()
    }

    /// Gives the group these rules and no others of those that let something in.
    fn fill(&self, group: &SecurityGroup, wanted: &[Passage]) -> Result<()> {
        let into: Vec<&RuleResource> =
            group.rules.iter().filter(|rule| rule.direction == Direction::Ingress).collect();
        for rule in into.iter().filter(|rule| !wanted.iter().any(|passage| passage.is(rule))) {
            self.api().delete_rule(&rule.id)?;
        }
        let missing = wanted.iter().filter(|passage| !into.iter().any(|rule| passage.is(rule)));
        let rules: Vec<NewRule> = missing.map(|passage| passage.rule(&group.id)).collect();
        match rules.is_empty() {
            true => Ok(()),
            false => self.api().create_rules(&rules),
        }
    }

    fn change_groups(
        &self,
        mut port: PortResource,
        change: impl Fn(&[ResourceId]) -> Option<Vec<ResourceId>>,
    ) -> Result<()> {
        for _ in 0..RACES {
            let Some(groups) = change(&port.security_groups) else { return Ok(()) };
            let change = PortChange { security_groups: Some(groups), ..PortChange::default() };
            match self.api().change_port(&port.id, &change, port.revision_number) {
                Err(error) if error.status() == Some(STALE) => {}
                done => return gone_is_done(done.map(drop)),
            }
            match self.api().port(&port.id)? {
                Some(again) => port = again,
                None => return Ok(()),
            }
        }
        Err(Error::try_again(format!("port {} is changed by others all the time", port.id)))
    }
}

impl Passage {
    fn is(&self, rule: &RuleResource) -> bool {
        rule.ethertype.as_deref() == Some(self.ethertype)
            && rule.protocol.as_deref() == Some(self.protocol)
            && rule.port_range_min == Some(self.first)
            && rule.port_range_max == Some(self.last)
    }

    fn rule(&self, group: &ResourceId) -> NewRule {
        NewRule {
            security_group_id: group.clone(),
            direction: Direction::Ingress,
            ethertype: self.ethertype,
            protocol: self.protocol.to_owned(),
            port_range_min: self.first,
            port_range_max: self.last,
        }
    }
}

/// The families that the port has addresses of.
fn families(port: &PortResource) -> Vec<&'static str> {
    let addresses = || port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
    let v4 = addresses().any(|address| address.is_ipv4()).then_some("IPv4");
    let v6 = addresses().any(|address| address.is_ipv6()).then_some("IPv6");
    v4.into_iter().chain(v6).collect()
}

/// One rule for ports that follow each other.
fn passages(ports: &[ExposedPort], families: &[&'static str]) -> Vec<Passage> {
    let sorted: BTreeSet<(&'static str, NonZeroU16)> =
        ports.iter().map(|port| (word(port.protocol), port.port)).collect();
    let mut runs: Vec<(&'static str, u16, u16)> = Vec::new();
    for (protocol, port) in sorted {
        let port = port.get();
        match runs.last_mut() {
            Some((of, _, last)) if *of == protocol && last.checked_add(1) == Some(port) => {
                *last = port;
            }
            Some(_) | None => runs.push((protocol, port, port)),
        }
    }
    let mut passages = Vec::new();
    for ethertype in families {
        passages.extend(runs.iter().map(|(protocol, first, last)| Passage {
            ethertype,
            protocol,
            first: *first,
            last: *last,
        }));
    }
    passages
}

/// Neutron's word.
fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(protocol: Protocol, number: u16) -> ExposedPort {
        ExposedPort { protocol, port: NonZeroU16::new(number).unwrap() }
    }

    #[test]
    fn consecutive_ports_are_one_rule() {
        let ports = [
            port(Protocol::Tcp, 82),
            port(Protocol::Tcp, 80),
            port(Protocol::Tcp, 81),
            port(Protocol::Udp, 81),
            port(Protocol::Tcp, 65_535),
            port(Protocol::Tcp, 80),
            port(Protocol::Sctp, 9),
        ];
        let reported: Vec<String> = passages(&ports, &["IPv4", "IPv6"])
            .iter()
            .map(|p| format!("{} {} {}-{}", p.ethertype, p.protocol, p.first, p.last))
            .collect();
        let of = |family: &str| {
            ["sctp 9-9", "tcp 80-82", "tcp 65535-65535", "udp 81-81"]
                .map(|rule| format!("{family} {rule}"))
        };
        assert_eq!(reported, [of("IPv4"), of("IPv6")].concat());
    }
}
