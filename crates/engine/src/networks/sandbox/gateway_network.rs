//! The gateway network, for sandboxes of which no network has a default route (libnetwork's `docker_gwbridge`).

use model::{
    Attachment, AttachmentId, Bridge, BridgePort, Error, Family, Firewall, Gateway, IfName,
    IngressPolicy, Ipam, Kind, Layer, Link, LinkKind, Masquerade, Network, NetworkName, Order,
    Phase, Pool, PoolId, Range, Result, Runtime, Space, Wiring, bridge_name, first_host,
};

use crate::contention::RACES;
use crate::links::gateway_choice::GATEWAY_NETWORK;
use crate::{Networks, Request};

impl Networks<'_> {
    /// The gateway endpoint for the sandbox of these complete attachments, with the name at this
    /// place among the possible ones. It brings the ports of the sandbox, as any other does.
    pub(super) fn gateway_endpoint_of(
        &self,
        members: &[Attachment],
        place: u16,
    ) -> Result<Option<Request>> {
        let Some(one) = members.iter().find(|member| !is_gateway_endpoint(&member.id)) else {
            return Ok(None);
        };
        let network = self.gateway_network()?;
        Ok(Some(Request {
            labels: model::Labels::default(),
            layer: Layer::Link,
            container: one.sandbox_name().clone(),
            ifname: next_name(members, place)?,
            names: Vec::new(),
            dns: model::Dns::default(),
            owner: one.owner.clone(),
            sandbox: one.sandbox.clone(),
            wiring: network.wiring.clone(),
            ipam: network.ipam.clone(),
            wanted: Vec::new(),
            addresses: Vec::new(),
            network,
        }))
    }

    /// The network itself, made if it is not there.
    fn gateway_network(&self) -> Result<Network> {
        let name: NetworkName = GATEWAY_NETWORK.parse()?;
        for _ in 0..RACES {
            if let Some(network) = self.records.declared(&name)? {
                return checked(network);
            }
            match self.create(&self.described(&name)?) {
                Ok(()) => {}
                // Another process made it, or took its subnet, a moment ago.
                Err(error) if error.kind() == Kind::Conflict => {}
                Err(error) => return Err(error.context(format!("making network {name}"))),
            }
        }
        Err(Error::try_again(format!("network {name}: others take every subnet that is free")))
    }

    fn described(&self, name: &NetworkName) -> Result<Network> {
        let net = self.subnets.occupancy()?.choose(Family::V4, None)?;
        let range = Range::of_hosts(net, None, first_host(&net))?;
        let pool = Pool {
            id: PoolId { network: name.clone(), index: 0 },
            space: Space::Host,
            ranges: vec![range],
            order: Order::NextAfterLast,
        };
        Ok(Network::new(
            name.clone(),
            Runtime::Spoke,
            self.host.now(),
            self.wiring_of(bridge_name(name)?),
            Ipam::Book { pools: vec![pool] },
        ))
    }

    fn wiring_of(&self, name: IfName) -> Wiring {
        let backend = self.host.backend();
        let firewall = Firewall {
            ingress: IngressPolicy::Isolated,
            bridge: Some(name.clone()),
            ..Firewall::open(backend)
        };
        let kind = LinkKind::Bridge(Bridge {
            name,
            gateway: Gateway::Default,
            host_absent: model::Absence::default(),
            force_address: false,
            hairpin: true,
            promiscuous: false,
            port: BridgePort { isolated: true, ..BridgePort::default() },
        });
        Wiring {
            link: Some(Link { kind, name: None, mac: None, mtu: None }),
            masquerade: Some(Masquerade::new(backend)),
            firewall: Some(firewall),
            ..Wiring::default()
        }
    }
}

pub(crate) fn is_gateway_endpoint(id: &AttachmentId) -> bool {
    id.network.as_str() == GATEWAY_NETWORK
}

/// A user's network of this name is used if it can have a default route.
fn checked(network: Network) -> Result<Network> {
    match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Bridge(Bridge { gateway: Gateway::Default, .. })) => Ok(network),
        _ => Err(Error::conflict(format!(
            "network {} is no bridge with a default route, and sandboxes without another \
             default gateway need one of this name; rename it, or remove it",
            network.name
        ))),
    }
}

/// After the last of the interfaces that are called so, as Docker calls them.
fn next_name(members: &[Attachment], place: u16) -> Result<IfName> {
    let number = |name: &IfName| name.as_str().strip_prefix("eth")?.parse::<u16>().ok();
    let made = members.iter().filter_map(|member| match &member.phase {
        Phase::Attached(attached) => Some(&attached.interfaces),
        _ => None,
    });
    let made = made
        .flatten()
        .filter(|it| it.place == model::InterfaceNamespace::Sandbox)
        .map(|it| &it.name);
    let last = made.chain(members.iter().map(|member| &member.id.ifname)).filter_map(number).max();
    format!("eth{}", last.map_or(0, |last| last.saturating_add(1)).saturating_add(place)).parse()
}
