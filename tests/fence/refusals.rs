//! Where there is no fence, and CNI's own way to one.

use serde_json::json;
use tests::{Answer, Cni};

use crate::bed::{Bed, SPOKE, until};

#[test]
fn what_cannot_be_fenced_is_refused_and_cni_has_rules_of_its_own() {
    let bed = Bed::new(&["agent"]);
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
    bed.spoke("network rm pods foreign agents");
    until(&bed.world, "! nft list table inet spoke_fence >/dev/null 2>&1");
}
