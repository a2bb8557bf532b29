//! What connects a container: the field `driver`, and the link that its options describe.

use model::{
    Gateway, Ipam, Ipvlan, IpvlanMode, LinkKind, Macvlan, MacvlanMode, Parent, Place, Ptp, Result,
    Space, Vlan, VlanId,
};

use super::neutron;
use crate::plugin::{Call, bridge, device, ipvlan, macvlan, parent, tap};
use crate::wire::Object;

/// A driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Bridge,
    Ptp,
    Macvlan,
    Ipvlan,
    Vlan,
    Device,
    Dummy,
    Tap,
    Neutron,
}

impl Driver {
    pub(super) const ALL: &'static [Driver] = &[
        Driver::Bridge,
        Driver::Ptp,
        Driver::Macvlan,
        Driver::Ipvlan,
        Driver::Vlan,
        Driver::Device,
        Driver::Dummy,
        Driver::Tap,
        Driver::Neutron,
    ];

    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Driver::Bridge => "bridge",
            Driver::Ptp => "ptp",
            Driver::Macvlan => "macvlan",
            Driver::Ipvlan => "ipvlan",
            Driver::Vlan => "vlan",
            Driver::Device => "host-device",
            Driver::Dummy => "dummy",
            Driver::Tap => "tap",
            Driver::Neutron => "neutron",
        }
    }

    /// The one that `driver` names; `bridge` where it names none.
    pub(super) fn of(root: &Object<'_>) -> Result<Self> {
        let Some(node) = root.get("driver") else { return Ok(Driver::Bridge) };
        let text = node.text()?;
        let named = Self::ALL.iter().find(|driver| driver.name() == text).copied();
        named.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|driver| driver.name()).collect();
            node.wrong(format!("which is none of {}", names.join(", ")))
        })
    }

    /// The driver of a link; none where the runtime or somebody else makes it.
    pub(super) fn of_kind(kind: &LinkKind) -> Option<Self> {
        Some(match kind {
            LinkKind::Bridge(_) => Driver::Bridge,
            LinkKind::Ptp(_) => Driver::Ptp,
            LinkKind::Macvlan(_) => Driver::Macvlan,
            LinkKind::Ipvlan(_) => Driver::Ipvlan,
            LinkKind::Vlan(_) => Driver::Vlan,
            LinkKind::Device(_) => Driver::Device,
            LinkKind::Dummy => Driver::Dummy,
            LinkKind::Tap(_) => Driver::Tap,
            LinkKind::Neutron(_) => Driver::Neutron,
            LinkKind::Loopback
            | LinkKind::Chain(_)
            | LinkKind::Plug(_)
            | LinkKind::Remote(_)
            | LinkKind::ExternalInterface(_) => return None,
        })
    }

    /// Whether the container has an end in the host, where its packets can be filtered, limited and
    /// translated.
    pub(super) fn is_pair(self) -> bool {
        matches!(self, Driver::Bridge | Driver::Ptp)
    }

    /// Whether ports of the host may lead to its containers.
    pub(super) fn publishes(self) -> bool {
        self.is_pair() || self == Driver::Neutron
    }

    /// Whether what it connects to knows a way out.
    pub(super) fn leads_out(self) -> bool {
        match self {
            Driver::Bridge
            | Driver::Ptp
            | Driver::Macvlan
            | Driver::Ipvlan
            | Driver::Vlan
            | Driver::Device
            | Driver::Neutron => true,
            Driver::Dummy | Driver::Tap => false,
        }
    }

    /// Where addresses are unique. What reaches a segment of this host's shares its book: two
    /// networks on the same parent must not hand out the same address.
    pub(super) fn space(self, call: &Call<'_>, gateway: Gateway) -> Space {
        match self {
            Driver::Bridge => crate::plugin::link::space(call, gateway),
            Driver::Dummy | Driver::Tap | Driver::Neutron => {
                Space::Network(call.config.name().clone())
            }
            Driver::Ptp | Driver::Macvlan | Driver::Ipvlan | Driver::Vlan | Driver::Device => {
                Space::Host
            }
        }
    }

    /// The link that the configuration describes.
    pub(super) fn kind(self, call: &Call<'_>, root: &Object<'_>) -> Result<LinkKind> {
        Ok(match self {
            Driver::Bridge => {
                let name = model::bridge_name(call.config.name())?;
                LinkKind::Bridge(bridge::bridge(root, name.as_str())?)
            }
            Driver::Ptp => LinkKind::Ptp(Ptp { direct: root.flag("direct")? }),
            Driver::Macvlan => LinkKind::Macvlan(macvlan(root)?),
            Driver::Ipvlan => LinkKind::Ipvlan(Ipvlan {
                parent: parent_of(root, vlan(root)?)?,
                mode: ipvlan::mode(root)?,
            }),
            Driver::Vlan => LinkKind::Vlan(of_vlan(root)?),
            Driver::Device => LinkKind::Device(device::device(call)?),
            Driver::Dummy => LinkKind::Dummy,
            Driver::Tap => LinkKind::Tap(tap::tap(root)?),
            Driver::Neutron => LinkKind::Neutron(Box::new(neutron::link(root)?)),
        })
    }
}

fn macvlan(root: &Object<'_>) -> Result<Macvlan> {
    let macvlan = Macvlan {
        parent: parent_of(root, vlan(root)?)?,
        mode: macvlan::mode(root)?,
        broadcast_queue: macvlan::broadcast_queue(root)?,
        host_access: root.flag("hostAccess")?,
        probe: root.flag("probe")?,
    };
    if let (true, Some(node)) = (macvlan.host_access, root.get("hostAccess")) {
        if macvlan.mode != MacvlanMode::Bridge {
            return Err(node.wrong("but only \"mode\" bridge lets the host and containers talk"));
        }
        if macvlan.parent.place == Place::Sandbox {
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
    Ok(Vlan { parent: parent_of(root, None)?, id })
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
        (Place::Sandbox, Some(_), Some(node)) => Err(node
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
        (
            LinkKind::Ipvlan(Ipvlan { mode: IpvlanMode::L3 | IpvlanMode::L3s, .. }),
            Ipam::Dhcp(_),
        ) => Err(node.wrong("but without broadcasts nobody can ask; \"mode\" l2 has them")),
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
