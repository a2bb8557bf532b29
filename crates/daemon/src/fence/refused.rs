//! Packets that fences drop, from the log group of nftables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use host::denied::{Act, Denied};
use host::time;
use linux::filter::fence::LOG_GROUP;
use linux::identity::Identity;
use model::{AttachmentId, Protocol, Result};
use netlink::{At, Logged, PacketLog, Socket};

use crate::Daemon;

/// How often it is checked whether the daemon stops, and how long the name of an interface is known.
const GLANCE: Duration = Duration::from_secs(1);

/// What is reported of a packet that a port does not take, because its source is another's.
const SPOOFED: &str = "spoofed";

/// The start of groups whose packets stay on the link (RFC 4291, 2.7).
const LINK_GROUPS: u16 = 0xff02;

/// Protocol numbers (IANA).
const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;

/// What interfaces are, by their numbers.
struct Interfaces {
    socket: Socket,
    known: HashMap<u32, (Instant, Interface)>,
}

/// The name of an interface, and of which bridge it is a port.
#[derive(Clone, Default)]
struct Interface {
    name: String,
    bridge: Option<u32>,
}

pub(super) fn hear_until_lost(daemon: &Daemon) -> Result<()> {
    let mut log = PacketLog::open(LOG_GROUP)?;
    let mut interfaces = Interfaces { socket: Socket::route()?, known: HashMap::new() };
    loop {
        for packet in log.wait(&daemon.stop, GLANCE)? {
            report(daemon, &mut interfaces, &packet);
        }
        if daemon.sleep(Duration::ZERO) {
            return Ok(());
        }
    }
}

impl Interfaces {
    fn get(&mut self, index: u32) -> Interface {
        match self.known.get(&index) {
            Some((at, known)) if at.elapsed() < GLANCE => return known.clone(),
            Some(_) | None => {}
        }
        let found = self.socket.link(At::Index(index)).ok().flatten();
        let found =
            found.map(|link| Interface { name: link.name.to_string(), bridge: link.master });
        let found = found.unwrap_or_default();
        self.known.insert(index, (Instant::now(), found.clone()));
        found
    }

    /// The name of the bridge that a packet came in through, and of the port, where it was reported at that.
    fn of(&mut self, packet: &Logged) -> (String, Option<String>) {
        let input = self.get(packet.input);
        match (packet.bridge_port, input.bridge) {
            (Some(port), _) => (input.name, Some(self.get(port).name)),
            (None, Some(bridge)) => (self.get(bridge).name, Some(input.name)),
            (None, None) => (input.name, None),
        }
    }
}

/// Whether the container's end in the host has this name.
fn is_behind(id: &AttachmentId, port: &str) -> bool {
    Identity::of(id).host_link().is_ok_and(|link| link.as_str() == port)
}

fn report(daemon: &Daemon, interfaces: &mut Interfaces, packet: &Logged) {
    if is_of_the_link(packet) || packet.prefix == SPOOFED && packet.source.is_unspecified() {
        return;
    }
    let gate = &daemon.fence;
    let (act, counter) = match packet.prefix.as_str() {
        "learned" => (Act::Learned, &gate.counts.learned),
        _ => (Act::PacketDropped, &gate.counts.packets),
    };
    counter.fetch_add(1, Ordering::Relaxed);
    let (bridge, port) = interfaces.of(packet);
    let found = gate.look_up(|table| {
        let (network, holder) = table.behind(&bridge, packet.source);
        // Who sends in another's name is known by the port.
        let entry = match &port {
            Some(port) if packet.prefix == SPOOFED => table.attached(|id| is_behind(id, port)),
            Some(_) | None => holder,
        };
        (network.map(ToString::to_string), entry.cloned())
    });
    let (network, entry) = found.unwrap_or_default();
    let network = network.unwrap_or(bridge);
    let mut denied = Denied::new(time::now(), network, packet.source, act);
    let mut whose = denied.network.clone();
    if let Some(entry) = entry {
        let is_own = entry.has_own_fence();
        denied.by_own_rules = is_own && !["forged", SPOOFED].contains(&packet.prefix.as_str());
        if is_own {
            whose = format!("{} on {}", entry.name, denied.network);
        }
        denied.of(&entry);
    }
    denied.name = gate.name_of(packet.source, packet.destination);
    denied.address = Some(packet.destination);
    denied.port = packet.port;
    denied.protocol = Some(protocol(packet.protocol));
    denied.why = match (packet.prefix.as_str(), &denied.name) {
        ("forged", _) => "the source is no address of the network".to_owned(),
        (SPOOFED, _) => "not sent from the container's own addresses".to_owned(),
        ("learned", _) => format!("not in egress of {whose}, which learns"),
        (_, Some(_)) => {
            format!("this port is not in egress of {whose}, or the name's time is over")
        }
        (_, None) if whose != denied.network => {
            format!("no allowed name led here, and no rule of {whose} allows the address")
        }
        (_, None) => "no allowed name led here, and no rule allows the address".to_owned(),
    };
    gate.report(&denied);
}

/// Whether it is what every system says on its link by itself, without a user: which groups it is in (MLD, RFC 3810,
/// behind a hop-by-hop header), that it has an address and who its neighbours are (RFC 4861, RFC 4862). It leads
/// nowhere else, and is dropped all the same.
fn is_of_the_link(packet: &Logged) -> bool {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
        return false;
    };
    let is_from_link = source.is_unspecified() || source.is_unicast_link_local();
    let is_to_link = destination.segments()[0] == LINK_GROUPS;
    is_from_link && is_to_link && [HOP_BY_HOP, ICMPV6].contains(&packet.protocol)
}

/// As rules call it, or its number (IANA).
fn protocol(number: u8) -> String {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    match all.into_iter().find(|it| it.number() == number) {
        Some(known) => known.to_string(),
        None => match number {
            1 => "icmp".to_owned(),
            ICMPV6 => "icmpv6".to_owned(),
            other => format!("protocol {other}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_system_says_on_its_link_by_itself_is_no_refusal() {
        let is_quiet = |source: &str, destination: &str, protocol| {
            is_of_the_link(&Logged {
                prefix: "forged".to_owned(),
                input: 1,
                bridge_port: None,
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
                protocol,
                port: None,
            })
        };
        assert!(
            is_quiet("::", "ff02::16", HOP_BY_HOP) && is_quiet("fe80::1", "ff02::16", HOP_BY_HOP)
        );
        assert!(is_quiet("::", "ff02::1:ff00:2", ICMPV6) && is_quiet("fe80::1", "ff02::2", ICMPV6));
        // An address that is not the container's, a group that routers lead on, a service, a neighbour.
        assert!(!is_quiet("2001:db8::1", "ff02::16", HOP_BY_HOP));
        assert!(!is_quiet("fe80::1", "ff05::2", ICMPV6));
        assert!(!is_quiet("fe80::1", "ff02::fb", 17));
        assert!(!is_quiet("fe80::1", "2001:db8::1", ICMPV6));
        assert!(!is_quiet("10.0.0.2", "224.0.0.22", 2));
    }
}
