//! Which elements of our tables an attachment has.

use std::net::IpAddr;

use model::{
    Attachment, Backend, EgressPolicy, Family, GatewayRole, IfName, IngressPolicy, Layer, LinkKind,
    Passage, Publish, Result,
};
use netlink::route::{MAIN, Routes};
use netlink::{At, Socket};

use super::loopback::{has_ports_at_loopback, is_shared, publishes_at_loopback};
use crate::filter::{Elements, Owner};
use crate::identity::Identity;
use crate::plan::gateway::is_gateway;
use crate::plan::port::{gateway_device, vlan_of_gateway};
use crate::subnets::is_default;

/// The elements of an attachment, and the host's interface that leads to it.
pub(super) struct ExpectedElements {
    pub(super) elements: Elements,
    pub(super) behind: Option<IfName>,
}

impl ExpectedElements {
    /// `None` where nothing of the wiring is in our table.
    pub(super) fn of(attachment: &Attachment) -> Result<Option<Self>> {
        let Some(owner) = owner(attachment)? else { return Ok(None) };
        let mut wanted = Self { elements: Elements::new(owner), behind: behind(attachment)? };
        wanted.masquerade(attachment);
        wanted.publish(attachment);
        wanted.at_loopback(attachment);
        wanted.firewall(attachment);
        wanted.switch(attachment);
        Ok(Some(wanted))
    }

    fn masquerade(&mut self, attachment: &Attachment) {
        let masquerade = attachment.wiring.masquerade.as_ref();
        let Some(masquerade) = masquerade.filter(|part| part.backend == Backend::Nftables) else {
            return;
        };
        let bridged = attachment.wiring.link.as_ref().is_some_and(is_bridged);
        for container in attachment.addresses.iter().map(|held| held.address.addr()) {
            let family = Family::of(&model::host_net(container));
            if !masquerade.is_of(family) {
                continue;
            }
            match masquerade.sources.of(family) {
                Some(host) => self.elements.masquerade_as(container, host),
                None => self.elements.masquerade(container),
            };
            match &self.behind {
                Some(behind) if bridged => self.elements.home(behind, container),
                Some(_) | None => self.elements.routed(container),
            };
        }
    }

    /// Where the bridge is not the gateway, nothing of the above may happen to what only passes it.
    fn switch(&mut self, attachment: &Attachment) {
        let Some(bridge) = switching(attachment).filter(|_| !self.elements.is_empty()) else {
            return;
        };
        for container in attachment.addresses.iter().map(|held| held.address.addr()) {
            self.elements.switched(bridge, container);
        }
    }

    fn publish(&mut self, attachment: &Attachment) {
        let Some(publish) = &attachment.wiring.publish else { return };
        if publish.backend != Backend::Nftables || publish.is_empty() {
            return;
        }
        // Ports of the host are those of a family that is not routed; `served` has the others.
        let is_judged = match attachment.wiring.passage() {
            Passage::Unjudged | Passage::EverybodyOf(_) => false,
            Passage::Trusted(_) | Passage::Everybody => true,
        };
        let led = |it: &IpAddr| is_gateway(attachment, Family::of(&model::host_net(*it)));
        for container in published(attachment).filter(led) {
            for port in &publish.ports {
                self.elements.publish(port, container);
                if is_judged {
                    self.elements.serve(container, (port.protocol, port.container_port));
                }
            }
            for served in &publish.served {
                self.elements.serve(container, *served);
            }
            if publish.ports.is_empty() {
                continue;
            }
            self.elements.reach(publish.reach, container);
            self.translate(publish, container);
        }
    }

    fn translate(&mut self, publish: &Publish, container: IpAddr) {
        if let (true, Some(behind)) = (publish.snat, &self.behind) {
            self.elements.hairpin(behind, container);
        }
        if publish.masquerade_all {
            self.elements.masquerade_all(container);
        }
    }

