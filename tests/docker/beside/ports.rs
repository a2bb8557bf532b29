//! Published ports.

use super::facts::Side;
use super::{but, compare, same};

const YES: &str = "an answer";
const NO: &str = "no answer";
const DUAL: &str = "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64";

/// By every address, from everywhere.
fn everywhere(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.serve("web", "--network front -p 18840:80");
    side.serve("two", "--network front");
    side.asks(&[
        ("lan", "192.0.2.1", 18840),
        ("far", "192.0.2.1", 18840),
        ("lan", "2001:db8:1::1", 18840),
        ("far", "2001:db8:1::1", 18840),
        ("lan", "192.0.2.1", 81),
    ]);
    for (from, host) in [
        ("", "127.0.0.1"),
        ("", "::1"),
        ("", "192.0.2.1"),
        ("", "10.84.0.1"),
        ("", "fd84::1"),
        ("", "2001:db8:1::1"),
        ("@web", "192.0.2.1"),
        ("@web", "10.84.0.1"),
        ("@web", "2001:db8:1::1"),
        ("@two", "192.0.2.1"),
        ("@two", "10.84.0.1"),
        ("@two", "fd84::1"),
        ("@two", "2001:db8:1::1"),
    ] {
        side.answers(from, host, 18840);
    }
    side.bed.docker("stop -t 0 web");
    side.answers("lan", "192.0.2.1", 18840);
    side.bed.docker("start web");
    side.until_served("web");
    side.asks(&[("far", "192.0.2.1", 18840)]);
}

/// Where the network has no IPv6.
fn only_v4(side: &mut Side<'_>) {
    side.network("front", "--subnet 10.84.0.0/24");
    side.serve("web", "--network front -p 18841:80");
    side.answers("lan", "192.0.2.1", 18841);
    side.answers("lan", "2001:db8:1::1", 18841);
    side.answers("", "::1", 18841);
}

/// On one address of the host.
fn addresses(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.serve(
        "web",
        "--network front -p 127.0.0.1:18842:80 -p 192.0.2.1:18843:80 -p [2001:db8:1::1]:18844:80 \
         -p 0.0.0.0:18845:80 -p [::]:18846:80",
    );
    for (from, host, port) in [
        ("", "127.0.0.1", 18842),
        ("", "127.0.0.2", 18842),
        ("", "192.0.2.1", 18842),
        ("lan", "192.0.2.1", 18842),
        ("@web", "192.0.2.1", 18842),
        ("lan", "192.0.2.1", 18843),
        ("", "192.0.2.1", 18843),
        ("", "127.0.0.1", 18843),
        ("", "10.84.0.1", 18843),
        ("lan", "2001:db8:1::1", 18844),
        ("lan", "192.0.2.1", 18844),
        ("lan", "192.0.2.1", 18845),
        ("lan", "2001:db8:1::1", 18845),
        ("lan", "192.0.2.1", 18846),
        ("lan", "2001:db8:1::1", 18846),
    ] {
        side.answers(from, host, port);
    }
}

/// Ranges, two protocols, and what is taken.
fn many(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.serve("web", "--network front -p 18850-18851:80-81 -p 18852:80/tcp -p 18852:80/udp");
    side.asks(&[
        ("lan", "192.0.2.1", 18850),
        ("lan", "192.0.2.1", 18851),
        ("lan", "192.0.2.1", 18852),
        ("lan", "192.0.2.1", 18853),
    ]);
    let run =
        |options: &str| format!("run -d --name second --network front {options} busybox sleep 99");
    side.tries("a port that is taken", Some("second"), &run("-p 18850:80"));
    side.forget("second");
    side.tries("taken on one address", None, &run("-p 127.0.0.1:18850:80"));
    side.forget("second");
    side.tries("taken by UDP only", None, &run("-p 18851:80/udp"));
    side.forget("second");
    side.tries("a range with one that is free", None, &run("-p 18852-18854:80"));
    side.asks(&[("lan", "192.0.2.1", 18854)]);
    side.forget("second");
    side.tries("ranges of other lengths", None, &run("-p 18855-18857:80-81"));
}

/// The network says on which address.
fn bound(side: &mut Side<'_>) {
    let key = "com.docker.network.bridge.host_binding_ipv4";
    side.network("front", &format!("--subnet 10.84.0.0/24 -o {key}=127.0.0.1"));
    side.serve("web", "--network front -p 18860:80 -p 192.0.2.1:18861:80");
    side.answers("", "127.0.0.1", 18860);
    side.answers("lan", "192.0.2.1", 18860);
    side.answers("lan", "192.0.2.1", 18861);
}

/// The container leaves the network that publishes, and its ports go with another.
fn moves(side: &mut Side<'_>) {
    side.network("front", "--subnet 10.84.0.0/24");
    side.network("back", "--subnet 10.84.1.0/24");
    side.serve("web", "--network front -p 18870:80");
    side.bed.docker("network connect back web");
    side.asks(&[("lan", "192.0.2.1", 18870)]);
    side.bed.docker("network disconnect front web");
    side.asks(&[("far", "192.0.2.1", 18870)]);
    side.bed.docker("network disconnect back web");
    side.answers("lan", "192.0.2.1", 18870);
    side.bed.docker("network connect front web");
    side.answers("", "127.0.0.1", 18870);
}

#[test]
fn published_ports() {
    compare(&[
        // Docker's proxy answers where nothing can be translated.
        but("by every address", everywhere, &[("the host at ::1 port 18840", YES, NO)]),
        but(
            "without IPv6",
            only_v4,
            &[
                ("lan at 2001:db8:1::1 port 18841", YES, NO),
                ("the host at ::1 port 18841", YES, NO),
            ],
        ),
        same("on one address", addresses),
        same("several", many),
        same("bound by the network", bound),
        same("moves", moves),
    ]);
}
