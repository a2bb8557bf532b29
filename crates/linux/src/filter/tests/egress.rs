use std::time::Duration;

use model::{Family, Fence, Moment, Protocol};
use netlink::{Socket, nft};

use super::space::Space;
use super::table::listed;
use crate::filter::fence::{self, Fenced, Opening, Own, Reach};

const TRUTH: &str = include_str!("../fence.nft");
const LIST: &str = "nft list table inet spoke_fence";

fn fenced(bridge: &str, network: &str, rules: &str) -> Fenced {
    let fence: Fence = rules.parse().unwrap();
    let gateways = vec!["10.1.2.1/24".parse().unwrap(), "fd00::1/64".parse().unwrap()];
    let (network, bridge) = (network.parse().unwrap(), bridge.parse().unwrap());
    Fenced { network, bridge, gateways, fence, reach: Reach::default(), beside: None }
}

fn opening(bridge: &str, source: &str, destination: &str) -> Opening {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Opening {
        bridge: bridge.parse().unwrap(),
        source,
        destination,
        protocol: Protocol::Tcp,
        port: 443,
    }
}

fn at(seconds: u64) -> Moment {
    Moment { boot: "a".to_owned(), seconds }
}

fn open(socket: &mut Socket, one: &(Opening, Vec<model::DomainName>), limit: Duration) {
    let generation = nft::generation(socket).unwrap();
    assert!(fence::open(socket, generation, (std::slice::from_ref(one), limit), &[]).unwrap());
}

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    let mut socket = space.socket();
    fence::keep(&mut socket, &fenced("br0", "a", "none"), None).unwrap();
    for set in ["fenced", "within", "sources4", "sources6"] {
        space.run(&format!("nft flush set inet spoke_fence {set}"));
    }
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn rules_come_and_go_and_the_table_goes_with_the_last_network() {
    let space = Space::new();
    let mut socket = space.socket();
    let one =
        fenced("br0", "a", "10.9.0.0/16:1-100,10.9.0.7:50-200/tcp,[fd01::/16]:53/udp,x.example:1");
    let devices = vec!["eth1".parse().unwrap(), "eth2".parse().unwrap()];
    let one = Fenced { reach: Reach { families: vec![Family::V6], devices }, ..one };
    let other = fenced("br1", "b", "10.9.0.7:443");
    fence::ensure(&mut socket, &one).unwrap();
    fence::ensure(&mut socket, &other).unwrap();
    let before = space.run(LIST);
    assert!(before.contains("\"br0\" . 10.9.0.7 . tcp . 1-200"), "{before}");
    for reach in ["\"br0\" . \"eth1\"", "\"br0\" . \"eth2\"", "\"br0\" . ipv6"] {
        assert!(before.contains(reach), "{before}");
    }
    assert!(fence::is_kept(&mut socket, &[one.clone(), other.clone()], &at(9)).unwrap());
    for lost in [
        "flush ruleset",
        "flush chain inet spoke_fence refused",
        "flush set inet spoke_fence allowed4",
        "delete element inet spoke_fence sources4 { \"br0\" . 10.1.2.0/24 }",
        "flush set inet spoke_fence fenced",
        "delete element inet spoke_fence trusted { \"br0\" . \"eth2\" }",
        "add element inet spoke_fence trusted { \"br0\" . \"eth3\" }",
        "flush set inet spoke_fence routed",
    ] {
        space.run(&format!("nft {lost}"));
        assert!(
            !fence::is_kept(&mut socket, &[one.clone(), other.clone()], &at(9)).unwrap(),
            "{lost}"
        );
        fence::keep(&mut socket, &one, Some(&at(9))).unwrap();
        fence::keep(&mut socket, &other, Some(&at(9))).unwrap();
        assert_eq!(sorted(&space.run(LIST)), sorted(&before), "{lost}");
    }
    let less = fenced("br0", "a", "10.9.0.0/16:1-100");
    fence::ensure(&mut socket, &less).unwrap();
    let now = space.run(LIST);
    assert!(now.contains("\"br0\" . 10.9.0.0/16 . tcp . 1-100"), "{now}");
    assert!(!now.contains("eth1") && !now.contains("\"br0\" . ipv6"), "{now}");
    assert!(!now.contains("1-200") && now.contains("\"br1\" . 10.9.0.7 . tcp . 443"), "{now}");
    fence::forget_bridge(&mut socket, &less.bridge).unwrap();
    let now = space.run(LIST);
    assert!(!now.contains("br0") && now.contains("br1"), "{now}");
    for _ in 0..2 {
        fence::forget_bridge(&mut socket, &other.bridge).unwrap();
    }
    assert_eq!(space.run("nft list tables"), "");
}

