//! What is particular to a port of a bridge.

use engine::port::{Driver, HostDataplane, Presence, Stray};
use linux::{Life, Linux};
use model::*;
use tests::Feature;

use crate::bed::{Container, attachment, bridge, isolated, network, run};

fn with_port(port: BridgePort) -> LinkKind {
    let LinkKind::Bridge(made) = bridge() else { unreachable!() };
    LinkKind::Bridge(Bridge { port, ..made })
}

/// Whether a ping is answered, however slow this machine is.
pub(crate) fn pings(container: &Container, address: &str) -> bool {
    is_answered(container, address, 10)
}

/// Whether nothing answers within a second.
fn is_silent(container: &Container, address: &str) -> bool {
    !is_answered(container, address, 1)
}

fn is_answered(container: &Container, address: &str, seconds: u8) -> bool {
    let ping = format!("ping -c1 -W{seconds} {address} >/dev/null && echo yes || echo no");
    container.run(&ping).trim() == "yes"
}

#[test]
fn isolated_ports_reach_the_gateway_and_not_each_other() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let apart = || with_port(BridgePort { isolated: true, ..BridgePort::default() });
        let (one, two, third) = (Container::new(), Container::new(), Container::new());
        let first = attachment("one", apart(), "10.88.0.2/24", &one.sandbox);
        let second = attachment("two", apart(), "10.88.0.3/24", &two.sandbox);
        let open = attachment("third", bridge(), "10.88.0.4/24", &third.sandbox);
        let became = linux.attach(&first).unwrap();
        for other in [&second, &open] {
            linux.attach(other).unwrap();
        }
        linux.check(&first, &became).unwrap();
        assert!(is_silent(&one, "10.88.0.3"));
        assert!(pings(&one, "10.88.0.1") && pings(&one, "10.88.0.4"));
        run(&format!("bridge link set dev {} isolated off", became.interfaces[1].name));
        assert!(linux.check(&first, &became).unwrap_err().to_string().contains("not isolated"));
        for made in [&first, &second, &open] {
            linux.detach(made).unwrap();
        }
    });
}

pub(crate) fn checked() -> LinkKind {
    with_port(BridgePort { spoof_check: true, ..BridgePort::default() })
}

/// What is the gateway's has no owner, and stays as long as the table.
const OWNED: &str = "nft list table bridge spoke | grep -v 'made by Spoke'";
const FORGED: &str = "ip link set eth0 address 02:00:00:00:00:99";

#[test]
fn spoofed_frames_are_dropped_until_the_container_goes() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let first = attachment("one", checked(), "10.88.0.2/24", &one.sandbox);
        let second = attachment("two", bridge(), "10.88.0.3/24", &two.sandbox);
        let became = linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();
        linux.check(&first, &became).unwrap();
        let mac = became.interfaces[2].mac.unwrap();
        assert!(pings(&one, "10.88.0.3"));
        one.run(FORGED);
        assert!(is_silent(&one, "10.88.0.3") && is_silent(&one, "10.88.0.1"));
        two.run(FORGED);
        assert!(pings(&two, "10.88.0.1"), "the other one is not checked");
        one.run(&format!("ip link set eth0 address {mac}"));
        two.run("ip link set eth0 address 02:00:00:00:00:98");
        assert!(pings(&one, "10.88.0.1"));
        // Restored where another program removed it.
        run("nft flush ruleset");
        assert!(linux.check(&first, &became).is_err());
        assert!(linux.restore(&first).unwrap() && !linux.restore(&first).unwrap());
        linux.check(&first, &became).unwrap();
        one.run(FORGED);
        assert!(is_silent(&one, "10.88.0.1"));
        run("nft flush chain bridge spoke prerouting");
        assert!(linux.check(&first, &became).is_err());
        assert!(linux.mend().unwrap() && !linux.mend().unwrap());
        run("nft delete element bridge spoke senders { $(nft list set bridge spoke senders | \
             sed -n 's/.*elements = { \\(.*\\) comment.*/\\1/p') }");
        assert!(linux.check(&first, &became).is_err());
        assert!(linux.restore(&first).unwrap());
        linux.detach(&first).unwrap();
        assert!(!run(OWNED).contains("comment"));
        linux.detach(&second).unwrap();
        linux.remove(&network(checked())).unwrap();
        assert!(!run("nft list ruleset").contains("table bridge"));
    });
}

