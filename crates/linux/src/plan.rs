//! The plan, as data. Planning reads nothing and changes nothing: it turns a record and the facts
//! into steps.

mod bridge;
mod device;
mod dummy;
pub(crate) mod external;
mod facts;
pub(crate) mod gateway;
mod guest;
mod ipvlan;
mod link_local;
mod loopback;
mod macvlan;
pub(crate) mod parent;
mod peer_placement;
mod plug;
pub(crate) mod port;
mod ptp;
mod route;
mod single;
mod step;
mod vlan;

use model::{
    Attached, Attachment, Error, Family, Form, Handoff, IfName, InterfaceAddress,
    InterfaceNamespace, IpNet, Ipam, Link, LinkKind, Mac, MacvlanMode, Network, Result, Route,
};

use crate::identity::{Identity, mac_of};

pub use facts::{
    BridgeFacts, Connected, DeviceFacts, ExternalFacts, ExternalLink, Facts, ParentFacts,
};
pub(crate) use peer_placement::PeerPlacement;
pub use port::{Port, VlanGateway};
pub use single::Single;
pub use step::{Step, Tap, Veth};

/// The steps of attaching one link, and the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the host's namespace.
    pub host: Vec<Step>,
    /// In the container's, after the host's.
    pub sandbox: Vec<Step>,
    /// In the host's again, once the container's are done.
    pub after: Vec<Step>,
    /// The result.
    pub attached: Attached,
}

/// The plan that makes the attachment's link. Where its sandbox has several interfaces, it has the
/// default routes of its present gateway role.
pub fn attach(attachment: &Attachment, facts: &Facts) -> Result<Plan> {
    let mut plan = make(attachment, facts)?;
    link_local::add(attachment, &mut plan)?;
    gateway::withhold(attachment, &mut plan.sandbox);
    Ok(plan)
}

fn make(attachment: &Attachment, facts: &Facts) -> Result<Plan> {
    let Some(link) = &attachment.wiring.link else {
        return Err(Error::bug(format!("{} has no link to plan", attachment.id)));
    };
    match (&link.kind, attachment.handoff) {
        (LinkKind::Bridge(bridge), _) => bridge::plan(attachment, link, bridge, facts),
        (LinkKind::Plug(plug), _) => plug::plan(attachment, link, plug, facts),
        (LinkKind::ExternalInterface(external), _) => {
            external::plan(attachment, link, external, facts)
        }
        (
            LinkKind::Ptp(_) | LinkKind::Loopback | LinkKind::Device(_) | LinkKind::Tap(_),
            Handoff::Caller,
        ) => Err(Error::unsupported(format!(
            "{}: a link of this kind cannot be completed by the runtime",
            attachment.id
        ))),
        (LinkKind::Ptp(_), Handoff::Finish) => ptp::plan(attachment, link, facts),
        (LinkKind::Loopback, Handoff::Finish) => loopback::plan(),
        (kind, _) if kind.traits().form == Form::Foreign => {
            Err(Error::unsupported(format!("{}: third-party plugins make its link", attachment.id)))
        }
        (_, _) => single::plan(attachment, link, facts),
    }
}

/// The plan that makes the attachment's link alone, up and without addresses.
pub fn connect(attachment: &Attachment, facts: &Facts) -> Result<Plan> {
    let mut bare = attachment.clone();
    if let Some(link) = &mut bare.wiring.link {
        link.mac = hardware_address(attachment);
    }
    bare.addresses.clear();
    bare.routes.clear();
    bare.link_local.clear();
    let mut plan = attach(&bare, facts)?;
    let peer_placement = PeerPlacement::of(attachment)?;
    if peer_placement.place == InterfaceNamespace::Host && attachment.tap().is_none() {
        plan.host.push(Step::Up(peer_placement.name));
    }
    Ok(plan)
}

/// The steps in the host's namespace that make what a network's attachments share.
pub fn up(network: &Network, facts: &Facts) -> Result<Vec<Step>> {
    match &network.wiring.link {
        Some(link @ Link { kind: LinkKind::Bridge(bridge), .. }) => {
            bridge::up(network, link, bridge, facts)
        }
        Some(Link { kind: LinkKind::Macvlan(macvlan), .. }) => {
            macvlan::up(&network.name, macvlan, facts)
        }
        Some(Link { kind, .. }) => match (kind.parent(), &facts.parent) {
            (Some(below), Some(_)) => {
                Ok(parent::ensured(&network.name, below, facts.parent.as_ref())?.1)
            }
            (_, _) => Ok(Vec::new()),
        },
        None => Ok(Vec::new()),
    }
}

/// The gateways of a network that has a gateway on each of its subnets, with their subnets' prefix
/// lengths.
pub(crate) fn gateways(ipam: &Ipam) -> Vec<IpNet> {
    let ranges = ipam.pools().iter().flat_map(|pool| &pool.ranges);
    let ours =
        ranges.map(|range| (range.gateway.or(model::first_host(&range.subnet)), range.subnet));
    let reported = ipam.fixed_addresses().iter().map(|lease| (lease.gateway, lease.address));
    let all = ours.chain(reported);
    all.filter_map(|(gateway, net)| IpNet::new(gateway?, net.prefix_len()).ok()).collect()
}

/// The name of the interface in the container, where Spoke completes it.
pub(crate) fn device(attachment: &Attachment) -> &IfName {
    let link = attachment.wiring.link.as_ref();
    link.and_then(|link| link.name.as_ref()).unwrap_or(&attachment.id.ifname)
}

/// The host's end of the attachment's pair.
pub(crate) fn host_end(attachment: &Attachment) -> Result<IfName> {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Plug(plug)) => Ok(plug.end.clone()),
        Some(_) | None => Identity::of(&attachment.id).host_link(),
    }
}