    /// Whichever program publishes the ports.
    fn at_loopback(&mut self, attachment: &Attachment) {
        let Some(behind) = self.behind.as_ref().filter(|_| is_shared(attachment)) else { return };
        if let (true, Some(IpAddr::V4(container))) =
            (publishes_at_loopback(attachment), attachment.first(Family::V4).map(|net| net.addr()))
        {
            self.elements.at_loopback(behind, container);
        }
    }

    fn firewall(&mut self, attachment: &Attachment) {
        let Some(firewall) = &attachment.wiring.firewall else { return };
        let Some(behind) = self.behind.clone() else { return };
        if firewall.backend != Backend::Nftables {
            return;
        }
        if firewall.egress == EgressPolicy::Internal || attachment.wiring.address_space.is_some() {
            self.elements.internal(&behind);
        }
        let passage = attachment.wiring.passage();
        // Addresses of a tenant may be those of others, too. What comes from those of a network that this host has no address
        // in is not behind its bridge by any route.
        let bridge = attachment.wiring.bridge();
        let is_apart = attachment.wiring.address_space.is_none()
            && (firewall.ingress != IngressPolicy::Open || !passage.is_unjudged());
        self.elements.judge(&behind, passage);
        for container in attachment.addresses.iter().map(|held| held.address.addr()) {
            self.elements.ingress(firewall.ingress, &behind, container);
            let family = Family::of(&model::host_net(container));
            if is_apart
                && bridge.is_some_and(|it| it.is_gateway_of(family))
                && switching(attachment).is_none()
            {
                self.elements.apart(container);
            }
        }
    }
}

/// The attachment as the default gateway of its sandbox in these families.
pub(super) fn gateway_route(attachment: &Attachment, families: &[Family]) -> Attachment {
    let priority = attachment.gateway_role.as_ref().map_or(0, |gateway_role| gateway_role.priority);
    let gateway_role =
        Some(GatewayRole { families: families.to_vec(), ..GatewayRole::of(priority) });
    Attachment { gateway_role, ..attachment.clone() }
}

/// Whose the elements of an attachment are; `None` where nothing of the wiring is in our table, nor
/// said there.
pub(super) fn owner(attachment: &Attachment) -> Result<Option<Owner>> {
    match uses_table(attachment) || has_ports_at_loopback(attachment) {
        true => mark(attachment).parse().map(Some),
        false => Ok(None),
    }
}

/// Whether any part of the wiring is in our table.
pub(super) fn uses_table(attachment: &Attachment) -> bool {
    let wiring = &attachment.wiring;
    let ours = [
        wiring.masquerade.as_ref().map(|part| part.backend),
        wiring.publish.as_ref().map(|part| part.backend),
        wiring.firewall.as_ref().map(|part| part.backend),
    ];
    ours.contains(&Some(Backend::Nftables))
}

/// A link that third-party plugins made comes in the other layers' requests, without a link.
fn mark(attachment: &Attachment) -> String {
    let identity = Identity::of(&attachment.id);
    // Its name can be found by the mark alone.
    let has_end = attachment
        .wiring
        .link
        .as_ref()
        .is_some_and(|link| link.kind.is_pair() && !matches!(link.kind, LinkKind::Plug(_)));
    match attachment.layer == Layer::Link && !has_end {
        true => identity.hidden_mark(),
        false => identity.mark(attachment.layer),
    }
}

/// The attachment's bridge, where that is not its gateway.
pub(super) fn switching(attachment: &Attachment) -> Option<&IfName> {
    let bridge = attachment.wiring.link.as_ref()?.kind.bridge()?;
    // Another tenant may have the same addresses: conntrack would see one connection for both.
    let is_apart = attachment.wiring.address_space.is_some();
    (is_apart || vlan_of_gateway(bridge).is_some()).then_some(&bridge.name)
}

fn is_bridged(link: &model::Link) -> bool {
    link.kind.bridge().is_some()
}

/// The addresses of published ports: the first of each family.
fn published(attachment: &Attachment) -> impl Iterator<Item = IpAddr> {
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(|family| attachment.first(family))
        .map(|net| net.addr())
}

