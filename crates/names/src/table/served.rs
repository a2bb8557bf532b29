//! What is known of a network whose names are answered for.

use std::net::IpAddr;

use model::{EgressPolicy, Fence, FormerName, Ipam, NetworkName, Runtime, Wiring};

use super::ServedGateway;

/// A network whose names are answered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) places: Vec<ServedGateway>,
    pub(super) internal: bool,
    pub(super) servers: Vec<IpAddr>,
    pub(super) fence: Option<Fence>,
    /// The mark that leads to its way out, where it has one of its own.
    pub(super) way: Option<u32>,
    /// The runtime that made it, where no command has named it.
    pub(super) maker: Option<Runtime>,
}

impl Served {
    pub(super) fn of(
        (name, called, former): (&NetworkName, &NetworkName, &[FormerName]),
        network: (&Wiring, &Ipam, &[String]),
    ) -> Option<Self> {
        let (wiring, ipam, servers) = network;
        let bridge = wiring.link.as_ref()?.kind.bridge()?.name.clone();
        let place = |gateway| ServedGateway {
            network: name.clone(),
            called: called.clone(),
            former: former.to_vec(),
            bridge: bridge.clone(),
            gateway,
        };
        let places: Vec<ServedGateway> = wiring.name_servers(ipam).into_iter().map(place).collect();
        let internal = is_internal(wiring);
        let fence = wiring.fence.clone();
        let way = way_of(wiring);
        (!places.is_empty()).then(|| Self {
            places,
            internal,
            servers: parsed(servers),
            fence,
            way,
            maker: None,
        })
    }
}

/// The mark of what is asked for a network, where it has a way out of its own.
pub(super) fn way_of(wiring: &Wiring) -> Option<u32> {
    let bridge = wiring.link.as_ref()?.kind.bridge()?;
    wiring.via.as_ref().map(|_| model::way_table(&bridge.name))
}

pub(super) fn is_internal(wiring: &Wiring) -> bool {
    wiring.firewall.as_ref().is_some_and(|it| it.egress == EgressPolicy::Internal)
}

pub(super) fn parsed(servers: &[String]) -> Vec<IpAddr> {
    servers.iter().filter_map(|server| server.parse().ok()).collect()
}
