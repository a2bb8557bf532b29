use super::*;

#[test]
fn a_healthy_host() {
    let host = Fixture::new();
    host.spoke("network create front");
    let report = host.spoke("doctor");
    assert_eq!(
        report.replace(&host.root.path().display().to_string(), ""),
        "\
ok    kernel 6.18.0: veth bridge nf_tables
ok    the book in /run/spoke can be written
ok    no leaked addresses, devices or rules
ok    packets are forwarded where networks need it
ok    no packet filter chain drops forwarded packets by policy
ok    no subnets overlap
ok    every MTU fits eth0 (1500)
"
    );
}

/// As after `nft flush ruleset` where no daemon runs.
#[test]
fn a_host_whose_packet_filter_was_emptied() {
    let mut host = Fixture::new();
    host.write("run/systemd/system/spoke.service", "");
    host.spoke("network create front");
    host.spoke("network create --egress 10.9.0.7:5432 agents");
    for name in ["a", "b", "c", "d"] {
        host.attach("front", name, None);
    }
    host.attach("agents", "fenced", None);
    host.facts.tables = Some(BTreeSet::new());
    let report = host.try_spoke(&["doctor"]).1;
    for line in [
        "FAIL  the packet filter has no table inet spoke, and so no masquerading, published ports and isolation \
         for a, b, c and 2 more\n      fix: systemctl enable --now spoke\n",
        "FAIL  the packet filter has no table inet spoke_fence, and so no egress rules for fenced\n",
        "FAIL  the packet filter has no table bridge spoke, and so no checks of the addresses",
    ] {
        assert!(report.contains(line), "{line:?}: {report}");
    }
    std::fs::remove_dir_all(host.path("run/systemd")).unwrap();
    let report = host.try_spoke(&["doctor"]).1;
    assert!(report.contains("fix: spoke serve\n") && !report.contains("systemctl"), "{report}");
    host.facts.tables = None;
    assert!(!host.try_spoke(&["doctor"]).1.contains("has no table"), "it cannot be read");
}

/// What the daemon says of a rival is doubtful as long as it serves and says nothing else.
#[test]
fn a_host_on_which_something_keeps_removing_the_packet_filter() {
    let host = Fixture::new();
    let reported = "something keeps removing rules of table inet spoke";
    let line =
        |event: &str| format!("{{\"time\":1,\"event\":\"{event}\",\"message\":\"{reported}\"}}\n");
    for (events, is_reported) in [
        (["started", "contested", "healed"], true),
        (["contested", "contest-over", "healed"], false),
        (["contested", "stopped", "started"], false),
    ] {
        let lines: String = events.into_iter().map(line).collect();
        host.write("run/spoke/events", &lines);
        let report = host.spoke("doctor");
        assert_eq!(
            report.contains(&format!("warn  {reported}")),
            is_reported,
            "{events:?} {report}"
        );
    }
}

fn dropped(passing: &[&str]) -> Forward {
    let passing = passing.iter().map(ToString::to_string).collect();
    Forward::Dropped(vec![DroppingChain { chain: "ip filter FORWARD".to_owned(), passing }])
}