/// The host's interface that leads to the container: its bridge, its own host end, or by the host's
/// routes.
pub(super) fn behind(attachment: &Attachment) -> Result<Option<IfName>> {
    if let Some(link) = &attachment.wiring.link {
        return match &link.kind {
            LinkKind::Bridge(bridge) => gateway_device(bridge).map(Some),
            LinkKind::Ptp(_) => Identity::of(&attachment.id).host_link().map(Some),
            _ => Ok(None),
        };
    }
    match (reported(attachment), published(attachment).next()) {
        (Some(reported), _) => Ok(Some(reported.clone())),
        (None, Some(container)) => routed_through(container, &mut Socket::route()?),
        (None, None) => Ok(None),
    }
}

/// The same to judge what goes out by it: the host has a route of its own to the container, which may have a next
/// hop on this host. Before there is one, the default route leads elsewhere.
pub(super) fn judged_behind(attachment: &Attachment) -> Result<Option<IfName>> {
    match (names_interface(attachment), published(attachment).next()) {
        (true, _) | (false, None) => behind(attachment),
        (false, Some(container)) => routed_apart(container, &mut Socket::route()?),
    }
}

fn reported(attachment: &Attachment) -> Option<&IfName> {
    let wiring = &attachment.wiring;
    let publish = wiring.publish.as_ref().and_then(|publish| publish.behind.as_ref());
    publish.or_else(|| wiring.firewall.as_ref().and_then(|part| part.bridge.as_ref()))
}

/// Whether the record itself says which interface leads to the container.
pub(super) fn names_interface(attachment: &Attachment) -> bool {
    attachment.wiring.link.is_some() || reported(attachment).is_some()
}

fn routed_through(container: IpAddr, socket: &mut Socket) -> Result<Option<IfName>> {
    let Some(index) = socket.route_to(container)?.and_then(|route| route.link) else {
        return Ok(None);
    };
    Ok(socket.link(At::Index(index))?.map(|link| link.name))
}

/// The same where that is no interface of a default route.
fn routed_apart(container: IpAddr, socket: &mut Socket) -> Result<Option<IfName>> {
    // One with several next hops is found by what it matches alone.
    if socket.entry_to(container)?.is_none_or(|entry| is_default(&entry)) {
        return Ok(None);
    }
    let link = socket.route_to(container)?.and_then(|route| route.link);
    let family = Family::of(&model::host_net(container));
    let through = Routes { family, table: Some(MAIN), link };
    if link.is_none() || socket.routes(through)?.iter().any(is_default) {
        return Ok(None);
    }
    routed_through(container, socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::space::Space;

    #[test]
    fn a_next_hop_on_this_host_leads_to_a_container() {
        let space = Space::new();
        space.run(
            "for link in eth0 eth1 cilium_host; do
                 ip link add $link type veth peer p-$link
                 ip link set p-$link up; ip link set $link up
             done
             ip address add 192.0.2.2/24 dev eth0; ip route add default via 192.0.2.1
             ip route add 10.9.0.0/16 via 192.0.2.9
             ip address add 10.0.0.7/32 dev cilium_host; ip route add 10.0.0.7 dev cilium_host
             ip route add 10.0.0.0/24 via 10.0.0.7 dev cilium_host
             ip route add 10.0.1.5 dev eth1
             ip address add fd00::1/64 dev eth1 nodad
             ip route add default nexthop via fd00::2 dev eth1 nexthop via fd00::3 dev eth1
             ip address add fd01::1/64 dev cilium_host nodad
             ip route add fd02::/64 via fd01::2 dev cilium_host",
        );
        let mut socket = space.netns.enter(Socket::route).unwrap().unwrap();
        for (container, expected) in [
            ("10.0.0.99", Some("cilium_host")),
            ("10.0.1.5", Some("eth1")),
            ("fd02::5", Some("cilium_host")),
            // By a default route, or by its interface.
            ("10.0.2.5", None),
            ("10.9.0.5", None),
            ("192.0.2.77", None),
            ("fd03::5", None),
        ] {
            let found = routed_apart(container.parse().unwrap(), &mut socket).unwrap();
            assert_eq!(found.as_ref().map(IfName::as_str), expected, "{container}");
        }
    }
}
