//! What is known of a bridge behind which containers have rules of their own.

use model::{Family, IfName, Moment};
use netlink::nft::{self, Between, Transaction, Tuple};

use super::space::Space;
use crate::filter::fence::{self, Fenced, Own, Reach, TABLE};

fn own(container: &str, (source, gateway): (&str, &str), routed: &[Family]) -> Own {
    Own {
        id: doubles::attachment_id("a", container),
        bridge: "br0".parse().unwrap(),
        sender: None,
        sources: vec![source.parse().unwrap()],
        gateways: vec![gateway.parse().unwrap()],
        fence: "1.1.1.1:443".parse().unwrap(),
        near: Vec::new(),
        reach: Reach { families: routed.to_vec(), devices: Vec::new() },
    }
}

/// Their records say different subnets of the bridge.
fn narrow_and_wide() -> [Own; 2] {
    [
        own("c", ("10.1.2.7", "10.1.2.1/24"), &[]),
        own("d", ("10.1.2.8", "10.1.0.1/16"), &[Family::V4]),
    ]
}

fn fenced(bridge: &str) -> Fenced {
    Fenced {
        network: "a".parse().unwrap(),
        bridge: bridge.parse().unwrap(),
        gateways: vec!["10.1.2.1/24".parse().unwrap()],
        fence: "none".parse().unwrap(),
        reach: Reach::default(),
        beside: None,
    }
}

fn now() -> Moment {
    Moment { boot: "a".to_owned(), seconds: 9 }
}

fn none(_: &IfName) -> bool {
    false
}

#[test]
fn records_that_differ_are_united() {
    let [narrow, wide] = narrow_and_wide();
    for order in [[&narrow, &wide], [&wide, &narrow]] {
        let space = Space::new();
        let mut socket = space.socket();
        for own in order {
            fence::keep_own(&mut socket, own, Some(&now())).unwrap();
        }
        let all = [narrow.clone(), wide.clone()];
        assert!(fence::is_own_kept(&mut socket, &all, (&[], &none), &now()).unwrap());
        let sources = space.run("nft list set inet spoke_fence sources4");
        assert!(sources.contains("10.1.0.0/16") && !sources.contains("10.1.2.0/24"), "{sources}");
        assert!(space.run("nft list set inet spoke_fence routed").contains("br0"));
        for lost in ["sources4", "routed"] {
            space.run(&format!("nft flush set inet spoke_fence {lost}"));
            assert!(
                !fence::is_own_kept(&mut socket, &all, (&[], &none), &now()).unwrap(),
                "{lost}"
            );
            for own in order {
                fence::keep_own(&mut socket, own, Some(&now())).unwrap();
            }
            assert!(fence::is_own_kept(&mut socket, &all, (&[], &none), &now()).unwrap(), "{lost}");
        }
        space.run("nft flush ruleset");
        assert!(fence::shut_lost(&mut socket, &all).unwrap(), "both in one change");
    }
}

#[test]
fn sibling_subnets_are_there_each_or_as_one() {
    let space = Space::new();
    let mut socket = space.socket();
    let all = [
        own("c", ("10.1.2.7", "10.1.2.1/25"), &[]),
        own("d", ("10.1.2.130", "10.1.2.129/25"), &[]),
    ];
    let is_kept =
        |all: &[Own]| fence::is_own_kept(&mut space.socket(), all, (&[], &none), &now()).unwrap();
    for own in &all {
        fence::keep_own(&mut socket, own, Some(&now())).unwrap();
    }
    assert!(is_kept(&all), "each");
    space.run("nft flush set inet spoke_fence sources4");
    assert!(!is_kept(&all));
    fence::keep_own(&mut socket, &all[0], Some(&now())).unwrap();
    assert!(!is_kept(&all), "one of two");
    space.run("nft flush set inet spoke_fence sources4");
    space.run("nft 'add element inet spoke_fence sources4 { \"br0\" . 10.1.2.0/24 }'");
    assert!(is_kept(&all), "as one");
    // What both need is more than what one does.
    fence::forget_own(&mut socket, &all[1].bridge, &all[1].sources).unwrap();
    assert!(!is_kept(&all[..1]));
    let generation = nft::generation(&mut socket).unwrap();
    assert!(fence::settle_behind(&mut socket, generation, (&[], &all[..1], &none)).unwrap());
    assert!(is_kept(&all[..1]));
}

