//! Containers on Open vSwitch.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use model::{IfName, Kind, Vif};
use neutron::config::Plugging;
use neutron::ovsdb::Ovsdb;
use neutron::plug;

use crate::bed::{Container, Switch, exists, isolated, run};
use crate::{NETWORK, PORTS, id, mac, plugging, switch_port};

fn ends() -> [String; 2] {
    PORTS.map(|port| plug::end_of(&id(port)).unwrap().to_string())
}

/// Two containers, each behind its port's end.
fn containers() -> [Container; 2] {
    let [one, two] = ends();
    [Container::behind(&one, mac(2), "10.9.0.2/24"), Container::behind(&two, mac(3), "10.9.0.3/24")]
}

/// A megabyte over TCP.
fn transfers(from: &Container, to: &Container) -> bool {
    let listener = to.within(|| TcpListener::bind("10.9.0.3:7000").unwrap());
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    let mut stream = from.within(|| TcpStream::connect("10.9.0.3:7000").unwrap());
    stream.write_all(&vec![7; 1 << 20]).unwrap();
    drop(stream);
    reader.join().unwrap() == 1 << 20
}

#[test]
fn containers_on_one_switch_reach_each_other() {
    isolated(|| {
        let switch = Switch::start();
        let [one, two] = containers();
        let plugging = plugging(switch.database());
        let vif = Vif::Ovs { bridge: "br-int".parse().unwrap(), offload: false };
        let (ports, network) = (PORTS.map(id), id(NETWORK));
        let leads =
            [switch_port(&vif, &ports[0], &network), switch_port(&vif, &ports[1], &network)];
        assert!(one.misses("10.9.0.3"));
        for switch_port in leads.iter().chain(&leads) {
            plug::prepare(switch_port).unwrap();
            plug::plug(switch_port, &plugging).unwrap();
        }
        assert_eq!(switch.ports("br-int"), ends());
        leads.iter().for_each(|switch_port| plug::check(switch_port, &plugging).unwrap());
        assert!(one.reaches("10.9.0.3"));
        assert!(transfers(&one, &two));

        let reported = switch.vsctl(&format!("get interface {} external_ids", ends()[0]));
        for word in [
            "attached-mac=\"fa:16:3e:00:00:02\"",
            &format!("iface-id=\"{}\"", PORTS[0]),
            "iface-status=active",
            "owner=kuryr",
            "vm-uuid=d3v1c3",
        ] {
            assert!(reported.contains(word), "{word}: {reported}");
        }
        for switch_port in leads.iter().chain(&leads) {
            plug::unplug(switch_port, &plugging).unwrap();
            plug::release(switch_port).unwrap();
        }
        assert!(switch.ports("br-int").is_empty());
        assert_eq!(plug::check(&leads[0], &plugging).unwrap_err().kind(), Kind::NotFound);
        assert!(one.misses("10.9.0.3"));

        // The container went first.
        plug::plug(&leads[0], &plugging).unwrap();
        drop(one);
        run(&format!(
            "timeout 10 sh -c 'while ip link show {}; do :; done' >/dev/null 2>&1",
            ends()[0]
        ));
        plug::unplug(&leads[0], &plugging).unwrap();
        assert!(switch.ports("br-int").is_empty());
    });
}

