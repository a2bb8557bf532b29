//! The field `driver`, and the link that its options describe.

use model::{
    Gateway, InterfaceNamespace, Ipam, Ipvlan, IpvlanMode, LinkKind, Macvlan, MacvlanMode, Parent,
    Ptp, Result, Space, Vlan, VlanId,
};
use spec::{Driver, NetworkSpec};

use super::{neutron, ovs};
use crate::call::Call;
use crate::plugin::{bridge, device, ipvlan, macvlan, parent, tap};
use crate::wire::Object;

/// The driver that `driver` names; `bridge` where it names none.
pub(super) fn named(root: &Object<'_>) -> Result<Driver> {
    let Some(node) = root.get("driver") else { return Ok(Driver::Bridge) };
    let text = node.text()?;
    let named = Driver::CNI.iter().find(|driver| driver.name() == text).copied();
    named.ok_or_else(|| {
        let names: Vec<&str> = Driver::CNI.iter().map(|driver| driver.name()).collect();
        node.wrong(format!("which is none of {}", names.join(", ")))
    })
}

/// Whether its link can have a default route.
pub(super) fn leads_out(driver: Driver) -> bool {
    !matches!(driver, Driver::Dummy | Driver::Tap)
}

/// The address space. Networks on a segment of this host share that segment's space: two networks
/// on the same parent must not allocate the same address.
pub(super) fn space(driver: Driver, call: &Call<'_>, gateway: Gateway) -> Space {
    match driver {
        Driver::Bridge => crate::plugin::link::space(call, gateway),
        Driver::Dummy
        | Driver::Tap
        | Driver::Neutron
        | Driver::Ovs
        | Driver::Chain
        | Driver::Plugin => Space::Network(call.config.name().clone()),
        Driver::Ptp | Driver::Macvlan | Driver::Ipvlan | Driver::Vlan | Driver::Device => {
            Space::Host
        }
    }
}

/// The link that the configuration describes.
pub(super) fn kind(
    driver: Driver,
    call: &Call<'_>,
    root: &Object<'_>,
    answer: &NetworkSpec,
) -> Result<LinkKind> {
    Ok(match driver {
        Driver::Ptp => LinkKind::Ptp(Ptp { direct: answer.direct.unwrap_or(false) }),
        Driver::Macvlan => LinkKind::Macvlan(macvlan(root, answer)?),
        Driver::Ipvlan => LinkKind::Ipvlan(Ipvlan {
            parent: parent_of(root, vlan(root)?)?,
            mode: ipvlan::mode(root)?,
        }),
        Driver::Vlan => LinkKind::Vlan(of_vlan(root)?),
        Driver::Device => LinkKind::Device(device::device(call)?),
        Driver::Dummy => LinkKind::Dummy,
        Driver::Tap => LinkKind::Tap(tap::tap(root)?),
        Driver::Neutron => LinkKind::Neutron(Box::new(neutron::link(root)?)),
        Driver::Ovs => LinkKind::Ovs(Box::new(ovs::segment(root)?)),
        // `named` gives none of the last two.
        Driver::Bridge | Driver::Chain | Driver::Plugin => {
            let name = model::bridge_name(call.config.name())?;
            LinkKind::Bridge(bridge::bridge(root, name.as_str())?)
        }
    })
}

fn macvlan(root: &Object<'_>, answer: &NetworkSpec) -> Result<Macvlan> {
    let macvlan = Macvlan {
        parent: parent_of(root, vlan(root)?)?,
        mode: macvlan::mode(root)?,
        broadcast_queue: macvlan::broadcast_queue(root)?,
        host_access: answer.host_access.unwrap_or(false),
        probe: answer.probe.unwrap_or(false),
    };
    if let (true, Some(node)) = (macvlan.host_access, root.get("hostAccess")) {
        if macvlan.mode != MacvlanMode::Bridge {
            return Err(node.wrong("but only \"mode\" bridge lets the host and containers talk"));
        }
        if macvlan.parent.place == InterfaceNamespace::Sandbox {
            return Err(node.wrong("but \"linkInContainer\" puts the parent out of its reach"));
        }
    }
    Ok(macvlan)
}

