//! The output about links on a parent's segment.

use model::{IpvlanMode, LinkKind, MacvlanMode};

use super::NetworkView;

/// The columns that only such links fill.
#[derive(Default)]
pub(super) struct Lan {
    pub(super) parent: Option<String>,
    pub(super) vlan: Option<u16>,
    pub(super) mode: Option<&'static str>,
    pub(super) host_access: bool,
    pub(super) probe: bool,
}

impl Lan {
    pub(super) fn of(kind: Option<&LinkKind>) -> Self {
        let Some((kind, parent)) = kind.and_then(|kind| Some((kind, kind.parent()?))) else {
            return Self::default();
        };
        let name = parent.name.as_ref().map_or_else(|| "default".to_owned(), ToString::to_string);
        let shown = Self {
            parent: Some(name),
            vlan: parent.vlan.map(model::VlanId::number),
            ..Self::default()
        };
        match kind {
            LinkKind::Macvlan(macvlan) => Self {
                mode: Some(match macvlan.mode {
                    MacvlanMode::Bridge => "bridge",
                    MacvlanMode::Private => "private",
                    MacvlanMode::Vepa => "vepa",
                    MacvlanMode::Passthru => "passthru",
                }),
                host_access: macvlan.host_access,
                probe: macvlan.probe,
                ..shown
            },
            LinkKind::Ipvlan(ipvlan) => Self {
                mode: Some(match ipvlan.mode {
                    IpvlanMode::L2 => "l2",
                    IpvlanMode::L3 => "l3",
                    IpvlanMode::L3s => "l3s",
                }),
                ..shown
            },
            LinkKind::Vlan(vlan) => Self { vlan: Some(vlan.id.number()), ..shown },
            _ => shown,
        }
    }
}

impl NetworkView {
    /// The device of its containers: a bridge, a device of the host with its VLAN, or a network of
    /// Neutron.
    pub(crate) fn device(&self) -> String {
        if let Some(neutron) = &self.neutron {
            return neutron.network.clone();
        }
        match (&self.bridge, &self.parent, self.vlan) {
            (Some(bridge), _, _) => bridge.clone(),
            (None, Some(parent), Some(vlan)) => format!("{parent}.{vlan}"),
            (None, Some(parent), None) => parent.clone(),
            (None, None, _) => String::new(),
        }
    }
}