/// Docker's policy, and the rules with which Spoke lets its own containers pass.
#[test]
fn a_host_that_drops_what_spoke_lets_pass() {
    let mut host = Fixture::new();
    host.write("run/systemd/system/spoke.service", "");
    host.write("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
    for name in ["front", "back"] {
        host.spoke(&format!("network create {name}"));
        let name = format!("sp-{name}");
        host.facts.links.push(HostLink { name, mtu: 1500, is_bridge: true });
    }
    host.facts.forward = dropped(&["sp-front"]);
    let report = host.spoke("doctor");
    assert_eq!(report.matches("warn  ").count(), 2, "{report}");
    assert_eq!(report.matches("      fix: systemctl restart spoke\n").count(), 2, "{report}");
    // Another program's chain: its operator knows where a rule belongs.
    host.facts.forward = Forward::Dropped(vec![DroppingChain {
        chain: "inet own forward".to_owned(),
        passing: std::collections::BTreeSet::new(),
    }]);
    let report = host.spoke("doctor");
    assert!(report.contains("warn  inet own forward drops"), "{report}");
    assert!(!report.contains("fix: "), "{report}");
    host.facts.forward = dropped(&["sp-front", "sp-back"]);
    let report = host.spoke("doctor");
    assert!(!report.contains("warn") && report.contains("ip filter FORWARD"), "{report}");
}

/// What the first container turns on, with the guard against strangers, is not advised: obeyed, it opens the host.
#[test]
fn a_host_without_containers_needs_no_mending() {
    let mut host = Fixture::new();
    host.spoke("network create front");
    host.write("proc/sys/net/ipv4/ip_forward", "0\n");
    host.write("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
    host.facts.forward = dropped(&[]);
    let report = host.spoke("doctor");
    assert!(!report.contains("fix:") && !report.contains("warn"), "{report}");
    assert!(report.contains("ok    net.ipv4.ip_forward is turned on with the first"), "{report}");
}

#[test]
fn a_sick_host() {
    let mut host = Fixture::new();
    host.write("run/systemd/system/spoke.service", "");
    host.try_spoke(&["network", "create", "--subnet", "192.168.1.0/25", "lan"]);
    host.attach("lan", "c1", None);
    host.attach("lan", "c2", None);
    host.kernel.gone.borrow_mut().insert("c1".to_owned());
    host.write("proc/sys/net/ipv4/ip_forward", "0\n");
    host.write("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
    std::fs::remove_dir(host.path("sys/module/veth")).unwrap();
    host.facts.forward = dropped(&[]);
    let name = "sp-lan".to_owned();
    host.facts.links.push(HostLink { name, mtu: 1500, is_bridge: true });
    host.facts.links[1].mtu = 1450;
    host.write("opt/cni/bin/bridge", "theirs");
    let (code, out, err) = host.try_spoke(&["doctor"]);
    assert_eq!((code, err.as_str()), (1, ""));
    for line in [
        "FAIL  kernel 6.18.0 has no veth",
        "FAIL  attachments of containers that are gone: 1\n      fix: spoke ipam check --fix",
        "FAIL  net.ipv4.ip_forward is off",
        "      fix: ip netns add spoke-forward && spoke network connect lan spoke-forward && ",
        "warn  ip filter FORWARD drops what no rule accepts",
        "      fix: systemctl restart spoke",
        "overlaps the route to 192.168.1.0/24 through eth0\n      fix: spoke network rm lan",
        "warn  network lan has MTU 1500, and eth0 on the way out only 1450",
        "are not Spoke's: bridge",
    ] {
        assert!(out.contains(line), "{line}\n---\n{out}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&host.try_spoke(&["doctor", "-o", "json"]).1).unwrap();
    assert_eq!(json[0]["status"], "FAIL");
}

/// What repairs an MTU must not make a network anew, and a network that is not led out has none that matters.
#[test]
fn a_large_mtu_is_lowered_where_the_network_is_described() {
    let mut host = Fixture::new();
    host.spoke("network create --subnet 10.1.0.0/24 front");
    host.spoke("network create --subnet 10.2.0.0/24 --internal inner");
    host.spoke("network create --subnet 10.3.0.0/24 -d macvlan --parent eth0 lan");
    host.spoke("network create --subnet 10.4.0.0/24 -d ptp pairs");
    let mut pods = host.engine().records.network(&"front".parse().unwrap()).unwrap();
    pods.name = "pods".parse().unwrap();
    pods.runtime = model::Runtime::Podman;
    pods.wiring.link =
        host.engine().records.network(&"pairs".parse().unwrap()).unwrap().wiring.link;
    pods.ipam = model::Ipam::Book { pools: Vec::new() };
    host.engine().networks.create(&pods).unwrap();
    host.facts.links[1].mtu = 1450;
    let report = host.spoke("doctor");
    assert_eq!(report.matches("on the way out only 1450").count(), 3, "{report}");
    assert!(report.contains("fix: spoke network set --mtu 1450 front\n"), "{report}");
    assert!(report.contains("fix: spoke network set --mtu 1450 pairs\n"), "{report}");
    assert!(report.contains("podman network create -d spoke -o mtu=1450"), "{report}");
    assert!(!report.contains("network rm"), "{report}");
}

/// A runtime's network is removed by that runtime, and a file is not always Podman's.
#[test]
fn an_overlap_is_removed_where_it_was_made() {
    let host = Fixture::new();
    host.spoke("network create --subnet 10.1.0.0/24 front");
    let config = r#"{"name":"pods","plugins":[{"type":"bridge","ipam":{"subnet":"10.1.0.0/25"}}]}"#;
    host.write("etc/cni/net.d/10-pods.conflist", config);
    let report = host.try_spoke(&["doctor"]).1;
    let file = host.path("etc/cni/net.d/10-pods.conflist").display().to_string();
    assert!(
        report.contains(&format!(
            "fix: rm {file}  # or, where Podman made it: podman network rm pods\n"
        )),
        "{report}"
    );
}

/// Those that the book has not: the engine knows whether they run.
#[test]
fn a_container_of_docker_alone_is_told_from_none() {
    let mut host = Fixture::new();
    host.runs = vec![("ob".to_owned(), true), ("db".to_owned(), false)];
    let asked = |from: &str, to: &str| host.try_spoke(&["explain", from, to, "80"]);
    let (code, said, _) = asked("ob", "host");
    assert!(code == 5 && said.contains("Spoke has no record of it"), "{code} {said}");
    let (code, said, _) = asked("host", "docker/ob");
    assert!(code == 5 && said.contains("Spoke has no record of it"), "{code} {said}");
    let (code, said, _) = asked("host", "db");
    assert!(code == 1 && said.contains("fix: docker start db"), "{code} {said}");
    assert_eq!(asked("nobody", "host").0, 3);
}
