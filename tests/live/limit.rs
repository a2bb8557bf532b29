//! `spoke limit`: what a running container may send and receive.

use tests::{Remains, Serve, Trace};

use crate::bed::{Bed, Live, SPOKE};

/// The limits of the host's ends of containers, and of the devices for what these send.
const LIMITS: &str =
    "tc qdisc show | grep -o 'tbf.*rate [^ ]*\\|qdisc ingress' | sed 's/ .*rate/ rate/' | sort";

#[track_caller]
fn limits(bed: &Bed) -> String {
    bed.world.sh(&format!("{{ {LIMITS}; }} || true")).trim().replace('\n', ", ")
}

#[test]
fn it_is_set_lifted_and_healed() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.74.1.9 front web");
    let before = Remains::of(&bed.world);
    let said = bed.spoke("limit web 10mbit");
    assert_eq!(said, "web on front: receives 10000000 bit/s, sends 10000000 bit/s\n");
    assert_eq!(limits(&bed), "qdisc ingress, tbf rate 10Mbit, tbf rate 10Mbit");
    bed.spoke("limit web 10mbit");
    bed.spoke("limit --egress 2mbit web");
    assert_eq!(limits(&bed), "qdisc ingress, tbf rate 2Mbit");
    bed.spoke("limit --ingress 3mbit web");
    assert_eq!(limits(&bed), "tbf rate 3Mbit");
    assert!(!bed.world.sh("ip -o link").contains("bwp"), "no device for what it sends");
    bed.refuses("limit web 1mbps", 2, &["a rate is"]);
    bed.refuses("limit nobody 1mbit", 3, &["nobody"]);

    // Whichever of many commands is the last, the kernel has what the book has.
    bed.world.sh(&format!(
        "for rate in 5 6 7 8; do {SPOKE} limit web ${{rate}}mbit & {SPOKE} limit web none & done; wait"
    ));
    let limited = bed.json("limit web").as_array().map_or(0, Vec::len) > 0;
    assert_eq!(limits(&bed).is_empty(), !limited);
    bed.spoke("limit --ingress 3mbit web");
    assert_eq!(limits(&bed), "tbf rate 3Mbit");

    // By name it comes back, unless it is forgotten.
    assert_eq!(bed.json("limit web")[0]["ingress"], 3_000_000);
    bed.spoke("network disconnect front web");
    assert!(bed.spoke("limit").contains("waiting"));
    bed.spoke("limit web none");
    assert_eq!(bed.spoke("limit --quiet"), "");
    bed.spoke("network connect --ip 10.74.1.9 front web");
    assert_eq!(limits(&bed), "");
    bed.spoke("limit --ingress 3mbit web");
    bed.spoke("network disconnect front web");
    bed.spoke("network connect --ip 10.74.1.9 front web");
    assert_eq!(limits(&bed), "tbf rate 3Mbit");
    let serve = Serve::start(&bed.world, &[]);
    bed.world.sh("tc qdisc del dev $(ip -o link | grep -o 'veth[0-9a-f]*') root");
    bed.until("tc qdisc show | grep -q 3Mbit");
    bed.spoke("limit web none");
    serve.stop();
    assert_eq!(limits(&bed), "");
    bed.spoke("network disconnect front web");
    bed.spoke("network connect --ip 10.74.1.9 front web");
    assert_eq!(limits(&bed), "");
    let mut left = Remains::of(&bed.world).changes(&before);
    // What the daemon has while it runs: its events, its lock, the subnets that the host is in.
    left.retain(|line| {
        !["/events", "serve.lock", "192.0.2.0/24"].iter().any(|it| line.contains(it))
    });
    assert_eq!(left, Vec::<String>::new());
}

/// What a container may send is what all of its interfaces may.
#[test]
fn of_several_networks_each_is_limited() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network create --subnet 10.74.2.0/24 back");
    bed.spoke("network connect front web");
    bed.spoke("network connect back web");
    let said = bed.spoke("limit --ingress 3mbit web");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(limits(&bed), "tbf rate 3Mbit, tbf rate 3Mbit");
    bed.spoke("limit --network back --ingress 4mbit web");
    assert_eq!(limits(&bed), "tbf rate 3Mbit, tbf rate 4Mbit");
    bed.spoke("limit web none");
    assert_eq!(limits(&bed), "");
    bed.refuses("limit --network front web 1mbps", 2, &["a rate is"]);
    bed.spoke("network disconnect front web");
    bed.spoke("network disconnect back web");
}

#[test]
fn killed_at_each_step() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.74.1.9 front web");
    let (mut killed, mut moments) = (0, 0);
    for (command, before, limited) in [
        ("limit web 10mbit", "limit web none", "qdisc ingress, tbf rate 10Mbit, tbf rate 10Mbit"),
        ("limit web none", "limit web 10mbit", ""),
        ("limit --ingress 3mbit web", "limit --egress 10mbit web", "tbf rate 3Mbit"),
    ] {
        bed.spoke(before);
        let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {command}"));
        let changing =
            |name: &str| ["sendto", "sendmsg", "pwrite64", "renameat", "linkat"].contains(&name);
        for moment in trace.moments().iter().filter(|it| changing(&it.name)) {
            bed.spoke(before);
            let line = format!("{} {SPOKE} {command}", moment.kill().join(" "));
            let answer = bed.world.try_sh(&line);
            moments += 1;
            killed += usize::from(answer.status == 137);
            bed.spoke(command);
            assert_eq!(limits(&bed), limited, "{command}, {moment}: {answer:?}");
        }
    }
    println!("{killed} kills in {moments} moments");
    assert!(killed * 10 > moments * 8, "{killed} of {moments}");
    bed.spoke("network disconnect front web");
    assert!(!bed.world.sh("ip -o link").contains("bwp"));
}