#[test]
fn what_a_name_opens_ends_with_its_rule() {
    let space = Space::new();
    let mut socket = space.socket();
    let both = fenced("br0", "a", "a.example:443,b.example:443");
    fence::keep(&mut socket, &both, None).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
    let all = [
        (opening("br0", "10.1.2.5", "1.1.1.1"), names(&["a.example"])),
        (opening("br0", "10.1.2.5", "1.1.1.2"), names(&["b.example"])),
        (opening("br0", "10.1.2.5", "1.1.1.3"), names(&["a.example", "b.example"])),
        (opening("br1", "10.1.2.5", "1.1.1.1"), names(&["c.example"])),
        (opening("br0", "fd00::5", "2606::1"), names(&["a.example"])),
    ];
    let limit = Duration::from_secs(60);
    for one in &all {
        for _ in 0..2 {
            open(&mut socket, one, limit);
        }
    }
    let opened = fence::opened(&mut socket).unwrap();
    assert_eq!(opened.len(), 5);
    assert!(opened.values().all(|(_, remaining)| *remaining > Duration::from_secs(50)));
    let [one, second, both] = [0, 1, 2].map(|at| &all[at].0);
    for (asked, name, expected) in [
        (vec![one], "a.example", true),
        (vec![one, both], "a.example", true),
        (vec![second, both], "b.example", true),
        (vec![one, second], "a.example", false),
        (vec![&opening("br0", "10.1.2.6", "1.1.1.1")], "a.example", false),
    ] {
        let is_open = fence::is_open(&mut socket, &asked, &name.parse().unwrap());
        assert_eq!(is_open.unwrap(), expected, "{asked:?} {name}");
    }
    let less = fenced("br0", "a", "b.example:443,a.example:80");
    fence::ensure(&mut socket, &less).unwrap();
    fence::prune(&mut socket, &less).unwrap();
    let opened = fence::opened(&mut socket).unwrap();
    let mut left: Vec<String> = opened.keys().map(|it| it.destination.to_string()).collect();
    left.sort();
    assert_eq!(left, ["1.1.1.1", "1.1.1.2", "1.1.1.3"], "another network's stay");
    // These were checked before the container ended, and would open something for the next one.
    let before = nft::generation(&mut socket).unwrap();
    let bridge = &less.bridge;
    fence::forget_source(&mut socket, bridge, &["10.1.2.5".parse().unwrap()]).unwrap();
    let between = nft::generation(&mut socket).unwrap();
    fence::forget_source(&mut socket, bridge, &["10.1.2.6".parse().unwrap()]).unwrap();
    let left = |socket: &mut Socket| {
        let mut opened: Vec<Opening> = fence::opened(socket).unwrap().into_keys().collect();
        opened.sort();
        opened
    };
    let others = [all[4].0.clone(), all[3].0.clone()];
    let others: Vec<_> = others.into_iter().filter(|it| it.bridge.as_str() == "br1").collect();
    assert_eq!(left(&mut socket), others);
    let late = (opening("br0", "10.1.2.5", "1.1.1.1"), names(&["a.example"]));
    for seen in [before, between] {
        let late = std::slice::from_ref(&late);
        assert!(!fence::open(&mut socket, seen, (late, limit), &[]).unwrap());
    }
    assert_eq!(left(&mut socket), others);
    // Without the table there is nothing to forget.
    fence::forget_bridge(&mut socket, bridge).unwrap();
    fence::forget_source(&mut socket, bridge, &["10.1.2.5".parse().unwrap()]).unwrap();
}

/// The kernel has noted the name, however long it is: by that it stays open, and is opened again.
#[test]
fn what_a_long_name_opens_stays_with_its_rule() {
    let space = Space::new();
    let mut socket = space.socket();
    let label = |letter: &str, length| letter.repeat(length);
    let labels = [label("a", 63), label("b", 63), label("c", 63), label("d", 52)];
    let name: model::DomainName = format!("{}.example", labels.join(".")).parse().unwrap();
    let network = fenced("br0", "a", "*.example:443");
    fence::keep(&mut socket, &network, None).unwrap();
    let one = (opening("br0", "10.1.2.5", "1.1.1.1"), vec![name.clone()]);
    open(&mut socket, &one, Duration::from_secs(60));
    // The keys of IPv6 are the longest.
    let six = (opening("br0", "fd00::5", "2606::1"), vec![name.clone()]);
    open(&mut socket, &six, Duration::from_secs(60));
    let changed = fenced("br0", "a", "*.example:443,10.9.0.0/16:80");
    fence::ensure(&mut socket, &changed).unwrap();
    fence::prune(&mut socket, &changed).unwrap();
    let opened = fence::opened(&mut socket).unwrap();
    assert_eq!((&opened[&one.0].0, &opened[&six.0].0), (&vec![name.clone()], &vec![name]));
    let listed = space.run(LIST);
    assert!(listed.contains("\"br0\" . 10.1.2.5 . 1.1.1.1 . tcp . 443"), "{listed}");
}

