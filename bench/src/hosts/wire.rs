//! The way between two hosts: throughput and latency, beside a VXLAN and routes by hand between the same hosts.

use std::net::Ipv4Addr;
use std::time::Duration;

use model::Result;
use netlink::Netns;

use super::attach::parsed;
use super::bed::{Bed, Host};
use super::probe::{self, Echo};
use super::swarm::Swarm;
use super::{BY_HAND, OURS, PLAIN, ROUTED, SWARM};
use crate::args::Args;
use crate::docker::line::say;
use crate::samples::Figure;

/// The work.
pub(super) const WAY: &str = "the way between two hosts";
pub(super) const STREAM: &str = "one TCP stream";
pub(super) const LATENCY: &str = "round trip";

/// Two ends of a way.
struct Way<'a> {
    who: &'a str,
    from: &'a Netns,
    to: &'a Netns,
    at: Ipv4Addr,
}

/// Measures.
pub(super) fn run(bed: &Bed, swarm: Option<&Swarm>, args: &Args) -> Result<()> {
    let [a, b] = bed.hosts();
    let [from, to] = [ends(a, bed)?, ends(b, bed)?];
    let ours = [parsed(&b.address_in("front"))?, parsed(&b.address_in("plain"))?];
    let way = |who, number: usize, at| Way { who, from: &from[number], to: &to[number], at };
    let mut ways = vec![
        way(BY_HAND, 0, Ipv4Addr::new(10, 202, 0, 2)),
        way(OURS, 1, ours[0]),
        way(PLAIN, 2, Ipv4Addr::new(10, 203, 2, 2)),
        way(ROUTED, 3, ours[1]),
    ];
    if let Some(swarm) = swarm {
        ways.push(Way { who: SWARM, from: &swarm.a, to: &swarm.b, at: swarm.address });
    }
    let echoes: Result<Vec<Echo>> = ways.iter().map(|way| Echo::start(way.to)).collect();
    let _echoes = echoes?;
    let lasts = Duration::from_millis(args.either(200, 500));
    for way in &ways {
        probe::first_reply(way.from, way.at, std::time::Instant::now())?;
    }
    for round in 0..args.either(5, 20) {
        for way in &ways {
            let speed = probe::stream(way.from, (way.to, way.at), lasts);
            let Way { who, .. } = way;
            say(Figure { case: WAY, verb: STREAM, who, unit: "Gbit/s" }, round, speed)?;
            let took = probe::round_trip(way.from, way.at, args.either(300, 1000));
            say(Figure { case: WAY, verb: LATENCY, who, unit: "µs" }, round, took)?;
        }
        ways.rotate_left(1);
    }
    Ok(())
}

/// The namespaces of a host: by hand and of Spoke's network with VXLAN, by hand and of Spoke's routed one.
fn ends(host: &Host, bed: &Bed) -> Result<[Netns; 4]> {
    let ours = |network: &str| -> Result<Netns> {
        let netns = host.make_netns(network)?;
        host.spoke(&format!("network connect {network} {network}"));
        Ok(netns)
    };
    Ok([by_hand(host, bed)?, ours("front")?, routed_by_hand(host, bed)?, ours("plain")?])
}

/// A namespace behind a bridge that routes to the one of the other host.
fn routed_by_hand(host: &Host, bed: &Bed) -> Result<Netns> {
    let other = bed.hosts().into_iter().find(|other| other.name != host.name);
    let (other, number) = (other.map_or("", |other| other.address.as_str()), &host.address[8..]);
    host.engine.world().sh(&format!(
        "ip netns add routed
         ip link add br-routed type bridge; ip address add 10.203.{number}.1/24 dev br-routed; ip link set br-routed up
         ip link add routed0 numrxqueues 1 numtxqueues 1 type veth peer name eth0 netns routed \
             numrxqueues 1 numtxqueues 1
         ip link set routed0 master br-routed up
         sysctl -qw net.ipv4.ip_forward=1
         ip route add 10.203.{}.0/24 via {other}
         # Docker drops what is forwarded, unless a rule accepts it.
         iptables -I FORWARD -i br-routed -j ACCEPT; iptables -I FORWARD -o br-routed -j ACCEPT
         ip -n routed address add 10.203.{number}.2/24 dev eth0; ip -n routed link set eth0 up
         ip -n routed route add default via 10.203.{number}.1",
        other.get(8..).unwrap_or_default()
    ));
    host.netns("routed")
}

/// A namespace behind a bridge with a VXLAN to the other host, of the same MTU: what one would type.
fn by_hand(host: &Host, bed: &Bed) -> Result<Netns> {
    let other = bed.hosts().into_iter().find(|other| other.name != host.name);
    let (other, number) = (other.map_or("", |other| other.address.as_str()), &host.address[8..]);
    host.engine.world().sh(&format!(
        "ip netns add hand
         ip link add br-hand mtu 1450 type bridge
         ip link add vx-hand mtu 1450 type vxlan id 77 local {} remote {other} dstport 4790
         ip link set vx-hand master br-hand up; ip link set br-hand up
         ip link add hand0 mtu 1450 numrxqueues 1 numtxqueues 1 type veth peer name eth0 netns hand \
             numrxqueues 1 numtxqueues 1 mtu 1450
         ip link set hand0 master br-hand up
         # Docker drops what bridges pass on, unless a rule accepts it.
         iptables -I FORWARD -i br-hand -o br-hand -j ACCEPT
         ip -n hand address add 10.202.0.{number}/24 dev eth0; ip -n hand link set eth0 up",
        host.address
    ));
    host.netns("hand")
}