fn of_vlan(root: &Object<'_>) -> Result<Vlan> {
    let id = match (vlan(root)?, root.get("vlanId")) {
        (Some(_), Some(node)) => {
            return Err(node.wrong("but \"vlan\" says the same, and one of them is enough"));
        }
        (Some(id), None) => id,
        (None, Some(node)) => number(&node)?,
        (None, None) => {
            return Err(model::Error::invalid(
                "driver vlan needs a \"vlan\" from 1 to 4094, and a \"parent\"",
            ));
        }
    };
    Ok(Vlan { parent: parent_of(root, None)?, id: id.into() })
}

/// The device in `parent`, which the reference plugins call `master`.
fn parent_of(root: &Object<'_>, vlan: Option<VlanId>) -> Result<Parent> {
    let parent = parent::parent(root)?;
    let named = root.parse("parent")?;
    if let (Some(_), Some(_), Some(node)) = (&named, &parent.name, root.get("master")) {
        return Err(node.wrong("but \"parent\" says the same, and one of them is enough"));
    }
    let parent = Parent { name: named.or(parent.name), vlan, ..parent };
    match (parent.place, vlan, root.get("vlan")) {
        (InterfaceNamespace::Sandbox, Some(_), Some(node)) => Err(node
            .wrong("but a VLAN of a parent is made in the host, and \"linkInContainer\" is true")),
        (_, _, _) => Ok(parent),
    }
}

fn vlan(root: &Object<'_>) -> Result<Option<VlanId>> {
    match root.get("vlan") {
        None => Ok(None),
        Some(node) if node.integer()? == 0 => Ok(None),
        Some(node) => number(&node).map(Some),
    }
}

fn number(node: &crate::wire::Node<'_>) -> Result<VlanId> {
    let number = u16::try_from(node.integer()?).ok().and_then(VlanId::new);
    number.ok_or_else(|| node.wrong("which is no VLAN; they are 1 to 4094"))
}

/// Refuses an address source that the link cannot have.
pub(super) fn refuse_source(root: &Object<'_>, kind: &LinkKind, ipam: &Ipam) -> Result<()> {
    let Some(node) = root.get("ipam") else { return require_source(root, kind) };
    match (kind, ipam) {
        (LinkKind::Ptp(_) | LinkKind::Dummy | LinkKind::Tap(_), Ipam::Dhcp(_)) => {
            Err(node.wrong("but no DHCP server is on the other end of such a link"))
        }
        (LinkKind::Ovs(_), Ipam::Dhcp(_)) => {
            Err(node.wrong("but ports of a switch are made with their addresses; name ranges"))
        }
        (
            LinkKind::Ipvlan(Ipvlan { mode: IpvlanMode::L3 | IpvlanMode::L3s, .. }),
            Ipam::Dhcp(_),
        ) => Err(node.wrong("but DHCP needs broadcasts; \"mode\" l2 has them")),
        (LinkKind::Bridge(bridge), ipam) if bridge.port.left_down && *ipam != Ipam::None => {
            Err(node.wrong("but \"disableContainerInterface\" is true"))
        }
        (_, Ipam::None) => require_source(root, kind),
        (_, _) => Ok(()),
    }
}

/// Some links are of no use without an address.
fn require_source(root: &Object<'_>, kind: &LinkKind) -> Result<()> {
    let probes = matches!(kind, LinkKind::Macvlan(Macvlan { probe: true, .. }));
    match (kind, root.get("probe")) {
        (LinkKind::Ptp(_), _) => {
            Err(model::Error::invalid("driver ptp needs an address: \"ipam\" gives none"))
        }
        (_, Some(node)) if probes => Err(node.wrong("but \"ipam\" gives no address to probe")),
        (_, _) => Ok(()),
    }
}