/// The hardware address of the container's end.
pub(crate) fn container_mac(attachment: &Attachment, link: &Link) -> Mac {
    // With an address source that is asked over the link, the link has it before there are
    // addresses.
    let held = attachment.addresses.first().filter(|_| !attachment.ipam.asks_over_link());
    let own = || match held {
        Some(held) => mac_of(&attachment.id.network, held.address.addr()),
        None => Identity::of(&attachment.id).mac(),
    };
    link.mac.unwrap_or_else(own)
}

/// The hardware address of the attachment's interface; `None` where Spoke does not choose it.
pub(crate) fn hardware_address(attachment: &Attachment) -> Option<Mac> {
    let link = attachment.wiring.link.as_ref()?;
    match (&link.kind, link.kind.traits().form) {
        (LinkKind::Macvlan(macvlan), _) if macvlan.mode == MacvlanMode::Passthru => None,
        (LinkKind::Ipvlan(_) | LinkKind::Chain(_), _) => None,
        (LinkKind::Vlan(_) | LinkKind::ExternalInterface(_), _) | (_, Form::Foreign) => link.mac,
        (_, Form::Lent) => None,
        (_, Form::Pair | Form::Single) => Some(container_mac(attachment, link)),
    }
}

/// Makes a pair, unless that was done before.
fn pair(
    veth: Veth,
    peer_placement: &PeerPlacement,
    attachment: &Attachment,
    facts: &Facts,
) -> Result<Option<Step>> {
    match &facts.connected {
        None => Ok(Some(Step::Veth(veth))),
        Some(there) => peer_placement.bring(there, attachment),
    }
}

/// The steps that make an interface in the container usable.
fn complete(
    attachment: &Attachment,
    device: &IfName,
    addresses: &[InterfaceAddress],
    routes: &[Route],
) -> Vec<Step> {
    let mut steps = ipv6(device, addresses);
    steps.extend(configure(attachment, device, addresses));
    steps.extend(route::steps(device, routes, addresses));
    steps
}

/// Gives a container's interface its addresses and sets it up. From then on it announces changes of
/// its hardware address to its neighbours. At this first time only one that does not derive from the
/// address is new to them: an announcement floods every port of the bridge.
fn configure(
    attachment: &Attachment,
    ifname: &IfName,
    addresses: &[InterfaceAddress],
) -> Vec<Step> {
    let address = |held: &InterfaceAddress| Step::Address(ifname.clone(), held.address);
    let mut steps: Vec<Step> = addresses.iter().map(address).collect();
    let is_new = |held: &&InterfaceAddress| is_new(attachment, held);
    let new: Vec<Family> = addresses.iter().filter(is_new).map(family).collect();
    let announcements = announcements(ifname, addresses).into_iter();
    let (now, later): (Vec<_>, Vec<_>) = announcements.partition(|(of, _)| new.contains(of));
    steps.extend(now.into_iter().map(|(_, step)| step));
    steps.push(Step::Up(ifname.clone()));
    steps.extend(later.into_iter().map(|(_, step)| step));
    steps
}

/// Whether neighbours may remember another hardware address for this one.
fn is_new(attachment: &Attachment, held: &InterfaceAddress) -> bool {
    let given = || attachment.wiring.link.as_ref().and_then(|link| link.mac);
    let mac = hardware_address(attachment).or_else(given);
    mac.is_some_and(|mac| mac != mac_of(&attachment.id.network, held.address.addr()))
}

/// What makes an interface with these addresses announce changes, by family.
fn announcements(ifname: &IfName, addresses: &[InterfaceAddress]) -> Vec<(Family, Step)> {
    let mut steps = Vec::new();
    if addresses.iter().any(is_v4) {
        let path = format!("net/ipv4/conf/{ifname}/arp_notify");
        steps.push((Family::V4, improve(path, "1")));
    }
    if addresses.iter().any(|address| !is_v4(address)) {
        let path = format!("net/ipv6/conf/{ifname}/ndisc_notify");
        steps.push((Family::V6, improve(path, "1")));
    }
    steps
}

fn family(held: &InterfaceAddress) -> Family {
    Family::of(&held.address)
}

fn is_v4(address: &InterfaceAddress) -> bool {
    family(address) == Family::V4
}

/// Lets a container's interface have the IPv6 addresses that it gets.
fn ipv6(ifname: &IfName, addresses: &[InterfaceAddress]) -> Vec<Step> {
    if addresses.iter().all(is_v4) {
        return Vec::new();
    }
    vec![
        improve("net/ipv6/conf/lo/disable_ipv6".into(), "0"),
        improve(format!("net/ipv6/conf/{ifname}/disable_ipv6"), "0"),
        improve(format!("net/ipv6/conf/{ifname}/keep_addr_on_down"), "1"),
    ]
}

fn improve(path: String, value: &'static str) -> Step {
    Step::Sysctl { path, value, optional: true }
}

/// Keeps routers behind `device`, which was made in the host's namespace, from giving the host a
/// route (CVE-2020-10749).
fn refuse_router_advertisements(device: &IfName) -> Step {
    improve(format!("net/ipv6/conf/{device}/accept_ra"), "0")
}

/// Makes the host forward packets of the families that the addresses have.
fn forwarding(addresses: &[IpNet]) -> impl Iterator<Item = Step> {
    let has = |family: &Family| addresses.iter().any(|net| Family::of(net) == *family);
    [Family::V4, Family::V6].into_iter().filter(has).map(Step::Forward)
}

#[cfg(test)]
mod tests;
