//! Links without an end in the host: each kind says how its device comes into being, and the rest is
//! the same for all.

use model::{
    Attached, Attachment, Error, Interface, InterfaceAddress, InterfaceNamespace, Link, LinkKind,
    Mac, Parent, Result,
};

use super::{Connected, Facts, ParentFacts, PeerPlacement, Plan, Step, Tap};
use crate::identity::Identity;

/// Where the container's interface stands in the result.
const CONTAINER: usize = 0;

/// How a device comes into being.
#[derive(Default)]
pub(super) struct Birth {
    /// In the host's namespace.
    pub(super) host: Vec<Step>,
    /// In the container's, after the host's.
    pub(super) sandbox: Vec<Step>,
    /// In the host's again, once the container's are done.
    pub(super) after: Vec<Step>,
    /// The hardware address that it has then.
    pub(super) mac: Option<Mac>,
    /// Whether the kernel has no interface of it: a program drives the device by itself.
    pub(super) is_hidden: bool,
}

/// A device of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// Its name.
    pub name: model::IfName,
    /// Its driver.
    pub kind: netlink::DeviceKind,
    /// The device below it, in the namespace of the step.
    pub parent: Option<model::IfName>,
    /// Its hardware address; the driver's choice where there is none.
    pub mac: Option<Mac>,
    /// Its MTU; its parent's where there is none.
    pub mtu: Option<model::Mtu>,
    /// Its group: whose it is.
    pub group: u32,
    /// Whether it comes into being in the container, which is not the namespace of the step.
    pub away: bool,
    /// Whether it is shared, so that an existing one will do.
    pub shared: bool,
}

pub(super) fn plan(attachment: &Attachment, link: &Link, facts: &Facts) -> Result<Plan> {
    let peer_placement = PeerPlacement::of(attachment)?;
    let birth = birth(attachment, link, &peer_placement, facts)?;
    let here = |held: &InterfaceAddress| InterfaceAddress {
        interface: (!birth.is_hidden).then_some(CONTAINER),
        ..held.clone()
    };
    let addresses: Vec<InterfaceAddress> = attachment.addresses.iter().map(here).collect();
    let mut plan = Plan { host: birth.host, sandbox: birth.sandbox, ..Plan::default() };
    if let Some(there) = &facts.connected {
        (plan.host, plan.sandbox) = (super::parent::shared(plan.host), Vec::new());
        plan.host.extend(peer_placement.bring(there, attachment)?);
        plan.sandbox.extend(correct(there, birth.mac, &peer_placement));
    }
    if peer_placement.place == InterfaceNamespace::Sandbox && !birth.is_hidden {
        plan.sandbox.extend(super::complete(
            attachment,
            &peer_placement.name,
            &addresses,
            &attachment.routes,
        ));
    }
    plan.after = birth.after;
    let interface = Interface {
        name: peer_placement.name,
        mac: birth.mac,
        mtu: link.mtu,
        place: peer_placement.place,
    };
    let interfaces = if birth.is_hidden { Vec::new() } else { vec![interface] };
    let (routes, dns) = (attachment.routes.clone(), attachment.resolves_with());
    plan.attached = Attached { interfaces, addresses, routes, dns, ..Attached::default() };
    Ok(plan)
}

fn birth(
    attachment: &Attachment,
    link: &Link,
    peer_placement: &PeerPlacement,
    facts: &Facts,
) -> Result<Birth> {
    let bearing = Bearing { attachment, link, peer_placement, facts };
    match &link.kind {
        LinkKind::Macvlan(macvlan) => super::macvlan::birth(&bearing, macvlan),
        LinkKind::Ipvlan(ipvlan) => super::ipvlan::birth(&bearing, ipvlan),
        LinkKind::Vlan(vlan) => super::vlan::birth(&bearing, vlan),
        LinkKind::Device(device) => super::device::birth(attachment, device, peer_placement, facts),
        LinkKind::Dummy => Ok(super::dummy::birth(&bearing)),
        LinkKind::Tap(tap) => {
            let mac = super::container_mac(attachment, link);
            let new = Tap {
                name: peer_placement.name.clone(),
                mac,
                mtu: link.mtu,
                group: Identity::of(&attachment.id).group(),
                tap: tap.clone(),
            };
            Ok(Birth { sandbox: vec![Step::Tap(new)], mac: Some(mac), ..Birth::default() })
        }
        LinkKind::Bridge(_)
        | LinkKind::Ptp(_)
        | LinkKind::Loopback
        | LinkKind::Chain(_)
        | LinkKind::Neutron(_)
        | LinkKind::Ovs(_)
        | LinkKind::Plug(_)
        | LinkKind::Remote(_)
        | LinkKind::ExternalInterface(_) => {
            Err(Error::bug(format!("{}: its link has an end in the host", attachment.id)))
        }
    }
}

/// The facts that a kind needs to describe its device.
pub(super) struct Bearing<'a> {
    pub(super) attachment: &'a Attachment,
    pub(super) link: &'a Link,
    pub(super) peer_placement: &'a PeerPlacement,
    pub(super) facts: &'a Facts,
}

impl<'a> Bearing<'a> {
    /// The parent as it is, or as the steps make it, if the link can be made on it.
    pub(super) fn above(&self, parent: &Parent) -> Result<(&'a ParentFacts, Vec<Step>)> {
        let network = &self.attachment.id.network;
        let (there, host) = super::parent::ensured(network, parent, self.facts.parent.as_ref())?;
        super::parent::fits(self.link, there)?;
        Ok((there, host))
    }

    /// The hardware address, where the kind gives each device its own.
    pub(super) fn own_mac(&self) -> Mac {
        super::container_mac(self.attachment, self.link)
    }

    /// The device in its place, made from the namespace where its parent is.
    pub(super) fn born(
        &self,
        kind: netlink::DeviceKind,
        parent: Option<(&model::IfName, InterfaceNamespace)>,
        mac: Option<Mac>,
    ) -> Birth {
        let from = parent.map_or(InterfaceNamespace::Host, |(_, place)| place);
        let single = Single {
            name: self.peer_placement.name.clone(),
            kind,
            parent: parent.map(|(name, _)| name.clone()),
            mac,
            mtu: self.link.mtu,
            group: Identity::of(&self.attachment.id).group(),
            away: from == InterfaceNamespace::Host
                && self.peer_placement.place == InterfaceNamespace::Sandbox,
            shared: false,
        };
        match from {
            InterfaceNamespace::Host => {
                Birth { host: vec![Step::Single(single)], mac, ..Birth::default() }
            }
            InterfaceNamespace::Sandbox => {
                Birth { sandbox: vec![Step::Single(single)], mac, ..Birth::default() }
            }
        }
    }
}

/// The hardware address may follow from an address that was chosen after the link was made.
fn correct(there: &Connected, wanted: Option<Mac>, peer_placement: &PeerPlacement) -> Option<Step> {
    let wanted = wanted.filter(|_| there.mac.is_some() && there.mac != wanted)?;
    (peer_placement.place == InterfaceNamespace::Sandbox)
        .then(|| Step::Mac(peer_placement.name.clone(), wanted))
}
