//! Who reaches whom.

use super::facts::Side;
use super::{but, compare, same};

const DUAL: &str = "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64";

fn one_network(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.serve("one", "--network front");
    side.serve("two", "--network front --network-alias second");
    side.pings("one", &["two", "second", "10.84.0.3", "fd84::3", "10.84.0.1", "fd84::1"]);
    side.asks(&[
        ("@one", "10.84.0.3", 81),
        ("@one", "fd84::3", 81),
        ("@one", "192.0.2.2", 80),
        ("@one", "2001:db8:1::2", 80),
        ("", "10.84.0.2", 81),
        ("", "fd84::2", 81),
        ("lan", "10.84.0.2", 81),
        ("lan", "fd84::2", 81),
    ]);
}

fn two_networks(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.network("back", "--ipv6 --subnet 10.84.1.0/24 --subnet fd84:1::/64");
    side.serve("one", "--network front -p 18800:80");
    side.serve("two", "--network back -p 18801:80");
    side.serve("both", "--network front");
    side.bed.docker("network connect back both");
    side.asks(&[
        ("@one", "10.84.1.2", 81),
        ("@one", "10.84.1.2", 80),
        ("@one", "fd84:1::2", 81),
        ("@two", "10.84.0.2", 80),
        ("@two", "fd84::2", 80),
        ("@both", "10.84.0.2", 81),
        ("@both", "10.84.1.2", 81),
        ("@both", "fd84:1::2", 81),
        ("@two", "10.84.1.3", 81),
    ]);
    side.pings("both", &["one", "two"]);
    side.pings("one", &["two", "10.84.1.1"]);
    // Who has a port published is asked by an address of the host.
    for host in ["192.0.2.1", "10.84.0.1", "10.84.1.1"] {
        side.answers("@one", host, 18801);
        side.answers("@two", host, 18801);
    }
}

fn internal(side: &mut Side<'_>) {
    side.network("shut", &format!("--internal {DUAL}"));
    side.network("open", "--subnet 10.84.1.0/24");
    side.serve("one", "--network shut -p 18810:80");
    side.serve("two", "--network shut");
    side.serve("other", "--network open -p 18811:80");
    side.pings("one", &["two", "10.84.0.1", "fd84::1"]);
    side.inside("its routes", "one", "ip route | grep -c default; ip -6 route | grep -c default");
    side.asks(&[
        ("@one", "10.84.0.3", 81),
        ("@one", "192.0.2.2", 80),
        ("@one", "2001:db8:1::2", 80),
        ("@one", "10.84.1.2", 81),
        ("@other", "10.84.0.2", 81),
        ("", "10.84.0.2", 81),
        ("", "fd84::2", 81),
        ("lan", "10.84.0.2", 81),
        ("lan", "192.0.2.1", 18810),
        ("", "127.0.0.1", 18810),
    ]);
    side.bed.docker("network connect open one");
    side.asks(&[("@one", "192.0.2.2", 80), ("@one", "10.84.1.2", 81), ("lan", "192.0.2.1", 18810)]);
}

fn no_icc(side: &mut Side<'_>) {
    side.network("apart", &format!("{DUAL} -o com.docker.network.bridge.enable_icc=false"));
    side.serve("one", "--network apart -p 18820:80");
    side.serve("two", "--network apart");
    side.pings("two", &["10.84.0.1"]);
    side.asks(&[
        ("@two", "10.84.0.2", 81),
        ("@two", "10.84.0.2", 80),
        ("@two", "fd84::2", 81),
        ("@two", "192.0.2.2", 80),
        ("", "10.84.0.2", 81),
        ("lan", "192.0.2.1", 18820),
    ]);
    side.answers("@two", "192.0.2.1", 18820);
}

/// Paused, restarted and renamed containers, and those that come and go by connect and disconnect.
fn comes_and_goes(side: &mut Side<'_>) {
    side.network("front", DUAL);
    side.network("back", "--subnet 10.84.1.0/24");
    side.serve("one", "--network front");
    side.serve("two", "--network back");
    side.inside("alone", "one", "ip route | grep -c default");
    side.bed.docker("network connect --alias guest --ip 10.84.1.77 back one");
    side.pings("two", &["one", "guest", "10.84.1.77"]);
    side.inside("with both", "one", "ip route | grep default");
    side.bed.docker("network disconnect front one");
    side.inside("with the second", "one", "ip route | grep default");
    side.inside("its interfaces", "one", "ls /sys/class/net");
    side.asks(&[("@one", "192.0.2.2", 80), ("@two", "10.84.1.77", 81)]);
    side.bed.docker("network disconnect back one");
    side.inside("with none", "one", "ip route; ls /sys/class/net");
    side.bed.docker("network connect front one");
    side.asks(&[("@one", "2001:db8:1::2", 80)]);
}

#[test]
fn who_reaches_whom() {
    compare(&[
        same("one network", one_network),
        same("two networks", two_networks),
        same("internal", internal),
        // Docker's proxy is a program of the host, which every container reaches.
        but("without icc", no_icc, &[("@two at 192.0.2.1 port 18820", "an answer", "no answer")]),
        same("connect and disconnect", comes_and_goes),
    ]);
}
