//! Rules of one container: instead of its network's, and where that has none.

use serde_json::json;
use tests::{Answer, Cni, Serve};

use crate::bed::{Bed, SPOKE, listen, until};
use crate::flow::Flow;

/// Network `open` has names and no rules. `tight` has some there, and `agent` others than `agents`; `free` and
/// `mate` have what their networks say.
fn two_of_each() -> Bed {
    let bed = Bed::new(&["agent", "mate", "tight", "free"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 --subnet fd81:5::/64 open");
    bed.spoke("network connect --ip 10.81.1.10 --egress 'exact.example:443,203.0.113.22:5432' agents agent");
    bed.spoke("network connect --ip 10.81.1.11 agents mate");
    bed.spoke(
        "network connect --ip 10.81.5.10 --ip6 fd81:5::10 \
         --egress '*.allowed.example:443,203.0.113.20:5432,[2001:db8:113::20]:5432' open tight",
    );
    bed.spoke("network connect --ip 10.81.5.11 --ip6 fd81:5::11 open free");
    bed.until_answers("10.81.5.1");
    bed
}

#[test]
fn one_container_has_rules_of_its_own() {
    let bed = two_of_each();
    listen(&bed.world, "/run/netns/free", "free 8022");
    until(&bed.world, "ip netns exec free ss -Hltn | grep -q ':8022 '");
    // They replace those of the network, which hold for the others.
    bed.all(
        "agent",
        &[
            ("ask 10.81.1.1 exact.example", "203.0.113.16"),
            ("ask 10.81.1.1 good.allowed.example", "NXDOMAIN"),
            ("tcp 203.0.113.22 5432", "open"),
            ("tcp 203.0.113.20 5432", "shut"),
        ],
    );
    bed.all("agent", &[("tcp 203.0.113.16 443", "open"), ("tcp 203.0.113.16 80", "shut")]);
    bed.all(
        "mate",
        &[
            ("ask 10.81.1.1 good.allowed.example", "203.0.113.10"),
            ("tcp 203.0.113.22 5432", "shut"),
            ("tcp 203.0.113.20 5432", "open"),
        ],
    );
    bed.all("mate", &[("tcp 203.0.113.10 443", "open")]);
    // A network without rules stays as it is for all others.
    bed.all(
        "free",
        &[
            ("ask 10.81.5.1 evil.example", "nothing"),
            ("tcp 203.0.113.99 443", "open"),
            ("tcp 10.81.5.1 8022", "open"),
        ],
    );
    bed.world.sh("ip netns exec world nft flush set inet seen four; \
                  ip netns exec world nft flush set inet seen six");
    nothing_else_leaves(&bed);
    is_a_neighbour(&bed);

    is_shown(&bed);
    by_cni(&bed);
    holds_until_it_goes(&bed);
}

/// Whose rules they are is said wherever rules are.
#[track_caller]
fn is_shown(bed: &Bed) {
    let shown = bed.spoke("egress show open");
    assert!(shown.contains("everything") && shown.contains("spoke/tight"), "{shown}");
    assert!(shown.contains("203.0.113.10:443/tcp"), "{shown}");
    let shown = bed.spoke("egress show agents -o json");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["containers"][0]["rules"], json!(["exact.example:443", "203.0.113.22:5432"]));
    let inspected = bed.spoke("ps -o json");
    assert!(inspected.contains("*.allowed.example:443"), "{inspected}");
    let test = |of: &str| bed.world.try_sh(&format!("{SPOKE} egress test {of}")).status;
    assert_eq!(test("agents --container agent good.allowed.example:443"), 1);
    assert_eq!(test("agents --container mate good.allowed.example:443"), 0);
    assert_eq!(test("open --container free good.allowed.example:443"), 0, "nothing is refused");
    let denied = bed.denied().to_string();
    for whose in ["not in its own egress on open", "no rule of tight on open allows the address"] {
        assert!(denied.contains(whose), "{whose}: {denied}");
    }
    // What its own rules refused is no suggestion for its network.
    let suggested = |of: &str| bed.spoke(&format!("egress suggest {of}"));
    assert!(!suggested("agents").contains("203.0.113.20:5432"), "{denied}");
    let own = suggested("agents --container agent");
    assert!(own.contains("203.0.113.20:5432") && own.contains("good.allowed.example:443"), "{own}");
    for (network, options, expected) in [
        ("plain", "--egress none", "with names or egress"),
        ("open", "--egress github.com", "github.com:443"),
    ] {
        let refused =
            bed.world.try_sh(&format!("{SPOKE} network connect {options} {network} mate"));
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
}

/// Its second network opens nothing here, and its rules go with it.
#[track_caller]
fn holds_until_it_goes(bed: &Bed) {
    // By a network without rules it goes where it wants, but not in that one's name by the other.
    bed.spoke("network connect --ip 10.81.2.50 plain tight");
    bed.world.sh("ip -n tight route add 203.0.113.0/25 via 10.81.2.1");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.99 443"), "open", "by the other network");
    bed.world.sh("ip -n tight route change 203.0.113.0/25 via 10.81.5.1");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.99 443 from=10.81.2.50"), "shut");

    bed.spoke("network disconnect agents agent");
    bed.spoke("network disconnect agents mate");
    bed.spoke("network rm agents");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.98 443 from=10.81.5.10"), "shut");
    bed.spoke("network disconnect open tight");
    until(&bed.world, "! nft list table inet spoke_fence >/dev/null 2>&1");
    assert_eq!(bed.attempt("free", "tcp 203.0.113.99 443"), "open");
    let left = bed.world.sh("nft list ruleset | grep -c 10.81.5.10 || true");
    assert_eq!(left.trim(), "0");
    // No command has changed the fences. A report would come before the end of this.
    bed.spoke("network create --egress none --subnet 10.81.9.0/24 last");
    bed.spoke("egress learn last --for 3s");
    until(&bed.world, &format!("{SPOKE} events | grep -q 'last refuses again'"));
    assert_eq!(bed.spoke("events | grep -c healed || true").trim(), "0");
}

/// What a container with rules of its own on a network without any tries in vain.
#[track_caller]
fn nothing_else_leaves(bed: &Bed) {
    bed.world.sh("ip -n tight address add 10.81.5.77/24 dev eth0
        ip -n tight address add fe80::9/64 dev eth0 nodad
        ip -n tight address add fd81:5::77/64 dev eth0 nodad preferred_lft 0
        ip address add fe80::7/64 dev sp-open nodad");
    bed.all(
        "tight",
        &[
            ("ask 10.81.5.1 good.allowed.example", "203.0.113.10"),
            ("ask fd81:5::1 six.allowed.example AAAA", "2001:db8:113::10"),
            ("ask 10.81.5.1 free", "10.81.5.11"),
            ("ask 10.81.5.1 c2vjcmv0.evil.example", "NXDOMAIN"),
            ("ask 10.81.5.1 c2vjcmv0.evil.example TXT tcp", "NXDOMAIN"),
            ("ask 203.0.113.8 c2vjcmv0.evil.example", "NXDOMAIN"),
            ("ask 203.0.113.254 c2vjcmv0.evil.example", "NXDOMAIN"),
            ("ask 10.81.5.1 private.allowed.example", "nothing"),
            ("ask 10.81.5.1 good.allowed.example HTTPS", "nothing"),
        ],
    );
    bed.all(
        "tight",
        &[
            ("tcp 203.0.113.10 443", "open"),
            ("tcp 2001:db8:113::10 443", "open"),
            ("tcp 203.0.113.20 5432", "open"),
            ("tcp 2001:db8:113::20 5432", "open"),
            ("tcp 10.81.5.11 8022", "open"),
            ("tcp 203.0.113.10 80", "shut"),
            ("udp 203.0.113.10 443", "shut"),
            ("tcp 203.0.113.99 443", "shut"),
            ("tcp 2001:db8:113::99 443", "shut"),
            ("tcp 203.0.113.8 853", "shut"),
            ("ping 203.0.113.10", "shut"),
            ("ping 2001:db8:113::10", "shut"),
            ("big 203.0.113.99 443", "shut"),
            ("raw 203.0.113.10 47", "sent"),
            ("tcp 169.254.169.254 80", "shut"),
            // The host, by each of its addresses.
            ("tcp 10.81.5.1 8022", "shut"),
            ("tcp fd81:5::1 8022", "shut"),
            ("tcp fe80::7%eth0 8022", "shut"),
            ("tcp fe80::7%eth0 8022 from=fe80::9%eth0", "shut"),
            ("tcp 203.0.113.254 8022", "shut"),
            ("tcp 10.81.1.1 8022", "shut"),
            ("ping 10.81.5.1", "shut"),
            // In the name of those who may, and in that of no container.
            ("tcp 203.0.113.99 443 from=10.81.5.77", "shut"),
            ("tcp 2001:db8:113::99 443 from=fd81:5::77", "shut"),
            ("spoof 10.81.5.11 203.0.113.98 8443", "sent"),
            ("spoof 192.0.2.1 203.0.113.98 8443", "sent"),
            ("message 203.0.113.98 8443 203.0.113.254", "sent"),
        ],
    );
    let seen = bed.seen();
    for never in
        ["203.0.113.98", "203.0.113.99", "::99", "203.0.113.8 ", "elements = { 203.0.113.10 . 47"]
    {
        assert!(!seen.contains(never), "{never}: {seen}");
    }
    assert!(!bed.was_asked("c2vjcmv0"));
}

/// What goes no further than the link passes from no address and from one of the link; from another one it
/// does not. No address is announced but its own.
#[track_caller]
fn is_a_neighbour(bed: &Bed) {
    bed.world.sh("ip netns exec free nft -f - <<'END'
table inet heard {
    set six { typeof ip6 saddr . icmpv6 type; flags dynamic; size 65535; }
    set announced { typeof @th,64,128; flags dynamic; size 65535; }
    chain in {
        type filter hook prerouting priority -400
        add @six { ip6 saddr . icmpv6 type }
        icmpv6 type { 135, 136 } add @announced { @th,64,128 }
    }
}
END");
    bed.all(
        "tight",
        &[
            ("link :: 135", "sent"),
            ("link :: 143", "sent"),
            ("link fe80::9 133", "sent"),
            ("link fe80::9 136", "sent"),
            ("link :: 135 fd81:5::abcd", "sent"),
            ("link fe80::9 136 fd81:5::abcd", "sent"),
            ("link fd81:5::10 136 fd81:5::abcd", "sent"),
            ("link fd81:5::77 135", "sent"),
            ("link 2001:db8:113::99 143", "sent"),
            ("link fe80::9 128", "sent"),
            ("link :: 128", "sent"),
        ],
    );
    // Frames of one port keep their order.
    assert_eq!(bed.attempt("tight", "link fd81:5::10 128"), "sent");
    let heard = "ip netns exec free nft list set inet heard six | tr -d '\\n\\t'";
    until(&bed.world, &format!("{heard} | grep -q 'fd81:5::10 . echo-request'"));
    let heard = bed.world.sh(heard);
    let announced = bed.world.sh("ip netns exec free nft list set inet heard announced");
    let (own, other) = ("fd810005000000000000000000000010", "fd81000500000000000000000000abcd");
    assert!(announced.contains(own) && !announced.contains(other), "{announced}");
    for passes in [
        ":: . nd-neighbor-solicit",
        ":: . mld2-listener-report",
        "fe80::9 . nd-router-solicit",
        "fe80::9 . nd-neighbor-advert",
    ] {
        assert!(heard.contains(passes), "{passes}: {heard}");
    }
    for never in ["fd81:5::77", "2001:db8", "fe80::9 . echo-request", ":: . echo-request"] {
        assert!(!heard.contains(&format!(" {never}")), "{never}: {heard}");
    }
}

/// The runtime's arguments say it, or its capability.
#[track_caller]
fn by_cni(bed: &Bed) {
    let list = |args: serde_json::Value| {
        json!({"cniVersion": "1.0.0", "name": "open", "plugins": [{
            "type": "spoke", "network": "open", "capabilities": {"egress": true}, "args": args,
        }]})
    };
    let wanted = list(json!({"cni": {"egress": ["*.allowed.example:443"]}}));
    let mut pod = Cni::container(&bed.world, "pod");
    let bad = pod.add(&list(json!({"cni": {"egress": "github.com"}})));
    assert!(format!("{bad:?}").contains("github.com:443"), "{bad:?}");
    let answers = pod.add(&wanted);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    until(&bed.world, &format!("{SPOKE} dns query pod >/dev/null 2>&1"));
    let table = [
        ("ask 10.81.5.1 good.allowed.example", "203.0.113.10"),
        ("ask 10.81.5.1 evil.example", "NXDOMAIN"),
        ("tcp 203.0.113.99 443", "shut"),
        ("tcp 203.0.113.20 5432", "shut"),
    ];
    bed.all("pod", &table);
    bed.all("pod", &[("tcp 203.0.113.10 443", "open")]);
    assert!(pod.del(&wanted).iter().all(Answer::ok));
    let mut second = Cni::container(&bed.world, "second");
    second.runtime = json!({"egress": "203.0.113.20:5432"});
    let plain = list(json!({}));
    let answers = second.add(&plain);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    bed.all("second", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
    assert!(second.del(&plain).iter().all(Answer::ok));
    annotated(bed);
    // What the runtime says comes before what an entry does.
    let entries = json!({"cniVersion": "1.0.0", "name": "both", "plugins": [{
        "type": "spoke", "capabilities": {"egress": true},
        "networks": [{"name": "open", "egress": "203.0.113.22:5432"}],
    }]});
    let answers = second.add(&entries);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    bed.all("second", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.22 5432", "shut")]);
    assert!(second.del(&entries).iter().all(Answer::ok));
}

/// As containerd and CRI-O pass a pod's annotations, where the configuration asks for them.
#[track_caller]
fn annotated(bed: &Bed) {
    const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
    let list = json!({"cniVersion": "1.0.0", "name": "open", "plugins": [{
        "type": "spoke", "network": "open", "capabilities": {ANNOTATIONS: true},
        "args": {"cni": {"egress": "203.0.113.22:5432"}},
    }]});
    let mut pod = Cni::container(&bed.world, "annotated");
    pod.runtime = json!({ANNOTATIONS: {"spoke.egress": "github.com"}});
    let bad = pod.add(&list);
    assert!(format!("{bad:?}").contains("github.com:443"), "{bad:?}");
    let gone = pod.del(&list);
    assert!(gone.iter().all(Answer::ok), "{gone:?}");
    pod.runtime = json!({ANNOTATIONS: {"other": "x", "spoke.egress": "203.0.113.20:5432"}});
    let answers = pod.add(&list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    let table = [("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.22 5432", "shut")];
    bed.all("annotated", &table);
    assert!(pod.del(&list).iter().all(Answer::ok));
    pod.runtime = json!({ANNOTATIONS: {"other": "x"}});
    let answers = pod.add(&list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    bed.all("annotated", &[("tcp 203.0.113.20 5432", "shut"), ("tcp 203.0.113.22 5432", "open")]);
    assert!(pod.del(&list).iter().all(Answer::ok));
}

/// What a damaged record allows is unknown: what holds its container stays, also when the daemon comes again.
#[test]
fn a_damaged_record_opens_no_fence() {
    let mut bed = two_of_each();
    bed.spoke("egress set --container free 203.0.113.20:5432");
    let shut = [("tcp 203.0.113.99 443", "shut"), ("tcp 203.0.113.20 5432", "open")];
    bed.all("tight", &shut);
    bed.world.sh("mkdir /keep; cp -a $(ls -d /run/spoke/*/attachments/open/*tight*) /keep/record
        : >$(ls -d /run/spoke/*/attachments/open/*tight*)");
    bed.spoke("network disconnect open free");
    // By then the daemon has seen what went before.
    let passes = |bed: &Bed, count: u32| {
        bed.spoke("egress learn agents --for 1s");
        let heard = format!("{SPOKE} events | grep -c 'agents refuses again'");
        until(&bed.world, &format!("[ \\$({heard}) -ge {count} ]"));
    };
    passes(&bed, 1);
    bed.all("tight", &shut);
    bed.serve.take().expect("it runs").kill();
    bed.serve = Some(Serve::start(&bed.world, &[]));
    passes(&bed, 2);
    bed.all("tight", &shut);
    // When it can be read again it ends as any other, and the rules with it.
    bed.world.sh("cat /keep/record >$(ls -d /run/spoke/*/attachments/open/*tight*)");
    bed.spoke("network disconnect open tight");
    until(&bed.world, "! nft list set inet spoke_fence own4 | grep -q 10.81.5.10");
}

/// What stays allowed goes on; what is set of a container is there when it comes back, and whatever becomes of
/// the daemon and the packet filter.
#[test]
fn its_rules_change_and_stay() {
    let bed = two_of_each();
    for (who, gateway, name) in
        [("agent", "10.81.1.1", "exact"), ("mate", "10.81.1.1", "stays.allowed")]
    {
        bed.attempt(who, &format!("ask {gateway} {name}.example"));
    }
    let mut kept = Flow::open(&bed.world, "agent", "203.0.113.16", 443);
    let mut ends = Flow::open(&bed.world, "agent", "203.0.113.22", 5432);
    let mut mates = Flow::open(&bed.world, "mate", "203.0.113.34", 443);
    let mut frees = Flow::open(&bed.world, "free", "203.0.113.97", 443);
    bed.spoke("egress set --container agent exact.example:443");
    let states = [kept.state(), ends.state(), mates.state(), frees.state()];
    assert_eq!(states, ["goes on", "shut", "goes on", "goes on"]);
    // The network's rules are not its own.
    bed.spoke("egress set agents 203.0.113.22:5432");
    assert_eq!([kept.state(), mates.state()], ["goes on", "shut"]);
    bed.all(
        "agent",
        &[("tcp 203.0.113.22 5432", "shut"), ("ask 10.81.1.1 exact.example", "203.0.113.16")],
    );
    bed.spoke("egress learn agents --for 1h");
    bed.all(
        "agent",
        &[("tcp 203.0.113.99 443", "shut"), ("ask 10.81.1.1 evil.example", "NXDOMAIN")],
    );
    bed.spoke("egress learn agents --stop");
    bed.spoke("egress set --container agent --inherit");
    assert_eq!(kept.state(), "shut");
    bed.all(
        "agent",
        &[("tcp 203.0.113.22 5432", "open"), ("ask 10.81.1.1 exact.example", "NXDOMAIN")],
    );

    stays(bed, frees);
}

/// Rules of a container that had none, and what becomes of them when others go.
#[track_caller]
fn stays(mut bed: Bed, mut frees: Flow) {
    // A running container that had no rules.
    bed.spoke("egress set --container free 203.0.113.20:5432");
    assert_eq!(frees.state(), "shut");
    bed.all("free", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.97 443", "shut")]);
    let refused = bed.world.try_sh(&format!("{SPOKE} egress set --container free 'x y'"));
    assert!(refused.status != 0, "{refused:?}");
    let missing = bed.world.try_sh(&format!("{SPOKE} egress set --container nobody none"));
    assert_eq!(missing.status, 3, "{missing:?}");
    bed.spoke("network disconnect open free");
    bed.spoke("network connect --ip 10.81.5.12 open free");
    bed.all("free", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.97 443", "shut")]);

    assert_eq!(bed.attempt("tight", "ask 10.81.5.1 fresh.allowed.example"), "203.0.113.17");
    let mut flow = Flow::open(&bed.world, "tight", "203.0.113.17", 443);
    bed.serve.take().expect("it runs").kill();
    // What the former holder of an address has begun is not the next one's.
    bed.world.netns("former");
    bed.spoke("network connect --ip 10.81.5.60 open former");
    let begun = "udp 203.0.113.97 8443 from=10.81.5.60/4000";
    assert_eq!(bed.attempt("former", begun), "open");
    bed.spoke("network disconnect open former");
    bed.world.netns("late");
    bed.spoke("network connect --ip 10.81.5.60 --egress 203.0.113.22:5432 open late");
    bed.all("late", &[("tcp 203.0.113.22 5432", "open"), (begun, "shut")]);
    bed.all("late", &[("tcp 203.0.113.20 5432", "shut")]);
    bed.spoke("egress set --container late 203.0.113.20:5432");
    bed.all("late", &[("tcp 203.0.113.22 5432", "shut"), ("tcp 203.0.113.20 5432", "open")]);
    assert_eq!(flow.state(), "goes on");
    is_put_back(bed, flow);
}

/// What others take or add is put back, by the next life of the daemon.
#[track_caller]
fn is_put_back(mut bed: Bed, mut flow: Flow) {
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, "ss -Hlun sport = :299 | grep -q 10.81.5.1");
    // The names are answered as soon as that; what an earlier life opened may be learned later.
    assert_eq!(bed.attempt("tight", "ask 10.81.5.1 fresh.allowed.example"), "203.0.113.17");
    let own = |address: &str| format!("nft list set inet spoke_fence own4 | grep -q '{address}'");
    for lost in [
        "flush ruleset",
        "delete table inet spoke_fence",
        "flush chain inet spoke_fence own_leaving",
        "flush set inet spoke_fence own4",
        "add element inet spoke_fence own_allowed4 { \"sp-open\" . 10.81.5.10 . 203.0.113.99 . tcp . 443 }",
    ] {
        bed.world.sh(&format!("nft '{lost}'"));
        until(&bed.world, &own("10.81.5.10"));
        until(&bed.world, &own("10.81.5.60"));
        until(
            &bed.world,
            "nft list chain inet spoke_fence own_leaving | grep -q 'jump own_refused'",
        );
        until(&bed.world, "! nft list set inet spoke_fence own_allowed4 | grep -q '203.0.113.99'");
        until(&bed.world, "nft list set inet spoke_fence openings4 | grep -q 203.0.113.17");
        until(&bed.world, "nft list set bridge spoke bound | grep -q veth");
        bed.all(
            "tight",
            &[
                ("tcp 203.0.113.99 443", "shut"),
                ("tcp 203.0.113.17 443", "open"),
                ("tcp 203.0.113.20 5432", "open"),
            ],
        );
        assert_eq!(flow.state(), "goes on", "{lost}");
    }
    // A command that ended between the record and the kernel left its port checked; it is repeated.
    let bound =
        "nft list set bridge spoke bound | tr -d '\\n\\t' | sed 's/.*= {\\([^}]*\\)}.*/\\1/'";
    let before = bed.world.sh(bound);
    bed.spoke("egress set --container free --inherit");
    bed.world.sh(&format!("nft 'add element bridge spoke bound {{ {} }}'", before.trim()));
    bed.spoke("egress set --container free --inherit");
    let owners = |listed: &str| listed.matches("comment").count();
    let now = bed.world.sh(bound);
    assert_eq!(owners(&now) + 1, owners(&before), "{before} {now}");
    assert_eq!(bed.attempt("free", "tcp 203.0.113.97 443"), "open");
}
