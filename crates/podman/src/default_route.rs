//! Which of a container's networks has the default route, where several could.

use model::{Family, Gateway, IfName, Ipam, Route, Wiring};

/// The kernel's metric of an IPv6 route that has none (`IP6_RT_PRIO_USER`); in IPv4 it is 0.
const USUAL_V6: u32 = 1024;

/// Gives default routes without a metric that of their interface: Podman attaches a container's
/// networks in any order, and the one of `eth0` has the default route. The others take over when it
/// is gone.
pub(crate) fn rank(ifname: &IfName, wiring: &Wiring, ipam: &mut Ipam, routes: &mut Vec<Route>) {
    let number = number_of(ifname);
    if number == 0 {
        return;
    }
    if let Ipam::Dhcp(dhcp) = ipam {
        dhcp.priority = dhcp.priority.or(Some(number));
    }
    let bridge = wiring.bridge();
    if bridge.is_some_and(|bridge| bridge.gateway == Gateway::Default) {
        for family in ipam.families() {
            let all = family.everything();
            if routes.iter().all(|route| route.dst != all) {
                routes.push(Route::new(all, None));
            }
        }
    }
    if wiring.chooses_addresses() {
        for all in [Family::V4, Family::V6].map(Family::everything) {
            if routes.iter().all(|route| route.dst != all) {
                routes.push(Route::new(all, None));
            }
        }
    }
    for route in routes.iter_mut().filter(|route| route.is_default()) {
        let usual = match Family::of(&route.dst) {
            Family::V4 => 0,
            Family::V6 => USUAL_V6,
        };
        route.priority = route.priority.or(usual.checked_add(number));
    }
}

/// The number at the end of a name, as in `eth1`; 0 where there is none.
fn number_of(name: &IfName) -> u32 {
    let name = name.as_str();
    let word = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    name.strip_prefix(word).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use model::{Link, LinkKind, NeutronLink, PortSpec, ResourceRef};

    use super::*;

    fn ranked(ifname: &str, given: &[(&str, Option<u32>)]) -> Vec<Option<u32>> {
        let route = |(dst, priority): &(&str, _)| Route {
            priority: *priority,
            ..Route::new(dst.parse().unwrap(), None)
        };
        let mut routes = given.iter().map(route).collect();
        rank(&ifname.parse().unwrap(), &Wiring::default(), &mut Ipam::None, &mut routes);
        routes.iter().map(|route| route.priority).collect()
    }

    #[test]
    fn the_first_interface_leads_out() {
        let given = [("0.0.0.0/0", None), ("::/0", None), ("10.0.0.0/8", None)];
        assert_eq!(ranked("eth0", &given), [None, None, None]);
        assert_eq!(ranked("lan", &given), [None, None, None]);
        assert_eq!(ranked("eth2", &given), [Some(2), Some(1026), None]);
        assert_eq!(ranked("a1b", &given), [None, None, None]);
        assert_eq!(ranked("a1b3", &given), [Some(3), Some(1027), None]);
        assert_eq!(ranked("eth2", &[("0.0.0.0/0", Some(7))]), [Some(7)]);
    }

    #[test]
    fn a_cloud_s_default_routes_get_their_place() {
        let network = "front".parse().unwrap();
        let link = NeutronLink {
            network: ResourceRef::Name(network),
            subnets: Vec::new(),
            spec: PortSpec::default(),
            binding: None,
        };
        let kind = LinkKind::Neutron(Box::new(link));
        let wiring = Wiring {
            link: Some(Link { kind, name: None, mac: None, mtu: None }),
            ..Wiring::default()
        };
        let mut routes = Vec::new();
        rank(&"eth2".parse().unwrap(), &wiring, &mut Ipam::None, &mut routes);
        let ranked: Vec<Option<u32>> = routes.iter().map(|route| route.priority).collect();
        assert_eq!(ranked, [Some(2), Some(1026)]);
    }
}
