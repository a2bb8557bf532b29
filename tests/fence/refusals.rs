//! Where there is no fence, and CNI's own way to one.

use serde_json::{Value, json};
use tests::{Answer, Cni, Serve};

use crate::bed::{Bed, SPOKE, until};

#[test]
fn what_cannot_be_fenced_is_refused_and_cni_has_rules_of_its_own() {
    let mut bed = Bed::new(&["agent"]);
    for (options, expected) in [
        ("-d ptp --egress none", "egress"),
        ("-d macvlan --parent up0 --egress none", "egress"),
        ("--egress none --internal", "internal"),
        ("--egress none --no-gateway", "--no-gateway"),
        ("--egress github.com", "github.com:443"),
        ("--egress '*:443'", "0.0.0.0/0"),
        ("--egress bücher.example:443", "xn--"),
        ("--egress web.front.spoke:80", ".spoke"),
    ] {
        let made = bed
            .world
            .try_sh(&format!("{SPOKE} network create {options} --subnet 10.81.9.0/24 refused"));
        assert!(made.status != 0 && made.stderr.contains(expected), "{options}: {made:?}");
    }
    // A bridge that is there may lead anywhere.
    bed.spoke("network create --egress none --bridge br9 --subnet 10.81.9.0/24 foreign");
    bed.world.sh("ip link add br9 type bridge");
    let joined = bed.world.try_sh(&format!("{SPOKE} network connect foreign agent"));
    assert!(joined.stderr.contains("a bridge that Spoke makes"), "{joined:?}");

    // Nothing is kept of what is refused: the container comes back.
    bed.spoke("network create --names --bridge br8 --subnet 10.81.10.0/24 theirs");
    bed.world.sh("ip link add br8 type bridge");
    bed.spoke("network connect theirs agent");
    let refused = bed.world.try_sh(&format!("{SPOKE} egress set --container agent theirs none"));
    assert!(refused.stderr.contains("a bridge that Spoke makes"), "{refused:?}");
    let shown = bed.world.try_sh(&format!("{SPOKE} egress show theirs"));
    assert!(shown.stderr.contains("has no egress rules"), "it is recorded: {shown:?}");
    bed.spoke("network disconnect theirs agent");
    bed.spoke("network connect theirs agent");
    bed.spoke("network disconnect theirs agent");

    has_public_addresses(&bed);
    let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{
        "type": "spoke", "bridge": "br-pods", "egress": ["*.allowed.example:443", "203.0.113.20:5432"],
        "ipam": {"ranges": [[{"subnet": "10.81.7.0/24"}]]},
    }]});
    let mut pod = Cni::container(&bed.world, "pod");
    let answers = pod.add(&list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    assert_eq!(pod.result.as_ref().expect("a result")["dns"]["nameservers"], json!(["10.81.7.1"]));
    bed.until_answers("10.81.7.1");
    assert_eq!(bed.attempt("pod", "ask 10.81.7.1 good.allowed.example"), "203.0.113.10");
    let table = [
        ("tcp 203.0.113.10 443", "open"),
        ("tcp 203.0.113.10 80", "shut"),
        ("tcp 203.0.113.20 5432", "open"),
        ("ask 10.81.7.1 evil.example", "NXDOMAIN"),
        ("ask 10.81.7.1 public.allowed.example", "nothing"),
        ("ask 10.81.7.1 led.allowed.example", "nothing"),
        ("ask 10.81.7.1 led-later.allowed.example", "nothing"),
        ("tcp 203.0.113.99 443", "shut"),
        ("tcp 10.81.7.1 8022", "shut"),
        ("tcp 10.81.1.1 8022", "shut"),
    ];
    bed.all("pod", &table);
    // A bridge has one fence.
    let second = json!({"cniVersion": "1.0.0", "name": "second", "plugins": [{
        "type": "spoke", "bridge": "br-pods", "egress": ["none"],
        "ipam": {"ranges": [[{"subnet": "10.81.8.0/24"}]]},
    }]});
    let mut other = Cni::container(&bed.world, "other");
    let answers = other.add(&second);
    assert!(format!("{answers:?}").contains("give it a bridge of its own"), "{answers:?}");
    bed.all("pod", &table);
    let changed = bed.world.try_sh(&format!("{SPOKE} egress set pods none"));
    assert!(changed.stderr.contains("configuration"), "{changed:?}");
    assert!(pod.del(&list).iter().all(Answer::ok));
    let opened = bed.world.sh("nft list set inet spoke_fence openings4");
    assert!(!opened.contains("203.0.113.10"), "{opened}");
    own_rules_outlive_the_network_s(&mut bed, &list);
    bed.spoke("network rm pods foreign theirs agents");
    until(&bed.world, "! nft list table inet spoke_fence >/dev/null 2>&1");
}