/// An announcement of `sender` at `address`, to everybody.
fn announce(from: &Container, sender: &str, address: &str) {
    from.run(&format!(
        r#"python3 - <<'END'
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
own = s.getsockname()[4]
sender = bytes.fromhex("{sender}".replace(":", "")) or own
ip = socket.inet_aton("{address}")
arp = bytes.fromhex("0001080006040001") + sender + ip + bytes(6) + ip
s.send(b"\xff" * 6 + own + b"\x08\x06" + arp)
END"#
    ));
}

/// Its frames are its own: what they tell others of the gateway or a neighbour is not.
#[test]
fn no_container_takes_the_address_of_another() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let first = attachment("one", checked(), "10.88.0.2/24", &one.sandbox);
        let second = attachment("two", checked(), "10.88.0.3/24", &two.sandbox);
        let macs = [&first, &second].map(|each| {
            let became = linux.attach(each).unwrap();
            became.interfaces[2].mac.unwrap().to_string()
        });
        assert!(pings(&two, "10.88.0.1") && pings(&two, "10.88.0.2") && pings(&one, "10.88.0.3"));
        let known = |who: &Container| who.run("ip -4 neigh show dev eth0 | cut -d' ' -f1-3 | sort");
        let before = (known(&two), run("ip -4 neigh show dev br0 | cut -d' ' -f1-3 | sort"));
        for (sender, address) in [
            ("", "10.88.0.1"),
            ("", "10.88.0.3"),
            (macs[1].as_str(), "10.88.0.2"),
            ("02:00:00:00:00:99", "10.88.0.2"),
        ] {
            announce(&one, sender, address);
        }
        // What it may tell comes last, and arrives.
        announce(&one, "", "10.88.0.77");
        two.run("sysctl -qw net.ipv4.conf.eth0.arp_accept=1");
        announce(&one, "", "10.88.0.78");
        two.run("until ip -4 neigh show dev eth0 | grep -q 10.88.0.78; do :; done");
        two.run("ip -4 neigh del 10.88.0.78 dev eth0; ip -4 neigh del 10.88.0.77 dev eth0 || true");
        let after = (known(&two), run("ip -4 neigh show dev br0 | cut -d' ' -f1-3 | sort"));
        assert_eq!(after, before);
        linux.detach(&first).unwrap();
        linux.detach(&second).unwrap();
    });
}

#[test]
fn a_check_without_a_record_is_a_stray() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = attachment("one", checked(), "10.88.0.2/24", &one.sandbox);
        let first = Attachment { wiring: Wiring { masquerade: None, ..first.wiring }, ..first };
        let became = linux.attach(&first).unwrap();
        run(&format!("ip link del {}", became.interfaces[1].name));
        let strays = linux.strays(&|| Ok(Vec::new())).unwrap();
        let [(stray @ Stray::Elements(_), Presence::Gone)] = strays.as_slice() else {
            panic!("{strays:?}")
        };
        linux.remove_stray(stray).unwrap();
        assert!(!run(OWNED).contains("comment"));
    });
}

/// A repair that comes later than the end of a machine leaves nothing; of one that lives the check stays.
#[test]
fn what_a_late_repair_puts_back_goes_again() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let tap = with_port(BridgePort { tap: Some(Tap::default()), ..BridgePort::default() });
        let first = attachment("one", tap, "10.88.0.2/24", &one.sandbox);
        let machine = Attachment { sandbox: None, handoff: Handoff::Caller, ..first };
        linux.attach(&machine).unwrap();
        linux.unfilter(&machine).unwrap();
        let bound = run("nft list set bridge spoke bound");
        assert!(bound.contains("comment"), "{bound}");
        linux.detach(&machine).unwrap();
        assert!(!run(OWNED).contains("comment"));
        assert!(linux.restore(&machine).unwrap());
        assert!(run(OWNED).contains("comment"));
        linux.unfilter(&machine).unwrap();
        assert!(!run(OWNED).contains("comment"));
    });
}

