//! Comparing a link without an end in the host with what it should be.

use model::{
    Attachment, Error, Fact, IfName, InterfaceAddress, InterfaceNamespace, LinkKind, Parent, Result,
};
use netlink::{At, Link, Sharing, Socket};

use super::differs;
use crate::plan::parent::vlan_device;

/// The index of the parent in the host; `None` where there is none, or it may change.
pub(super) fn parent_in_host(attachment: &Attachment) -> Result<Option<u32>> {
    match parent(attachment) {
        Some(parent) if parent.place == InterfaceNamespace::Host => index(parent),
        Some(_) | None => Ok(None),
    }
}

fn parent(attachment: &Attachment) -> Option<&Parent> {
    attachment.wiring.link.as_ref()?.kind.parent()
}

fn index(parent: &Parent) -> Result<Option<u32>> {
    let Some(name) = &parent.name else { return Ok(None) };
    let name = match parent.vlan {
        Some(vlan) => vlan_device(name, vlan)?,
        None => name.clone(),
    };
    match Socket::route()?.link(At::Name(&name))? {
        Some(link) => Ok(Some(link.index)),
        None => Err(differs(format!("master {name} is missing")).about(Fact::NoParent)),
    }
}

fn other_kind(name: &IfName) -> Error {
    differs(format!("interface {name} is of another kind")).about(Fact::OtherKind(name.clone()))
}

/// As configurations write it.
fn mode(sharing: Sharing) -> Option<String> {
    match sharing {
        Sharing::Macvlan(mode) => Some(format!("{mode:?}").to_lowercase()),
        Sharing::Ipvlan(mode) => Some(format!("{mode:?}").to_lowercase()),
        Sharing::Vlan(_) => None,
    }
}

/// In the reference plugin's words, which it took from `tuning`.
fn other_number(name: &IfName, is: Sharing, wanted: Sharing) -> Fact {
    match (is, wanted) {
        (Sharing::Vlan(is), Sharing::Vlan(wanted)) => Fact::Words(format!(
            "Error: Tuning link {name} configured promisc is {}, current value is {}",
            wanted.number(),
            is.number()
        )),
        (_, _) => Fact::OtherKind(name.clone()),
    }
}

/// A VLAN has the MTU that was asked for. The reference looks at that of no other kind.
fn same_mtu(attachment: &Attachment, link: &Link) -> Result<()> {
    let wanted = attachment.wiring.link.as_ref().filter(|it| matches!(it.kind, LinkKind::Vlan(_)));
    match wanted.and_then(|it| it.mtu) {
        Some(mtu) if mtu.bytes() != link.mtu => {
            let (name, is) = (&link.name, link.mtu);
            let words =
                format!("Error: Tuning configured MTU of {name} is {mtu}, current value is {is}");
            Err(differs(format!("interface {name} has the MTU {is}, not {mtu}"))
                .about(Fact::Words(words)))
        }
        Some(_) | None => Ok(()),
    }
}

/// A link on a parent is up where its addresses have a gateway, which is not reached otherwise; in the reference
/// plugins' words.
pub(super) fn reaches_gateway(
    attachment: &Attachment,
    link: &Link,
    addresses: &[InterfaceAddress],
) -> Result<()> {
    let name = &link.name;
    match addresses.iter().find_map(|held| held.gateway) {
        Some(gateway) if parent(attachment).is_some() && !link.flags.is_up() => {
            let words = format!("Failed to find Gateway {gateway} for interface {name}");
            Err(differs(format!("interface {name} is down")).about(Fact::Words(words)))
        }
        Some(_) | None => Ok(()),
    }
}

/// The kernel's driver of a link of this kind, where nothing else of the link says which kind it is.
fn driver(kind: &LinkKind) -> Option<&'static str> {
    match kind {
        LinkKind::Dummy => Some("dummy"),
        LinkKind::Tap(_) => Some("tun"),
        LinkKind::Bridge(_) | LinkKind::Ptp(_) => Some("veth"),
        LinkKind::Loopback
        | LinkKind::Macvlan(_)
        | LinkKind::Ipvlan(_)
        | LinkKind::Vlan(_)
        | LinkKind::Device(_)
        | LinkKind::Chain(_)
        | LinkKind::Neutron(_)
        | LinkKind::Ovs(_)
        | LinkKind::Plug(_)
        | LinkKind::Remote(_)
        | LinkKind::ExternalInterface(_) => None,
    }
}

/// The link is of its kind and on its parent; the calling thread is in the container.
pub(super) fn check(attachment: &Attachment, link: &Link, in_host: Option<u32>) -> Result<()> {
    let Some(kind) = attachment.wiring.link.as_ref().map(|link| &link.kind) else {
        return Ok(());
    };
    let name = &link.name;
    let sharing = match kind {
        LinkKind::Macvlan(macvlan) => Some(Sharing::Macvlan(macvlan.mode)),
        LinkKind::Ipvlan(ipvlan) => Some(Sharing::Ipvlan(ipvlan.mode)),
        LinkKind::Vlan(vlan) => Some(Sharing::Vlan(vlan.id)),
        LinkKind::Bridge(_)
        | LinkKind::Ptp(_)
        | LinkKind::Loopback
        | LinkKind::Device(_)
        | LinkKind::Dummy
        | LinkKind::Tap(_)
        | LinkKind::Chain(_)
        | LinkKind::Neutron(_)
        | LinkKind::Ovs(_)
        | LinkKind::Plug(_)
        | LinkKind::Remote(_)
        | LinkKind::ExternalInterface(_) => None,
    };
    if sharing.is_some() && link.sharing != sharing {
        return Err(match (sharing, link.sharing) {
            (Some(wanted), Some(is)) => {
                let fact = match (mode(is), mode(wanted)) {
                    (Some(is), Some(wanted)) => Fact::OtherMode { is, wanted },
                    (_, _) => other_number(name, is, wanted),
                };
                differs(format!("interface {name} is {is:?}, not {wanted:?}")).about(fact)
            }
            (_, _) => other_kind(name),
        });
    }
    same_mtu(attachment, link)?;
    let driver = driver(kind);
    if driver.is_some() && link.kind.as_deref() != driver {
        return Err(other_kind(name));
    }
    if matches!(kind, LinkKind::Dummy) && !link.flags.is_up() {
        return Err(differs(format!("interface {name} is down")).about(Fact::Down(name.clone())));
    }
    let below = match parent(attachment) {
        Some(parent) if parent.place == InterfaceNamespace::Sandbox => index(parent)?,
        Some(_) | None => in_host,
    };
    match (below, link.peer) {
        (Some(wanted), is) if is != Some(wanted) => {
            Err(differs(format!("interface {name} is on another master")))
        }
        (_, _) => Ok(()),
    }
}
