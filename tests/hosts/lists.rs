//! Networks of many hosts that a configuration list of CNI's asks for.

use std::thread;

use crate::bed::{Host, SPOKE, Segment, address, until, until_reached};

const LIST: &str = "/etc/cni/net.d/10-front.conflist";

fn write(host: &Host, fields: &str) {
    host.sh(&format!(
        "mkdir -p /etc/cni/net.d; cat >{LIST} <<END
{{\"cniVersion\":\"1.1.0\",\"name\":\"front\",\"plugins\":[{{\"type\":\"spoke\",{fields}}}]}}
END"
    ));
}

fn cni(command: &str, name: &str) -> String {
    let netns = format!("/run/netns/{name}");
    format!("CNI_PATH=/opt/cni/bin {SPOKE} cni {command} --container {name} front {netns}")
}

/// Two hosts have the same list and use it at the same moment: the network is declared once, with what the list says,
/// and a host without the list gets one. From then on no host is asked.
#[test]
fn a_list_makes_a_network_of_many_hosts() {
    let mut segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    let fields = "\"hosts\":[\"a\",\"b\",\"c\"],\"transport\":\"route\",\"names\":true,\"subnet\":\"10.64.0.0/16\"";
    let pair = [(&a, "one"), (&b, "two")];
    for (host, name) in pair {
        write(host, fields);
        host.world.netns(name);
    }
    thread::scope(|scope| {
        for (host, name) in pair {
            scope.spawn(move || host.sh(&cni("add", name)));
        }
    });
    let record = segment.etcdctl("get /spoke/v1/network/front");
    for words in ["\"transport\":\"route\"", "\"names\":true", "\"in\":[\"cni\"]", "10.64.0.0/16"] {
        assert!(record.contains(words), "{record}");
    }
    until_reached(&a.world, "one", &address(&b.world, "two"));
    // The list is the network's own: no other one is written beside it, and nothing is to be said.
    until(&c.world, "[ -s /etc/cni/net.d/front.conflist ]");
    for (host, _) in pair {
        host.sh("[ ! -e /etc/cni/net.d/front.conflist ]");
        assert!(!host.sh(&format!("{SPOKE} host ls 2>&1")).contains("front.conflist"));
        let config =
            format!("{{\"cniVersion\":\"1.1.0\",\"name\":\"front\",\"type\":\"spoke\",{fields}}}");
        host.sh(&format!("CNI_COMMAND=STATUS CNI_PATH=/opt/cni/bin {SPOKE} <<<'{config}'"));
    }
    segment.stop_etcd();
    a.world.netns("more");
    a.sh(&cni("add", "more"));
    for (host, name) in pair.into_iter().chain([(&a, "more")]) {
        host.sh(&cni("check", name));
        host.sh(&cni("del", name));
        host.sh(&cni("del", name));
    }
    segment.start_etcd();
    until(&c.world, &format!("{SPOKE} network rm front 2>/dev/null"));
}

/// Two use the list of a network on one host at once, as it is being made there, also where another host has just declared it:
/// both get it.
#[test]
fn two_at_once_wait_for_the_network_to_be_made() {
    const FILE: &str = "/var/lib/spoke/hosts/networks/front";
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    let names = ["one", "two"];
    for host in [&a, &b] {
        write(host, "\"hosts\":\"all\"");
        names.iter().for_each(|name| drop(host.world.netns(name)));
    }
    for round in 0..12 {
        thread::scope(|scope| {
            for (host, name) in [(&a, "one"), (&a, "two"), (&b, "one"), (&b, "two")] {
                scope.spawn(move || host.sh(&cni("add", name)));
            }
        });
        for host in [&a, &b] {
            if round == 0 {
                host.sh(&format!("cp {FILE} /world/intent"));
            }
            names.iter().for_each(|name| drop(host.sh(&cni("del", name))));
        }
        until(&a.world, &format!("{SPOKE} network rm front 2>/dev/null"));
        until(&b.world, &format!("[ ! -e {FILE} ]"));
    }
    // As a daemon leaves it that was about to make the network.
    a.sh(&format!("cp /world/intent {FILE}; {}", cni("add", "one")));
}

/// What it cannot have, and where.
#[test]
fn a_list_is_refused_with_a_reason() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.world.netns("one");
    for (fields, why) in [
        (
            "\"hosts\":\"all\",\"mtu\":1400",
            "a network of many hosts (\"hosts\") does not have that yet",
        ),
        ("\"hosts\":\"all\",\"network\":\"back\"", "does not have that yet"),
        ("\"hosts\":\"all\",\"transport\":\"quic\"", "is not auto, vxlan or route"),
        ("\"hosts\":\"all\",\"subnet\":\"10.64.0.0\"", "is no subnet"),
        ("\"hosts\":\"nowhere\"", "the cluster has no host nowhere"),
        ("\"hosts\":\"b\"", "is on other hosts of the cluster, and not on this one"),
    ] {
        write(&a, fields);
        let said = a.world.try_sh(&cni("add", "one"));
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(said.status != 0 && all.contains(why), "{fields}: {said:?}");
    }
    drop(b);
}

/// How often an ADD is repeated that is to be tried again.
const TRIES: usize = 100;

/// An exact address, by the capability `ips` and by CNI_ARGS, goes from host to host with its container, and has one
/// holder at a time.
#[test]
fn an_exact_address_of_cni_s_moves() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke("network create --hosts all front");
    c.attach("front", "three");
    let own = b.attach("front", "own");
    b.spoke("network disconnect front own");
    let call = |host: &Host, command: &str, (how, address): (&str, &str)| {
        let (args, runtime) = match how {
            "args" => (format!("IP={address}"), String::new()),
            _ => (String::new(), format!(",\"runtimeConfig\":{{\"ips\":[\"{address}/16\"]}}")),
        };
        let config = format!(
            "{{\"cniVersion\":\"1.0.0\",\"name\":\"front\",\"type\":\"spoke\",\"network\":\"front\"{runtime}}}"
        );
        host.world.try_sh(&format!(
            "ip netns list | grep -q '^db' || ip netns add db
             CNI_COMMAND={command} CNI_CONTAINERID=db CNI_IFNAME=eth0 CNI_NETNS=/run/netns/db CNI_PATH=/opt/cni/bin \
             CNI_ARGS='{args}' {SPOKE} <<<'{config}'"
        ))
    };
    for want in [("args", "10.64.200.7"), ("ips", "10.64.200.8"), ("ips", &own), ("args", &own)] {
        for [from, to] in [[&a, &b], [&b, &a]] {
            // A block that was just taken may have been another host's a moment ago: "try again later", as a runtime does.
            let mut tries = std::iter::repeat_with(|| call(from, "ADD", want)).take(TRIES);
            let done = tries.find(|said| !said.stdout.contains("\"code\":11"));
            let done = done.expect("the address is free in time");
            assert!(done.status == 0 && done.stdout.contains(want.1), "{want:?} {done:?}");
            until_reached(&c.world, "three", want.1);
            let refused = call(to, "ADD", want);
            let held = format!("address {} of network front is held by", want.1);
            let of = format!("db on host {}", from.name);
            assert!(refused.stdout.contains(&held) && refused.stdout.contains(&of), "{refused:?}");
            assert_eq!(call(from, "DEL", want).status, 0);
        }
    }
    segment.until_gone("/pin/");
}
