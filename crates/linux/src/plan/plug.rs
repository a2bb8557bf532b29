//! A pair whose end in the host a third party connects: a switch, or a program.

use model::{
    Attached, Attachment, Interface, InterfaceAddress, InterfaceNamespace, Link, Mac, Plug, Result,
};

use super::{Facts, PeerPlacement, Plan, Step, Veth};
use crate::identity::Identity;

/// Where the container's interface stands in the result: after the host's end.
const CONTAINER: usize = 1;

pub(super) fn plan(
    attachment: &Attachment,
    link: &Link,
    plug: &Plug,
    facts: &Facts,
) -> Result<Plan> {
    let identity = Identity::of(&attachment.id);
    let peer_placement = PeerPlacement::of(attachment)?;
    let veth = Veth {
        host: plug.end.clone(),
        host_mac: None,
        peer: peer_placement.name.clone(),
        peer_mac: super::container_mac(attachment, link),
        mtu: link.mtu,
        master: None,
        hairpin: false,
        alias: Some(identity.alias()),
    };
    let here =
        |held: &InterfaceAddress| InterfaceAddress { interface: Some(CONTAINER), ..held.clone() };
    let addresses: Vec<InterfaceAddress> = attachment.addresses.iter().map(here).collect();
    let interfaces = interfaces(&veth, peer_placement.place);
    let mut host: Vec<Step> = super::pair(veth, &peer_placement, attachment, facts)?
        .into_iter()
        .chain(deaf(plug))
        .collect();
    let mut sandbox = Vec::new();
    let checksums = (!plug.offload).then(|| Step::Checksums(peer_placement.name.clone()));
    match peer_placement.place {
        InterfaceNamespace::Host => host.extend(checksums),
        InterfaceNamespace::Sandbox => {
            sandbox.extend(checksums);
            sandbox.extend(super::complete(
                attachment,
                &peer_placement.name,
                &addresses,
                &attachment.routes,
            ));
        }
    }
    let (routes, dns) = (attachment.routes.clone(), attachment.resolves_with());
    let attached = Attached { interfaces, addresses, routes, dns, ..Attached::default() };
    Ok(Plan { host, sandbox, after: Vec::new(), attached })
}

/// The container's packets are for the user of the host's end, and not for the host. A switch in
/// the kernel takes them before the host sees them, but beside a program the host sees them too: it
/// must neither answer nor accept them, and it may send nothing that shows the end's hardware
/// address to the container. (Programs that route to the end may need the host to.)
fn deaf(plug: &Plug) -> Vec<Step> {
    let end = &plug.end;
    match plug.offload {
        true => vec![super::refuse_router_advertisements(end)],
        false => vec![
            super::improve(format!("net/ipv6/conf/{end}/disable_ipv6"), "1"),
            // No route leads there, so every source address fails the check.
            super::improve(format!("net/ipv4/conf/{end}/rp_filter"), "1"),
            super::improve(format!("net/ipv4/conf/{end}/arp_ignore"), "8"),
            super::improve(format!("net/ipv4/conf/{end}/drop_unicast_in_l2_multicast"), "1"),
        ],
    }
}

fn interfaces(veth: &Veth, peer: InterfaceNamespace) -> Vec<Interface> {
    let interface = |name: &model::IfName, mac: Option<Mac>, place| Interface {
        name: name.clone(),
        mac,
        mtu: veth.mtu,
        place,
    };
    vec![
        interface(&veth.host, veth.host_mac, InterfaceNamespace::Host),
        interface(&veth.peer, Some(veth.peer_mac), peer),
    ]
}
