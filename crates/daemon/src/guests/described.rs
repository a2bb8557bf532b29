//! The description of a virtual machine's interface for the machine, from its record.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use dhcp::guest::Guest;
use model::{Attached, Attachment, Family, HostName, IpNet, Ipv4Net, Ipv6Net, Phase};

/// Who answers where the network has no gateway: an address of the link.
const LINK_GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);

/// `None` where it is no machine's, or not attached.
pub(super) fn of(record: &Attachment, root: &Path) -> Option<Guest> {
    record.tap()?;
    let Phase::Attached(attached) = &record.phase else { return None };
    let (mac, gateway) = linux::guest::stations(record)?;
    let (servers, search) = linux::guest::resolver(record, root);
    let name: Option<HostName> = record.id.container.as_str().parse().ok();
    let mtu = record.wiring.link.as_ref().and_then(|link| link.mtu);
    Some(Guest {
        mac,
        gateway,
        v4: v4(attached),
        v6: v6(attached),
        routes: routes(attached),
        leads_v6: attached
            .routes
            .iter()
            .any(|it| it.is_default() && Family::of(&it.dst) == Family::V6),
        servers,
        search: search.iter().map(ToString::to_string).filter(|it| it != ".").collect(),
        name: name.map(|name| name.to_string()),
        mtu: mtu.and_then(|mtu| u16::try_from(mtu.bytes()).ok()),
    })
}

fn v4(attached: &Attached) -> Option<(Ipv4Net, Ipv4Addr)> {
    attached.addresses.iter().find_map(|held| match (held.address, held.gateway) {
        (IpNet::V4(net), Some(IpAddr::V4(gateway))) => Some((net, gateway)),
        (IpNet::V4(net), _) => Some((net, LINK_GATEWAY)),
        (IpNet::V6(_), _) => None,
    })
}

fn v6(attached: &Attached) -> Vec<Ipv6Net> {
    let nets = attached.addresses.iter().map(|held| held.address);
    nets.filter_map(|net| if let IpNet::V6(net) = net { Some(net) } else { None }).collect()
}

/// Those of the main table; without a next hop through the gateway.
fn routes(attached: &Attached) -> Vec<(Ipv4Net, Ipv4Addr)> {
    let usual = v4(attached).map(|(_, gateway)| gateway).filter(|gateway| *gateway != LINK_GATEWAY);
    let main = attached.routes.iter().filter(|route| route.is_in_main());
    main.filter_map(|route| match (route.dst, route.via) {
        (IpNet::V4(dst), Some(IpAddr::V4(via))) => Some((dst, via)),
        (IpNet::V4(dst), None) => Some((dst, usual?)),
        _ => None,
    })
    .collect()
}