/// What a name opened is known as long as its flow goes on.
#[test]
fn flows_that_go_on_stay_known() {
    let space = Space::new();
    let mut socket = space.socket();
    let one = fenced("br0", "a", "a.example:443/udp");
    fence::keep(&mut socket, &one, None).unwrap();
    space.run(
        "ip link set lo up; ip address add 10.1.2.5/32 dev lo
         ip route add local 203.0.113.0/24 dev lo src 10.1.2.5
         nft 'add table inet tracking; add chain inet tracking out { type filter hook output priority 0; };
              add rule inet tracking out ct state new accept'
         bash -c 'echo x >/dev/udp/203.0.113.1/443'",
    );
    let name: Vec<model::DomainName> = vec!["a.example".parse().unwrap()];
    let to = |address: &str| {
        let protocol = Protocol::Udp;
        (Opening { protocol, ..opening("br0", "10.1.2.5", address) }, name.clone())
    };
    // The rules of one container name things as its network's do.
    let own = Own {
        id: doubles::attachment_id("a", "c"),
        bridge: one.bridge.clone(),
        sender: None,
        sources: vec!["10.1.2.5".parse().unwrap()],
        gateways: one.gateways.clone(),
        fence: one.fence.clone(),
        near: Vec::new(),
        reach: Reach::default(),
    };
    for (networks, own) in [(&[one][..], &[][..]), (&[], &[own])] {
        for address in ["203.0.113.1", "203.0.113.2"] {
            open(&mut socket, &to(address), Duration::from_secs(1));
            let key = format!("{{ \"br0\" . 10.1.2.5 . {address} . udp . 443");
            space.run(&format!(
                "nft 'delete element inet spoke_fence recent4 {key} }};
                      add element inet spoke_fence recent4 {key} timeout 60s comment \"a.example\" }}'"
            ));
        }
        fence::keep_known(&mut socket, networks, own).unwrap();
        let listed = space.run("nft list set inet spoke_fence recent4");
        let days: Vec<&str> = listed.split(',').filter(|it| it.contains("timeout 1d")).collect();
        assert!(days.len() == 1 && days[0].contains("203.0.113.1 "), "{listed}");
        assert!(days[0].contains("a.example"), "{listed}");
    }
}

/// What other programs add to the sets, in whatever form, is seen and removed.
#[test]
fn what_others_add_is_removed() {
    let space = Space::new();
    let mut socket = space.socket();
    let mut one = fenced("br0", "a", "a.example:443,10.9.0.0/16:1-100");
    let all = [one.clone()];
    fence::keep(&mut socket, &one, Some(&at(9))).unwrap();
    for added in [
        "allowed4 { \"br0\" . 203.0.113.1 . tcp . 443 }",
        "allowed4 { \"br0\" . 203.0.113.0/24 . tcp . 1-443 }",
        "hosts4 { \"br0\" . 203.0.113.1 . tcp . 443 }",
        "sources4 { \"br0\" . 192.0.2.1 }",
        "sources6 { \"br0\" . 2001:db8::/32 }",
        "within { \"br0\" . \"eth0\" }",
        "learning { \"br0\" }",
        "learning { \"br0\" timeout 1h }",
    ] {
        space.run(&format!("nft 'add element inet spoke_fence {added}'"));
        assert!(!fence::is_kept(&mut socket, &all, &at(9)).unwrap(), "{added}");
        fence::keep(&mut socket, &one, Some(&at(9))).unwrap();
        assert!(fence::is_kept(&mut socket, &all, &at(9)).unwrap(), "{added}");
    }
    one.fence.learning = Some(at(69));
    fence::keep(&mut socket, &one, Some(&at(9))).unwrap();
    assert!(fence::is_kept(&mut socket, std::slice::from_ref(&one), &at(9)).unwrap());
    space.run("nft flush set inet spoke_fence learning");
    space.run("nft 'add element inet spoke_fence learning { \"br0\" timeout 2h }'");
    assert!(!fence::is_kept(&mut socket, &[one], &at(9)).unwrap(), "longer than it should");

    let own = (opening("br0", "10.1.2.5", "1.1.1.1"), vec!["a.example".parse().unwrap()]);
    open(&mut socket, &own, Duration::from_secs(60));
    for added in ["openings4", "openings4 timeout 1h", "recent4"] {
        let (set, time) = added.split_once(' ').unwrap_or((added, ""));
        space.run(&format!(
            "nft 'add element inet spoke_fence {set} \
             {{ \"br0\" . 10.1.2.5 . 203.0.113.1 . tcp . 443 {time} }}'"
        ));
        let is_known = |opening: &Opening, _| *opening == own.0;
        let strays = |socket: &mut _| {
            let mut all = fence::in_sets(socket).unwrap();
            all.retain(|there| there.is_stray(&is_known));
            all
        };
        let added_ones = strays(&mut socket);
        assert_eq!(added_ones.len(), 1, "{added}");
        // What is gone meanwhile keeps nothing else there.
        let twice = [&added_ones[0], &added_ones[0]];
        fence::remove_strays(&mut socket, &twice).unwrap();
        fence::remove_strays(&mut socket, &twice[..1]).unwrap();
        assert!(strays(&mut socket).is_empty(), "{added}");
        assert_eq!(fence::opened(&mut socket).unwrap().len(), 1);
    }
}

/// Elements have no order.
fn sorted(listed: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = listed.split(['\n', ',', '{', '}', '=']).map(str::trim).collect();
    parts.sort_unstable();
    parts
}