/// A container's addresses, though they are public ones. Of the second network the host has no subnet: what may come is
/// as good as what is there.
#[track_caller]
fn has_public_addresses(bed: &Bed) {
    bed.spoke("network create --subnet 203.0.114.0/24 public");
    bed.spoke("network connect --ip 203.0.114.9 public agent");
    bed.spoke("network create -d ptp --subnet 203.0.115.0/24 led");
    bed.spoke("network connect --ip 203.0.115.9 led agent");
}

/// The administrator removes "egress" from the configuration while one pod has the network's rules, and another one
/// rules of its own.
#[track_caller]
fn own_rules_outlive_the_network_s(bed: &mut Bed, list: &Value) {
    let mut with = list.clone();
    with["plugins"][0]["args"] = json!({"cni": {"egress": "203.0.113.22:5432"}});
    let mut own = Cni::container(&bed.world, "own");
    let answers = own.add(&with);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    let address = own.result.as_ref().expect("a result")["ips"][0]["address"].clone();
    let address = address.as_str().and_then(|it| it.split('/').next()).expect("an address");
    let table = [("tcp 203.0.113.22 5432", "open"), ("tcp 203.0.113.97 443", "shut")];
    bed.all("own", &table);

    let mut former = Cni::container(&bed.world, "former");
    let answers = former.add(list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    bed.all("former", &[("tcp 203.0.113.97 443", "shut")]);

    let mut open = list.clone();
    open["plugins"][0].as_object_mut().expect("an object").remove("egress");
    let mut late = Cni::container(&bed.world, "late");
    let answers = late.add(&open);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    until(&bed.world, "! nft list set inet spoke_fence fenced | grep -q br-pods");
    for (set, part) in [("own4", address), ("own_allowed4", "203.0.113.22"), ("within", "br-pods")]
    {
        let there = bed.world.sh(&format!("nft list set inet spoke_fence {set}"));
        assert!(there.contains(part), "{there}");
    }
    bed.all("own", &table);
    let free = [("tcp 203.0.113.97 443", "open")];
    bed.all("late", &free);
    // What is put back are not the rules with which the former one was attached.
    let held = former.result.as_ref().expect("a result")["ips"][0]["address"].clone();
    let held = held.as_str().and_then(|it| it.split('/').next()).expect("an address");
    for _ in 0..2 {
        bed.world.sh("nft delete table inet spoke");
        until(&bed.world, &format!("nft list table inet spoke 2>/dev/null | grep -q '{held} '"));
    }
    bed.all("late", &free);
    bed.all("former", &free);
    // An earlier life of the daemon, or a process that was killed, has left a fence.
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft 'add element inet spoke_fence fenced { \"br-pods\" }'");
    bed.all("late", &[("tcp 203.0.113.97 443", "shut")]);
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, "! nft list set inet spoke_fence fenced | grep -q br-pods");
    bed.all("late", &free);
    bed.all("own", &table);
    let ended = [own.del(&with), late.del(&open), former.del(list)];
    assert!(ended.iter().flatten().all(Answer::ok), "{ended:?}");
}
