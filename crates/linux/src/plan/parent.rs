//! The device below others.

use model::{
    Error, Fact, IfName, InterfaceNamespace, Link, Mtu, NetworkName, Parent, Result, VlanId,
};
use netlink::DeviceKind;

use super::{ParentFacts, Single, Step};
use crate::identity::{GROUP, Users};

/// The device of one VLAN of a parent, for all its users: `parent.VLAN`.
pub(crate) fn vlan_device(parent: &IfName, vlan: VlanId) -> Result<IfName> {
    format!("{parent}.{vlan}").parse().map_err(|_: Error| {
        Error::invalid(format!(
            "VLAN {vlan} of {parent}: {parent}.{vlan} is too long for the name of a device; make one of another name and take that as the parent"
        ))
    })
}

/// The device that is meant, with what makes it where it is missing.
pub(super) fn ensured<'f>(
    network: &NetworkName,
    parent: &Parent,
    facts: Option<&'f ParentFacts>,
) -> Result<(&'f ParentFacts, Vec<Step>)> {
    let Some(there) = facts else {
        return Err(Error::bug("the parent device was not looked for".to_owned()));
    };
    let Some(vlan) = parent.vlan else { return Ok((there, Vec::new())) };
    let mut steps = match &there.base {
        Some(base) => made(base, &there.name, vlan),
        None => Vec::new(),
    };
    if there.base.is_some() || there.is_ours {
        let used = Users::read(there.alias.as_deref());
        if let Some(with) = used.with(network) {
            steps.push(Step::Alias(there.name.clone(), with.to_string()));
        }
    }
    Ok((there, steps))
}

fn made(base: &IfName, name: &IfName, vlan: VlanId) -> Vec<Step> {
    let single = Single {
        name: name.clone(),
        kind: DeviceKind::Vlan(vlan.into()),
        parent: Some(base.clone()),
        mac: None,
        mtu: None,
        group: GROUP,
        away: false,
        shared: true,
    };
    vec![Step::Single(single), super::refuse_router_advertisements(name), Step::Up(name.clone())]
}

/// Those of the steps that make what others share.
pub(super) fn shared(steps: Vec<Step>) -> Vec<Step> {
    let is_own = |step: &Step| match step {
        Step::Single(single) => !single.shared,
        Step::Veth(_) => true,
        _ => false,
    };
    steps.into_iter().filter(|step| !is_own(step)).collect()
}

/// Packets that the parent cannot send are refused where they are configured, not lost.
pub(super) fn fits(link: &Link, parent: &ParentFacts) -> Result<()> {
    match link.mtu.map(Mtu::bytes) {
        Some(mtu) if mtu > parent.mtu => Err(Error::invalid(format!(
            "invalid MTU {mtu}, must be [0, master MTU({})]; {} is the master",
            parent.mtu, parent.name
        ))
        .about(Fact::Words(format!("invalid MTU {mtu}, must be [0, master MTU({})]", parent.mtu)))),
        Some(_) | None => Ok(()),
    }
}

/// Where the parent is, with its name.
pub(super) fn at<'f>(parent: &Parent, there: &'f ParentFacts) -> (&'f IfName, InterfaceNamespace) {
    (&there.name, parent.place)
}
