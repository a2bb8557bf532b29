//! `spoke network set`: settings of a network that is in use.

use tests::{Remains, Serve, Trace, World};

use crate::bed::{Bed, Live, SPOKE};

const GOING_ON: &str = concat!(include_str!("within.py"), include_str!("going_on.py"));

/// The MTU of each of Spoke's devices in the host, sorted, and of the container's end.
#[track_caller]
fn mtus(world: &World, namespace: &str) -> String {
    let of = |links: &str| {
        let list = format!(
            "{links} | grep -E ': (sp-|veth|eth0@)' | grep -v up0 | grep -o 'mtu [0-9]*' | sort | uniq -c"
        );
        world.sh(&list).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    format!("{}; {}", of("ip -o link"), of(&format!("ip -n {namespace} -o link")))
}

#[test]
fn it_changes_what_runs() {
    let bed = Bed::new(&["web", "api"]);
    for name in ["web", "api"] {
        bed.spoke(&format!("network connect --publish 80:80 front {name}"));
        bed.spoke(&format!("network disconnect front {name}"));
    }
    bed.world.sh(
        "ip -n lan address add 198.51.100.7/32 dev lo; ip route add 198.51.100.7 via 192.0.2.2",
    );
    let before = Remains::of(&bed.world);
    for (name, port, last) in [("web", 8080, 12), ("api", 8081, 13)] {
        let ip = format!("--ip 10.74.1.{last}");
        bed.spoke(&format!("network connect --publish {port}:80 {ip} front {name}"));
        bed.serve(name);
    }
    assert_eq!(mtus(&bed.world, "web"), "3 mtu 1500; 1 mtu 1500");
    bed.spoke("limit web 10mbit");

    assert_eq!(bed.spoke("network set front --mtu 1400 --label tier=web --label old"), "front\n");
    assert_eq!(mtus(&bed.world, "web"), "3 mtu 1400; 1 mtu 1400");
    assert_eq!(mtus(&bed.world, "api"), "3 mtu 1400; 1 mtu 1400");
    // A full packet passes each way, and none that is larger.
    for (from, to) in [("web", "10.74.1.13"), ("api", "10.74.1.12"), ("web", "10.74.1.1")] {
        let ping = |size| format!("ip netns exec {from} ping -M do -c1 -W2 -s {size} {to}");
        bed.world.sh(&ping(1372));
        assert_ne!(bed.world.try_sh(&ping(1373)).status, 0);
    }
    let shown = &bed.json("network inspect front")[0];
    assert_eq!((&shown["mtu"], &shown["labels"]["tier"]), (&1400.into(), &"web".into()));
    bed.spoke("network set front --unlabel old --mtu 9000");
    assert_eq!(mtus(&bed.world, "web"), "3 mtu 9000; 1 mtu 9000");
    assert!(bed.json("network inspect front")[0]["labels"].get("old").is_none());

    // Who comes later has the same.
    bed.spoke("network disconnect front api");
    bed.spoke("network connect --publish 8081:80 front api");
    assert_eq!(mtus(&bed.world, "api"), "3 mtu 9000; 1 mtu 9000");

    // The machine outside is in one of this host's subnets.
    let far =
        "ip netns exec lan curl -sS --max-time 2 --interface 198.51.100.7 http://192.0.2.1:8080/";
    let goes = || bed.world.try_sh(far).status == 0;
    assert!(goes());
    bed.spoke("network set front --publish lan");
    assert!(!goes());
    assert_eq!((bed.page(8080), bed.page(8081)), ("web".into(), "api".into()));
    bed.spoke("network set front --publish local");
    bed.no_page(8080);
    bed.spoke("network set front --publish lan");
    assert_eq!(bed.page(8081), "api");
    assert!(!goes());
    assert_eq!(bed.json("network inspect front")[0]["publish"], "lan");

    // A flush, a port that comes later, and a daemon change nothing of it.
    let serve = Serve::start(&bed.world, &[]);
    bed.world.sh("nft flush ruleset");
    bed.until("nft list set inet spoke lan_only4 2>/dev/null | grep -q 10.74");
    bed.spoke("port add web 8443:80");
    assert_eq!(bed.page(8443), "web");
    assert!(!bed.world.try_sh(&far.replace("8080", "8443")).status.eq(&0));
    serve.stop();
    bed.spoke("port rm web 8443");
    bed.spoke("network set front --publish any");
    assert!(goes());
    bed.spoke("limit web none");
    bed.spoke("network disconnect front web");
    bed.spoke("network disconnect front api");
    let mut left = Remains::of(&bed.world).changes(&before);
    left.retain(|line| {
        !["/events", "serve.lock", "192.0.2.0/24"].iter().any(|it| line.contains(it))
    });
    // The network's own record says what was set.
    left.retain(|line| !line.contains("network"));
    assert_eq!(left, Vec::<String>::new());
}

/// Connections of clients that may go on do; those of others end.
#[test]
fn connections_of_who_may_go_on_do() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --publish 8080:7 front web");
    bed.world.sh(
        "ip -n lan address add 198.51.100.7/32 dev lo; ip route add 198.51.100.7 via 192.0.2.2",
    );
    std::fs::write(bed.world.path("/going_on.py"), GOING_ON).unwrap();
    let set = |reach: &str| {
        bed.world.sh(&format!("python3 /going_on.py {SPOKE} network set front --publish {reach}"))
    };
    assert_eq!(set("lan"), "before far near after near\n");
    bed.spoke("network set front --publish any");
    bed.spoke("network set front --mtu 1400");
    assert_eq!(set("any"), "before far near after far near\n");
}