#[test]
fn a_bridge_may_stand_between() {
    isolated(|| {
        let switch = Switch::start();
        let [one, _two] = containers();
        let plugging = plugging(switch.database());
        let bridge: IfName = "br-int".parse().unwrap();
        let hybrid = Vif::OvsHybrid { bridge: bridge.clone(), offload: false };
        let straight = Vif::Ovs { bridge, offload: false };
        let (ports, network) = (PORTS.map(id), id(NETWORK));
        let switch_port_one = switch_port(&hybrid, &ports[0], &network);
        let switch_port_two = switch_port(&straight, &ports[1], &network);
        for _ in 0..2 {
            plug::plug(&switch_port_one, &plugging).unwrap();
        }
        plug::plug(&switch_port_two, &plugging).unwrap();
        let [end_one, end_two] = ends();
        assert_eq!(switch.ports("br-int"), ["qvo31b4f5a6-1c".to_owned(), end_two]);
        assert!(run("bridge link").contains(&format!("{end_one}@")));
        assert!(run("ip -o link show master qbr31b4f5a6-1c").lines().count() == 2);
        assert!(run("ip -o link show qvo31b4f5a6-1c").contains("mtu 1442"));
        assert_eq!(run("ip -6 address show dev qbr31b4f5a6-1c"), "");
        assert!(one.reaches("10.9.0.3"));
        plug::check(&switch_port_one, &plugging).unwrap();
        run("ip link set qvb31b4f5a6-1c nomaster");
        assert_eq!(plug::check(&switch_port_one, &plugging).unwrap_err().kind(), Kind::NotFound);
        for _ in 0..2 {
            plug::unplug(&switch_port_one, &plugging).unwrap();
        }
        for gone in ["qbr31b4f5a6-1c", "qvb31b4f5a6-1c", "qvo31b4f5a6-1c"] {
            assert!(!exists(gone), "{gone}");
        }
        assert!(exists(&end_one));

        // What no record speaks of is found on the switch.
        plug::plug(&switch_port_one, &plugging).unwrap();
        let all = Ovsdb::connect(&plugging.ovsdb).unwrap().plugged().unwrap();
        let left = all.iter().find(|plugged| plugged.port == ports[0]).unwrap();
        for _ in 0..2 {
            plug::remove_stray(left, &plugging).unwrap();
        }
        assert!(!exists("qbr31b4f5a6-1c") && !exists("qvb31b4f5a6-1c"));
        assert_eq!(switch.ports("br-int"), [ends()[1].clone()]);
    });
}

#[test]
fn what_the_switch_cannot_use_is_reported() {
    isolated(|| {
        let switch = Switch::start();
        let plugging = plugging(switch.database());
        let (port, network) = (id(PORTS[0]), id(NETWORK));
        let vif = Vif::Ovs { bridge: "br-int".parse().unwrap(), offload: false };
        let missing = plug::plug(&switch_port(&vif, &port, &network), &plugging).unwrap_err();
        assert_eq!(missing.kind(), Kind::Kernel);
        assert!(missing.to_string().contains(&ends()[0]), "{missing}");
        assert!(missing.to_string().contains("No such device"), "{missing}");
        let mut database = Ovsdb::connect(&plugging.ovsdb).unwrap();
        assert!(database.plugged().unwrap()[0].error.is_some());

        // It comes later, and the port that was left is found to be usable.
        let _one = Container::behind(&ends()[0], mac(2), "10.9.0.2/24");
        plug::plug(&switch_port(&vif, &port, &network), &plugging).unwrap();
        assert_eq!(database.plugged().unwrap()[0].error, None);
        plug::unplug(&switch_port(&vif, &port, &network), &plugging).unwrap();

        let elsewhere = Vif::Ovs { bridge: "br-none".parse().unwrap(), offload: false };
        let missing = plug::plug(&switch_port(&elsewhere, &port, &network), &plugging).unwrap_err();
        assert_eq!(missing.kind(), Kind::NotFound);
        assert!(missing.to_string().contains("br-none"), "{missing}");

        switch.signal("STOP");
        let hurried = Plugging { timeout: Duration::from_millis(300), ..plugging.clone() };
        let silent = plug::plug(&switch_port(&vif, &port, &network), &hurried).unwrap_err();
        assert_eq!(silent.kind(), Kind::TryAgain);
        assert!(silent.to_string().contains("ovs-vswitchd"), "{silent}");
        plug::unplug(&switch_port(&vif, &port, &network), &plugging).unwrap();
        switch.signal("CONT");
        assert!(switch.ports("br-int").is_empty());
    });
}
