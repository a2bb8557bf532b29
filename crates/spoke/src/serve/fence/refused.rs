//! Packets that fences drop, from the log group of nftables.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linux::filter::fence::LOG_GROUP;
use model::{Protocol, Result};
use netlink::{At, Logged, PacketLog, Socket};

use crate::denied::{Act, Denied};
use crate::host;
use crate::serve::Daemon;

/// How often it is checked whether the daemon stops, and how long the name of an interface is known.
const GLANCE: Duration = Duration::from_secs(1);

/// The names of interfaces by their numbers.
struct Bridges {
    socket: Socket,
    known: HashMap<u32, (Instant, String)>,
}

pub(super) fn hear_until_lost(daemon: &Daemon) -> Result<()> {
    let mut log = PacketLog::open(LOG_GROUP)?;
    let mut bridges = Bridges { socket: Socket::route()?, known: HashMap::new() };
    loop {
        for packet in log.wait(&daemon.stop, GLANCE)? {
            report(daemon, &mut bridges, &packet);
        }
        if daemon.sleep(Duration::ZERO) {
            return Ok(());
        }
    }
}

impl Bridges {
    fn name(&mut self, index: u32) -> String {
        match self.known.get(&index) {
            Some((at, name)) if at.elapsed() < GLANCE => return name.clone(),
            Some(_) | None => {}
        }
        let found = self.socket.link(At::Index(index)).ok().flatten();
        let name = found.map(|link| link.name.to_string()).unwrap_or_default();
        self.known.insert(index, (Instant::now(), name.clone()));
        name
    }
}

fn report(daemon: &Daemon, bridges: &mut Bridges, packet: &Logged) {
    let gate = &daemon.fence;
    let (act, counter) = match packet.prefix.as_str() {
        "learned" => (Act::Learned, &gate.counts.learned),
        _ => (Act::PacketDropped, &gate.counts.packets),
    };
    counter.fetch_add(1, Ordering::Relaxed);
    let bridge = bridges.name(packet.input);
    let found = gate.look_up(|table| {
        let (network, entry) = table.behind(&bridge, packet.source);
        let entry =
            entry.map(|entry| (entry.name.clone(), entry.runtime_name(), entry.has_own_fence()));
        (network.map(ToString::to_string), entry)
    });
    let (network, entry) = found.unwrap_or_default();
    let network = network.unwrap_or(bridge);
    let mut denied = Denied::new(host::now(), network, packet.source, act);
    let mut whose = denied.network.clone();
    if let Some((container, runtime, is_own)) = entry {
        denied.by_own_rules = is_own && packet.prefix != "forged";
        if is_own {
            whose = format!("{container} on {}", denied.network);
        }
        (denied.container, denied.runtime) = (Some(container), Some(runtime));
    }
    denied.name = gate.name_of(packet.source, packet.destination);
    denied.address = Some(packet.destination);
    denied.port = packet.port;
    denied.protocol = Some(protocol(packet.protocol));
    denied.why = match (packet.prefix.as_str(), &denied.name) {
        ("forged", _) => "the source is no address of the network".to_owned(),
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

/// As rules call it, or its number (IANA).
fn protocol(number: u8) -> String {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    match all.into_iter().find(|it| it.number() == number) {
        Some(known) => known.to_string(),
        None => match number {
            1 => "icmp".to_owned(),
            58 => "icmpv6".to_owned(),
            other => format!("protocol {other}"),
        },
    }
}