#[test]
fn a_network_is_united_with_its_containers() {
    let space = Space::new();
    let mut socket = space.socket();
    let [_, wide] = narrow_and_wide();
    let own = std::slice::from_ref(&wide);
    let alone = [fenced("br0").beside(&[])];
    let beside = [alone[0].beside(own)];
    fence::keep(&mut socket, &alone[0], Some(&now())).unwrap();
    assert!(fence::is_kept(&mut socket, &alone, &now()).unwrap());
    assert!(fence::is_kept(&mut socket, &beside, &now()).unwrap(), "the container is to come");
    fence::keep_own(&mut socket, &wide, Some(&now())).unwrap();
    assert!(!fence::is_kept(&mut socket, &alone, &now()).unwrap(), "whose is that");
    for _ in 0..2 {
        assert!(fence::is_kept(&mut socket, &beside, &now()).unwrap());
        assert!(fence::is_own_kept(&mut socket, own, (&[], &none), &now()).unwrap());
        fence::keep(&mut socket, &beside[0], Some(&now())).unwrap();
    }
    space.run("nft 'add element inet spoke_fence sources4 { \"br0\" . 192.0.2.1 }'");
    assert!(!fence::is_kept(&mut socket, &beside, &now()).unwrap());
    fence::keep(&mut socket, &beside[0], Some(&now())).unwrap();
    assert!(fence::is_kept(&mut socket, &beside, &now()).unwrap());
}

#[test]
fn nothing_is_left_of_a_bridge_without_rules() {
    let space = Space::new();
    let mut socket = space.socket();
    let [narrow, wide] = narrow_and_wide();
    fence::keep(&mut socket, &fenced("br1"), None).unwrap();
    fence::keep_own(&mut socket, &narrow, None).unwrap();
    fence::keep_own(&mut socket, &wide, None).unwrap();
    let has = || {
        let of = |set: &str| space.run(&format!("nft list set inet spoke_fence {set}"));
        ["sources4", "routed", "within"].map(|set| of(set).contains("br0"))
    };
    fence::forget_own(&mut socket, &narrow.bridge, &narrow.sources).unwrap();
    assert_eq!(has(), [true; 3], "another one needs it");
    fence::forget_own(&mut socket, &wide.bridge, &wide.sources).unwrap();
    assert_eq!(has(), [false; 3]);
    // What its network needs stays.
    fence::keep(&mut socket, &fenced("br0"), None).unwrap();
    fence::keep_own(&mut socket, &narrow, None).unwrap();
    fence::forget_own(&mut socket, &narrow.bridge, &narrow.sources).unwrap();
    assert!(fence::is_kept(&mut socket, &[fenced("br0"), fenced("br1")], &now()).unwrap());
}

#[test]
fn an_older_version_is_completed() {
    let space = Space::new();
    let mut socket = space.socket();
    let [_, wide] = narrow_and_wide();
    let network =
        Fenced { reach: Reach { families: vec![Family::V6], ..Reach::default() }, ..fenced("br1") };
    let (networks, all) = ([network], [wide]);
    fence::keep(&mut socket, &networks[0], Some(&now())).unwrap();
    fence::keep_own(&mut socket, &all[0], Some(&now())).unwrap();
    let mut is_kept = || {
        fence::is_kept(&mut socket, &networks, &now()).unwrap()
            && fence::is_own_kept(&mut socket, &all, (&[], &none), &now()).unwrap()
    };
    assert!(is_kept());
    space.run(
        "nft delete chain inet spoke_fence fence_11; nft add chain inet spoke_fence fence_9;
         nft flush set inet spoke_fence routed;
         nft 'delete element inet spoke_fence sources4 { \"br0\" . 10.1.0.0/16 }'",
    );
    assert!(!is_kept());
    fence::complete_older(&mut space.socket(), &networks, &all).unwrap();
    assert!(is_kept());
    // What another program has taken is no version's.
    space.run("nft flush set inet spoke_fence own4");
    fence::complete_older(&mut space.socket(), &networks, &all).unwrap();
    assert!(!is_kept());
    fence::keep_own(&mut space.socket(), &all[0], Some(&now())).unwrap();
    assert!(is_kept());
    space.run("nft flush table inet spoke_fence");
    fence::complete_older(&mut space.socket(), &networks, &all).unwrap();
    assert!(!is_kept());
}

