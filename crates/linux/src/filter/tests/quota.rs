use netlink::nft::QuotaState;

use super::space::Space;
use super::table::listed;
use crate::filter::Owner;
use crate::filter::quota::{Interface, Side, owners, put, read, remove_owned};

const TRUTH: &str = include_str!("../quota.nft");
const LIST: &str = "nft list table bridge spoke_quota";
const DIGITS: &str = "0123456789abcdef0123456789abcdef";

fn interface(side: Side) -> Interface {
    let owner: Owner = format!("{DIGITS}/link").parse().unwrap();
    Interface { owner, end: "veth0".parse().unwrap(), side }
}

fn of(used: u64) -> QuotaState {
    QuotaState { bytes: 10_000, used }
}

#[test]
fn is_what_the_file_says() {
    let space = Space::new();
    put(&mut space.socket(), &interface(Side::Bridged), of(0)).unwrap();
    space.run("nft flush map bridge spoke_quota ends");
    space.run(&format!("nft delete quota bridge spoke_quota of-{DIGITS}"));
    assert_eq!(space.run(LIST), listed(TRUTH, LIST));
}

#[test]
fn it_comes_goes_and_counts_on() {
    for side in [Side::Bridged, Side::Routed] {
        let space = Space::new();
        let mut socket = space.socket();
        let it = interface(side);
        assert_eq!(read(&mut socket, &it).unwrap(), None);
        put(&mut socket, &it, of(7)).unwrap();
        assert_eq!(read(&mut socket, &it).unwrap(), Some(of(7)));
        let larger = QuotaState { bytes: 20_000, used: 9 };
        put(&mut socket, &it, larger).unwrap();
        assert_eq!(read(&mut socket, &it).unwrap(), Some(larger));
        assert_eq!(owners(&mut socket).unwrap().len(), 1);

        // Led to nothing it counts nothing.
        let family = if side == Side::Bridged { "bridge" } else { "inet" };
        space.run(&format!("nft flush map {family} spoke_quota ends"));
        assert_eq!(read(&mut socket, &it).unwrap(), None);
        put(&mut socket, &it, of(9)).unwrap();
        for is_there in [true, false] {
            assert_eq!(remove_owned(&mut socket, &it.owner).unwrap(), is_there);
            assert_eq!(space.run("nft list tables"), "");
        }
    }
}

/// Has a neighbour never asked for again.
fn keep_neighbour(space: &Space, address: &str, device: &str) {
    let known = space.run(&format!("ip neigh show {address} dev {device}"));
    let mac = known.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap();
    space.run(&format!("ip neigh replace {address} dev {device} lladdr {mac} nud permanent"));
}

/// Packets of 1,000 bytes, in both directions: what is over is dropped to the byte.
#[test]
fn both_directions_are_counted_to_the_byte() {
    for side in [Side::Bridged, Side::Routed] {
        let (host, guest) = (Space::new(), Space::new());
        host.run(&format!("ip link add veth0 type veth peer name eth0 netns {}", guest.pid()));
        let end = match side {
            Side::Bridged => {
                host.run(
                    "ip link add br0 type bridge mcast_snooping 0; ip link set veth0 master br0 up",
                );
                "br0"
            }
            Side::Routed => "veth0",
        };
        host.run(&format!(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip address add 10.1.2.1/24 dev {end}; ip link set {end} up"
        ));
        guest.run(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip address add 10.1.2.2/24 dev eth0; ip link set eth0 up",
        );
        // Neighbours are asked for before, so that no frame of that is counted. A link that has just come up may lose
        // the first one.
        guest.run("until ping -q -c 1 -W 1 10.1.2.1; do :; done");
        keep_neighbour(&host, "10.1.2.2", end);
        keep_neighbour(&guest, "10.1.2.1", "eth0");
        let (mut socket, it) = (host.socket(), interface(side));
        let quota = |bytes| QuotaState { bytes, used: 0 };
        put(&mut socket, &it, quota(6_500)).unwrap();
        let ping = "ping -q -c 1 -W 1 -s 972 10.1.2.1 >&2 && echo passed || echo dropped";
        let answers: Vec<String> = (0..3).map(|_| guest.run(ping).trim().to_owned()).collect();
        assert_eq!(answers, ["passed", "passed", "passed"], "{side:?}");
        let used = read(&mut socket, &it).unwrap().unwrap();
        assert_eq!(used, QuotaState { bytes: 6_500, used: 6_000 }, "{side:?}");
        assert_eq!(guest.run(ping).trim(), "dropped", "{side:?}");
        let over = read(&mut socket, &it).unwrap().unwrap();
        assert_eq!(over, QuotaState { bytes: 6_500, used: 6_500 }, "{side:?}");
        put(&mut socket, &it, quota(6_500)).unwrap();
        assert_eq!(guest.run(ping).trim(), "passed", "{side:?}");
    }
}
