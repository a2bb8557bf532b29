//! Containers on Linux bridges.

use model::{Kind, Vif};
use neutron::plug::{self, GROUP};

use crate::bed::{Container, exists, isolated, run};
use crate::{NETWORK, PORTS, id, mac, plugging, switch_port};

const BRIDGE: &str = "brq0f2c8d5e-6a";

#[test]
fn a_bridge_of_ours_comes_with_its_first_port_and_goes_with_its_last() {
    isolated(|| {
        let ends = PORTS.map(|port| plug::end_of(&id(port)).unwrap().to_string());
        let one = Container::behind(&ends[0], mac(2), "10.9.0.2/24");
        let _two = Container::behind(&ends[1], mac(3), "10.9.0.3/24");
        let (ports, network) = (PORTS.map(id), id(NETWORK));
        let vif = Vif::Bridge { bridge: BRIDGE.parse().unwrap() };
        let plugging = plugging("unix:/nowhere".into());
        let leads =
            [switch_port(&vif, &ports[0], &network), switch_port(&vif, &ports[1], &network)];
        for switch_port in leads.iter().chain(&leads) {
            plug::plug(switch_port, &plugging).unwrap();
        }
        assert!(one.reaches("10.9.0.3"));
        plug::check(&leads[0], &plugging).unwrap();
        let made = run(&format!("ip -d link show {BRIDGE}"));
        assert!(made.contains(&format!("group {GROUP}")) && made.contains("mtu 1442"), "{made}");
        assert_eq!(run(&format!("ip address show dev {BRIDGE} | grep inet || true")), "");
        plug::unplug(&leads[0], &plugging).unwrap();
        assert!(exists(BRIDGE) && exists(&ends[0]));
        assert_eq!(plug::check(&leads[0], &plugging).unwrap_err().kind(), Kind::NotFound);
        plug::unplug(&leads[1], &plugging).unwrap();
        plug::unplug(&leads[1], &plugging).unwrap();
        assert!(!exists(BRIDGE));
    });
}

#[test]
fn the_agents_bridge_stays() {
    isolated(|| {
        let end = plug::end_of(&id(PORTS[0])).unwrap().to_string();
        let _one = Container::behind(&end, mac(2), "10.9.0.2/24");
        let (port, network) = (id(PORTS[0]), id(NETWORK));
        let vif = Vif::Bridge { bridge: BRIDGE.parse().unwrap() };
        let plugging = plugging("unix:/nowhere".into());
        let switch_port = switch_port(&vif, &port, &network);
        run(&format!("ip link add {BRIDGE} type bridge; ip link set {BRIDGE} up"));
        plug::plug(&switch_port, &plugging).unwrap();
        assert!(run(&format!("ip -o link show master {BRIDGE}")).contains(&end));
        plug::unplug(&switch_port, &plugging).unwrap();
        assert!(exists(BRIDGE));
        assert_eq!(run(&format!("ip -o link show master {BRIDGE}")), "");

        run(&format!("ip link delete {BRIDGE}; ip link add {BRIDGE} type veth peer name x"));
        assert_eq!(plug::plug(&switch_port, &plugging).unwrap_err().kind(), Kind::Conflict);
        plug::unplug(&switch_port, &plugging).unwrap();
        assert!(exists(BRIDGE));
    });
}