#[test]
fn what_is_not_known_of_containers_stays() {
    let space = Space::new();
    let mut socket = space.socket();
    let [_, wide] = narrow_and_wide();
    let own = std::slice::from_ref(&wide);
    // A process that changes a network's rules does not ask which containers have others.
    let unknown = fenced("br0");
    fence::keep(&mut socket, &unknown, Some(&now())).unwrap();
    fence::keep_own(&mut socket, &wide, Some(&now())).unwrap();
    for _ in 0..2 {
        assert!(fence::is_kept(&mut socket, std::slice::from_ref(&unknown), &now()).unwrap());
        assert!(fence::is_own_kept(&mut socket, own, (&[], &none), &now()).unwrap());
        fence::keep(&mut socket, &unknown, Some(&now())).unwrap();
    }
    fence::unfence(&mut socket, &unknown.bridge).unwrap();
    assert!(fence::is_own_kept(&mut socket, own, (&[], &none), &now()).unwrap());
}

#[test]
fn what_no_record_needs_any_more_goes() {
    let space = Space::new();
    let mut socket = space.socket();
    let [narrow, wide] = narrow_and_wide();
    let trusting =
        |device: &str| Reach { families: vec![Family::V4], devices: vec![device.parse().unwrap()] };
    let wide = Own { reach: trusting("eth1"), ..wide };
    let beside = Own { bridge: "br1".parse().unwrap(), reach: trusting("eth2"), ..narrow.clone() };
    let networks = [fenced("br1")];
    fence::keep(&mut socket, &networks[0], Some(&now())).unwrap();
    for own in [&narrow, &wide, &beside] {
        fence::keep_own(&mut socket, own, Some(&now())).unwrap();
    }
    let settle = |all: &[Own], may_have_others| {
        let mut socket = space.socket();
        let generation = nft::generation(&mut socket).unwrap();
        fence::settle_behind(&mut socket, generation, (&networks, all, may_have_others)).unwrap()
    };
    let has = |wanted: [&str; 3]| {
        let all = space.run("nft list table inet spoke_fence");
        wanted.map(|it| all.contains(it))
    };
    let wanted = ["10.1.0.0/16", "\"br0\" . \"eth1\"", "\"br1\" . \"eth2\""];
    let all = [narrow.clone(), wide.clone(), beside.clone()];
    assert!(settle(&all, &none));
    assert_eq!(has(wanted), [true; 3], "they need it");
    fence::forget_own(&mut socket, &wide.bridge, &wide.sources).unwrap();
    fence::forget_own(&mut socket, &beside.bridge, &beside.sources).unwrap();
    let left = std::slice::from_ref(&narrow);
    assert!(settle(left, &|_| true));
    assert_eq!(has(wanted), [true; 3], "of another one the record cannot be read");
    assert!(!fence::is_own_kept(&mut socket, left, (&[], &none), &now()).unwrap());
    assert!(settle(left, &none));
    assert_eq!(has(wanted), [false; 3]);
    assert!(fence::is_own_kept(&mut socket, left, (&[], &none), &now()).unwrap());
    assert!(fence::is_kept(&mut socket, &[networks[0].beside(left)], &now()).unwrap());
    // Between the look and the change another process has changed the ruleset.
    let generation = nft::generation(&mut socket).unwrap();
    space.run("nft 'add element inet spoke_fence trusted { \"br0\" . \"eth3\" }'");
    assert!(
        !fence::settle_behind(&mut socket, generation, (&networks, left, &none)).unwrap(),
        "read again"
    );
}

#[test]
fn what_leads_from_one_bridge_to_another_goes_with_the_next_change() {
    let space = Space::new();
    let mut socket = space.socket();
    let [narrow, wide] = narrow_and_wide();
    let all = [narrow, Own { bridge: "br1".parse().unwrap(), ..wide }];
    for own in &all {
        fence::keep_own(&mut socket, own, Some(&now())).unwrap();
    }
    space.run("nft flush set inet spoke_fence own4");
    let at = |bridge: &str, address: &str| {
        let (bridge, address) = (bridge.parse().unwrap(), address.parse().unwrap());
        Tuple::new().interface(&bridge).address(address)
    };
    let range = Between { first: at("br0", "10.2.0.0"), last: at("br1", "10.2.0.255") };
    let mut transaction = Transaction::new();
    transaction.add_between(TABLE, "sources4", &range, String::new());
    transaction.apply(&mut socket).unwrap();
    let has = || nft::between(&mut space.socket(), TABLE, "sources4").unwrap().contains(&range);
    assert!(has());
    assert!(fence::shut_lost(&mut socket, &all).unwrap());
    assert!(!has());
}