#[test]
fn the_table_is_what_the_file_says() {
    const TRUTH: &str = include_str!("../../src/filter/spoof.nft");
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = attachment("one", checked(), "10.88.0.2/24", &one.sandbox);
        linux.attach(&first).unwrap();
        linux.detach(&first).unwrap();
        // As text, and as the kernel has it: the text leaves out which of two ways a protocol is known by.
        let list = "for held in taken taken6 subnets4 subnets6; do nft flush set bridge spoke $held; done; \
                    nft list table bridge spoke; \
                    nft --debug=netlink list table bridge spoke | sed -E 's/^(bridge spoke [a-z_]+) .*/\\1/'";
        let ours = run(list);
        run("nft delete table bridge spoke");
        run(&format!("nft -f - <<'END'\n{TRUTH}\nEND"));
        assert_eq!(ours, run(list));
        // Who keeps what nft(8) lists can load it again.
        run(
            "nft list ruleset >/tmp/spoof.$$; nft flush ruleset; nft -f /tmp/spoof.$$; rm /tmp/spoof.$$",
        );
        assert!(ours.starts_with(&run("nft list table bridge spoke")));
    });
}

#[test]
fn the_reference_plugins_checks_go_with_its_attachment() {
    let Some(plugins) = crate::reference("cni-1.9", "bridge") else { return };
    isolated(move || {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let config = r#"{"cniVersion":"1.0.0","name":"front","type":"bridge","bridge":"br0","macspoofchk":true}"#;
        run(&format!(
            "echo '{config}' | CNI_COMMAND=ADD CNI_CONTAINERID=one CNI_IFNAME=eth0 CNI_NETNS={} \
             CNI_PATH={plugins} {plugins}/bridge",
            one.netns()
        ));
        let before = run("nft list table bridge nat");
        assert!(before.contains("cni-br-iface-one-eth0"), "{before}");
        let theirs = attachment("one", checked(), "10.88.0.2/24", &one.sandbox);
        let theirs = Attachment { runtime: Runtime::Reference, ..theirs };
        linux.detach(&theirs).unwrap();
        let after = run("nft list table bridge nat");
        assert!(!after.contains("cni-br-iface") && !after.contains("macspoofchk"), "{after}");
    });
}

#[test]
fn an_address_that_another_device_has_is_refused() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let looking =
            || with_port(BridgePort { duplicate_detection: true, ..BridgePort::default() });
        let (one, two) = (Container::new(), Container::new());
        let first = attachment("one", looking(), "fd00::2/64", &one.sandbox);
        let became = linux.attach(&first).unwrap();
        assert!(!one.run("ip -6 addr show dev eth0").contains("tentative"));
        linux.check(&first, &became).unwrap();
        assert!(one.run("ping -c1 -W2 fd00::1").contains("1 received"));
        let mut second = attachment("two", looking(), "fd00::2/64", &two.sandbox);
        // With its address alone it would have the hardware address of the first.
        second.wiring.link.as_mut().unwrap().mac = Some(Mac::new([2, 0, 0, 0, 0, 7]));
        let error = linux.attach(&second).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert!(error.to_string().contains("fd00::2"), "{error}");
        linux.detach(&second).unwrap();
        linux.detach(&first).unwrap();
    });
}

#[test]
fn an_interface_may_stay_down() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let kind = with_port(BridgePort { left_down: true, ..BridgePort::default() });
        let mut first = attachment("one", kind, "10.88.0.2/24", &one.sandbox);
        first.addresses.clear();
        let became = linux.attach(&first).unwrap();
        linux.check(&first, &became).unwrap();
        assert!(one.run("ip -br link show dev eth0").contains("DOWN"));
        linux.detach(&first).unwrap();
    });
}

fn in_vlan(number: u16) -> LinkKind {
    let vlans = Vlans { untagged: VlanId::new(number), ..Vlans::default() };
    with_port(BridgePort { vlans, ..BridgePort::default() })
}