#[test]
fn what_does_not_change_is_refused_with_what_to_do() {
    let bed = Bed::new(&["api"]);
    bed.spoke("network create --subnet 10.74.3.0/24 --subnet fd00:74::/64 six");
    bed.spoke("network create -d macvlan --parent up0 --subnet 192.0.2.0/24 seg");
    bed.spoke("network create --internal --subnet 10.74.5.0/24 vault");
    for (command, code, words) in [
        ("front", 2, &["nothing to change"][..]),
        ("front --subnet 10.9.0.0/24", 2, &["--subnet does not change", "make another network"]),
        ("front --dns 9.9.9.9", 2, &["--dns does not change", "docker run --dns"]),
        ("front --egress none", 2, &["spoke egress set"]),
        ("vault --via wg0", 2, &["internal network"]),
        ("seg --via wg0", 2, &["needs a bridge"]),
        ("front --via lo", 2, &["a way out is a device"]),
        ("front --internal", 2, &["--internal does not change"]),
        ("front --mtu 67", 2, &["68 to 65535"]),
        ("six --mtu 1279", 2, &["IPv6", "1280"]),
        ("seg --mtu 1400", 2, &["parent"]),
        ("seg --publish lan", 2, &["past this host's packet filter"]),
        ("vault --publish lan", 2, &["no port of this host"]),
        ("nobody --mtu 1400", 3, &["no network nobody"]),
    ] {
        bed.refuses(&format!("network set {command}"), code, words);
    }
    bed.spoke("network set six --mtu 1280");
    bed.spoke("network create -d ptp --subnet 10.74.6.0/24 pairs");
    bed.spoke("network connect pairs api");
    bed.spoke("network set pairs --mtu 1300");
    assert_eq!(mtus(&bed.world, "api"), "1 mtu 1300; 1 mtu 1300");
    bed.spoke("network set seg --label of=lab --sticky true");
}

#[test]
fn killed_at_each_step() {
    let bed = Bed::new(&["web", "api"]);
    bed.spoke("network connect --publish 8080:80 front web");
    bed.spoke("network connect front api");
    let at = |mtu: u32, closed: bool| {
        let lan = bed.world.try_sh("nft list set inet spoke lan_only4").stdout.contains("10.74.1");
        let want = format!("3 mtu {mtu}; 1 mtu {mtu}");
        let is = (mtus(&bed.world, "web"), mtus(&bed.world, "api"), lan);
        (is == (want.clone(), want, closed)).then_some(()).ok_or(is)
    };
    let command = "network set front --mtu 1400 --publish lan";
    let back = "network set front --mtu 1500 --publish any";
    bed.spoke(command);
    bed.spoke(back);
    let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {command}"));
    let changing =
        |name: &str| ["sendto", "sendmsg", "pwrite64", "renameat", "linkat"].contains(&name);
    let (mut killed, mut moments) = (0, 0);
    for moment in trace.moments().iter().filter(|it| changing(&it.name)) {
        bed.spoke(back);
        assert_eq!(at(1500, false), Ok(()), "before {moment}");
        let answer = bed.world.try_sh(&format!("{} {SPOKE} {command}", moment.kill().join(" ")));
        moments += 1;
        killed += usize::from(answer.status == 137);
        // The book says which of both holds, and all follow it.
        bed.spoke("gc");
        let says = bed.json("network inspect front")[0]["mtu"] == 1400;
        let held = if says { at(1400, true) } else { at(1500, false) };
        assert_eq!(held, Ok(()), "killed before {moment}: {answer:?}");
    }
    println!("{killed} kills in {moments} moments");
    assert!(killed * 10 > moments * 8, "{killed} of {moments}");
}
