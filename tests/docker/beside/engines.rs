//! Engines that are started otherwise.

use super::facts::{Side, end_outside, serve_outside};
use super::{DRIVERS, but, compare_on, newest};
use crate::bed::Bed;
use crate::neighbours::{NEIGHBOURS, NO_NEIGHBOURS};

const DUAL: &str = "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64";

/// By every address, from inside and outside.
fn published(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.network("back", "--subnet 10.84.1.0/24");
    side.serve("web", "--network front -p 18870:80 -p 127.0.0.1:18871:80");
    side.serve("two", "--network front");
    side.serve("other", "--network back");
    side.asks(&[
        ("lan", "192.0.2.1", 18870),
        ("far", "2001:db8:1::1", 18870),
        ("lan", "192.0.2.1", 18871),
        ("lan", "10.84.0.2", 81),
    ]);
    for (from, host, port) in [
        ("", "127.0.0.1", 18870),
        ("", "127.0.0.1", 18871),
        ("", "192.0.2.1", 18870),
        ("", "2001:db8:1::1", 18870),
        ("@web", "192.0.2.1", 18870),
        ("@two", "192.0.2.1", 18870),
        ("@two", "10.84.0.1", 18870),
        ("@other", "192.0.2.1", 18870),
        ("@other", "10.84.1.1", 18870),
    ] {
        side.answers(from, host, port);
    }
}

#[test]
fn without_a_proxy() {
    // Networks reach each other's published ports on Docker's bridge by its proxy alone.
    let differs = &[
        ("@other at 192.0.2.1 port 18870", "no answer", "an answer"),
        ("@other at 10.84.1.1 port 18870", "no answer", "an answer"),
    ];
    compare_on(&["--userland-proxy=false"], &[but("published ports", published, differs)]);
}

/// Subnets that the engine chooses, one after the other. An engine does not tell drivers its pools.
fn chosen(side: &mut Side<'_>) {
    for name in ["first", "second", "third"] {
        side.network(name, "");
        let format = "{{(index .IPAM.Config 0).Subnet}}";
        let subnet = side.bed.docker(&format!("network inspect -f '{format}' {name}"));
        side.fact(format!("the subnet of {name}"), subnet);
    }
    side.serve("one", "--network first");
    side.serve("two", "--network first");
    side.pings("one", &["two"]);
}

#[test]
fn pools_of_the_engine() {
    let pools = ["--default-address-pool", "base=10.222.0.0/16,size=26"];
    let differs = &[
        ("the subnet of first", "10.222.0.64/26", "10.200.0.0/24"),
        ("the subnet of second", "10.222.0.128/26", "10.200.1.0/24"),
        ("the subnet of third", "10.222.0.192/26", "10.200.2.0/24"),
    ];
    compare_on(&pools, &[but("chosen subnets", chosen, differs)]);
}

/// Containers of both drivers while their engine is away, and afterwards.
#[test]
fn an_engine_that_restores() {
    let live = ["--live-restore"];
    let Some(mut bed) = newest().and_then(|newest| Bed::with(newest, "", &live)) else { return };
    bed.world().sh(NEIGHBOURS);
    serve_outside(&bed);
    for (number, driver) in DRIVERS.iter().enumerate() {
        let subnet = format!("--subnet 10.84.{number}.0/24");
        bed.docker(&format!("network create {driver} {subnet} front{number}"));
        bed.serve(&format!("--name web{number} --network front{number} -p 1888{number}:80"));
        bed.run(&format!("--name two{number} --network front{number}"));
    }
    ask_both(&bed);
    bed.engine.kill();
    ask_our_own(&bed);
    bed.engine.start(&live);
    ask_both(&bed);
    for number in 0..2 {
        bed.engine.ping(&format!("two{number}"), &format!("web{number}"));
        let other = 1 - number;
        bed.docker(&format!("network connect front{other} two{number}"));
        bed.engine.ping(&format!("two{number}"), &format!("web{other}"));
        bed.docker(&format!("network disconnect front{other} two{number}"));
        bed.docker(&format!("restart -t 0 web{number}"));
    }
    ask_both(&bed);
    bed.remove("web0 web1 two0 two1");
    bed.docker("network rm front0 front1");
    end_outside(&bed);
    bed.world().sh(NO_NEIGHBOURS);
    bed.is_clean();
}

/// The published port of the container on Docker's own bridge, and that of ours.
#[track_caller]
fn ask_both(bed: &Bed) {
    bed.asked("lan", "192.0.2.1", 18880);
    bed.asked("", "127.0.0.1", 18880);
    ask_our_own(bed);
}

#[track_caller]
fn ask_our_own(bed: &Bed) {
    bed.asked("lan", "192.0.2.1", 18881);
    bed.asked("", "127.0.0.1", 18881);
}