#[test]
fn containers_of_other_vlans_are_elsewhere() {
    isolated(|| {
        if Feature::BridgeVlan.is_missing() {
            return;
        }
        // As on every host of Kubernetes: the host's table sees what bridges pass.
        run("sysctl -qw net.bridge.bridge-nf-call-iptables=1 || true");
        let linux = Linux::new(Life::Long);
        let [one, two, three] = [Container::new(), Container::new(), Container::new()];
        let first = attachment("one", in_vlan(10), "10.88.0.2/24", &one.sandbox);
        let second = attachment("two", in_vlan(10), "10.88.0.3/24", &two.sandbox);
        let third = attachment("three", in_vlan(20), "10.89.0.4/24", &three.sandbox);
        let became: Vec<Attached> =
            [&first, &second, &third].map(|made| linux.attach(made).unwrap()).into();
        assert_eq!(became[0].interfaces[3].name.as_str(), "br0.10");
        for (made, became) in [&first, &second, &third].into_iter().zip(&became) {
            linux.check(made, became).unwrap();
            linux.complete(made).unwrap();
        }
        assert!(pings(&one, "10.88.0.1"), "its gateway");
        assert!(pings(&one, "10.88.0.3"), "its neighbour");
        three.run("ip addr add 10.88.0.4/24 dev eth0");
        assert!(is_silent(&one, "10.88.0.4") && pings(&three, "10.89.0.1"));
        assert!(
            linux
                .strays(&|| Ok(vec![first.clone(), second.clone(), third.clone()]))
                .unwrap()
                .is_empty()
        );
        run(&format!("bridge vlan del vid 10 dev {}", became[0].interfaces[1].name));
        assert!(linux.check(&first, &became[0]).unwrap_err().to_string().contains("VLAN 10"));
        let whole = network(in_vlan(10));
        assert_eq!(linux.remove(&whole).unwrap_err().kind(), Kind::Conflict);
        for made in [&first, &second, &third] {
            linux.detach(made).unwrap();
        }
        linux.remove(&whole).unwrap();
        linux.remove(&whole).unwrap();
        assert_eq!(run("ip -br link").lines().count(), 1, "{}", run("ip -br link"));
    });
}

#[test]
fn a_trunk_carries_tags_of_its_vlans_only() {
    isolated(|| {
        if Feature::BridgeVlan.is_missing() || Feature::Vlan.is_missing() {
            return;
        }
        let linux = Linux::new(Life::Long);
        let [one, two] = [Container::new(), Container::new()];
        let vlan = |number| VlanId::new(number).unwrap();
        let tagged = vec![VlanRange { first: vlan(10), last: vlan(12) }];
        let vlans = Vlans { tagged, ..Vlans::default() };
        let LinkKind::Bridge(made) = bridge() else { unreachable!() };
        let port = BridgePort { vlans, ..BridgePort::default() };
        let trunk = LinkKind::Bridge(Bridge { gateway: Gateway::None, port, ..made });
        let first = attachment("one", trunk.clone(), "10.88.0.2/24", &one.sandbox);
        let second = attachment("two", in_vlan(11), "10.90.0.3/24", &two.sandbox);
        let became = linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();
        linux.check(&first, &became).unwrap();
        one.run(
            "for id in 11 13; do ip link add link eth0 name eth0.$id type vlan id $id; \
             ip link set eth0.$id up; done; ip addr add 10.90.0.2/24 dev eth0.11",
        );
        assert!(pings(&one, "10.90.0.3"));
        one.run("ip addr flush dev eth0.11; ip addr add 10.90.0.2/24 dev eth0.13");
        assert!(is_silent(&one, "10.90.0.3"));
        linux.detach(&first).unwrap();
        linux.detach(&second).unwrap();
    });
}

#[test]
fn a_kernel_without_vlans_says_so() {
    isolated(|| {
        if !Feature::BridgeVlan.is_missing() {
            return;
        }
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = attachment("one", in_vlan(10), "10.88.0.2/24", &one.sandbox);
        let error = linux.attach(&first).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        linux.detach(&first).unwrap();
        linux.remove(&network(in_vlan(10))).unwrap();
        assert_eq!(run("ip -br link").lines().count(), 1, "{}", run("ip -br link"));
    });
}
