//! The encrypted way between hosts: WireGuard devices.
//!
//! A device takes packets for the address of another host and sends them, encrypted, to the same address. So the
//! outer addresses of VXLAN are those that they are without encryption, and no address is needed for the tunnel: a
//! forwarding entry names the device, and the kernel looks for no other way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use model::{Error, IfName, IpNet, Mtu, NetworkName, PublicKey, Result};
use netlink::wire::Batch;
use netlink::wireguard::{Device, PeerChange, PrivateKey, WireGuard};
use netlink::{At, Change, Link, Links, NewAddress, Socket, sysctl};

use crate::kernel_device::{delete, underlay_mtu};

/// What WireGuard puts around a packet on IPv4, in bytes: its header and authentication, UDP, IP.
pub const TUNNEL_OVERHEAD: u32 = 32 + 8 + 20;
/// The group of our devices, by which the packet filter knows them.
pub(crate) const GROUP: u32 = 0x7370_6b77;
/// What their names begin with; two at most.
const BEGIN: &str = "spokewg";
/// The port of the first.
const PORT: u16 = 51_820;
/// An address that no packet has: the kernel compares the way back of what comes from a device (`rp_filter`) with all
/// ways only if the device has one.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 87, 87);
/// How often a packet keeps the way through an address translation open, in seconds: WireGuard's own advice.
const KEEPALIVE: u16 = 25;

/// A tunnel to all other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// In which turn of keys.
    pub turn: u32,
    /// This host's key.
    pub key: PrivateKey,
    /// The other hosts' keys.
    pub peers: BTreeMap<Ipv4Addr, PublicKey>,
}

/// Where the tunnels lead.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// The device through which each host is sent to.
    links: BTreeMap<Ipv4Addr, u32>,
    /// This host's own public keys, by turn.
    pub(crate) keys: BTreeMap<u32, PublicKey>,
    /// The hosts that have agreed with this one on keys, by turn.
    pub(crate) known: BTreeMap<u32, BTreeSet<IpAddr>>,
    /// How much was changed.
    pub(crate) changed: usize,
}

impl Ways {
    /// The device through which a host is sent to, if there is one.
    pub(crate) fn via(&self, host: IpAddr) -> Option<u32> {
        match host {
            IpAddr::V4(host) => self.links.get(&host).copied(),
            IpAddr::V6(_) => None,
        }
    }
}

/// Makes the tunnels, and removes others.
///
/// # Errors
/// `Unsupported` where the kernel has no WireGuard.
pub(crate) fn ensure(tunnels: &[Tunnel], local: IpAddr, socket: &mut Socket) -> Result<Ways> {
    let mut ways = Ways { changed: remove_others(tunnels, socket)?, ..Ways::default() };
    if tunnels.is_empty() {
        return Ok(ways);
    }
    refuse_v6(local)?;
    let mtu = Mtu::new(underlay_mtu(local, socket)?.saturating_sub(TUNNEL_OVERHEAD));
    let mtu = mtu.ok_or_else(|| Error::invalid("no packet fits into a tunnel here"))?;
    for tunnel in tunnels {
        let link = tunnel.ensure_link(mtu, socket, &mut ways.changed)?;
        let mut wireguard = WireGuard::open()?.ok_or_else(unsupported)?;
        // The kernel keeps what it has where this is the same.
        wireguard.set_identity(link, &tunnel.key, tunnel.port())?;
        let device = wireguard.device(link)?;
        let changes = tunnel.changes(&device);
        ways.changed += changes.len();
        wireguard.set_peers(link, &changes)?;
        ways.learn(tunnel, (link, &device));
    }
    Ok(ways)
}

impl Ways {
    /// Tunnels come oldest first. A newer one is used where the other host has agreed on keys for it, or where
    /// there is no other.
    fn learn(&mut self, tunnel: &Tunnel, (link, device): (u32, &Device)) {
        self.keys.extend(device.key.map(|key| (tunnel.turn, key)));
        for (address, key) in &tunnel.peers {
            let is_known = device.peers.get(key).is_some_and(|peer| peer.is_known);
            if is_known || !self.links.contains_key(address) {
                self.links.insert(*address, link);
            }
            if is_known {
                self.known.entry(tunnel.turn).or_default().insert((*address).into());
            }
        }
    }
}

impl Tunnel {
    fn port(&self) -> u16 {
        PORT + u16::from(self.turn % 2 == 1)
    }

    fn name(&self) -> Result<IfName> {
        let name = format!("{BEGIN}{}", self.turn % 2).parse();
        name.map_err(|_: Error| Error::bug("wireguard name"))
    }

    fn mark(&self) -> String {
        format!("spoke tunnel {}", self.turn)
    }

    fn ensure_link(&self, mtu: Mtu, socket: &mut Socket, changed: &mut usize) -> Result<u32> {
        let (name, mark) = (self.name()?, self.mark());
        let there = socket.link(At::Name(&name))?;
        let is_as_wanted = |link: &Link| {
            link.alias.as_deref() == Some(mark.as_str())
                && link.mtu == mtu.bytes()
                && link.flags.is_up()
        };
        if let Some(link) = there.as_ref().filter(|link| is_as_wanted(link)) {
            return Ok(link.index);
        }
        *changed += 1;
        if let Some(other) = there {
            delete(socket, &other)?;
        }
        let mut batch = Batch::new();
        batch.new_wireguard(&name, mtu, GROUP);
        let made = socket.send(&mut batch)?;
        if made.failures().iter().any(|it| it.errno == netlink::Errno::OPNOTSUPP) {
            return Err(unsupported());
        }
        made.into_result()?;
        // What comes out of it has an address that the way to leads elsewhere.
        sysctl::ensure(format!("net/ipv4/conf/{name}/rp_filter"), "2")?;
        let gone = || Error::try_again(format!("{name} went away"));
        let made = socket.link(At::Name(&name))?.ok_or_else(gone)?;
        let mut batch = Batch::new();
        batch.add_address(&NewAddress::new(made.index, IpNet::from(IpAddr::V4(ADDRESS))));
        let finished = [Change::NoIpv6Addresses, Change::Alias(mark), Change::Up(true)];
        batch.change_link(At::Name(&name), &finished);
        socket.send(&mut batch)?.into_result()?;
        Ok(made.index)
    }

    /// What differs. Where a peer is heard from is the kernel's to know: only a new one gets its address.
    fn changes(&self, device: &Device) -> Vec<PeerChange> {
        let wanted: BTreeSet<PublicKey> = self.peers.values().copied().collect();
        let gone = device.peers.keys().filter(|key| !wanted.contains(*key));
        // An address is one peer's only: what goes comes first.
        let mut changes: Vec<PeerChange> = gone.map(|key| PeerChange::Remove(*key)).collect();
        for (address, key) in &self.peers {
            let there = device.peers.get(key);
            let is_there = there.is_some_and(|peer| peer.allowed == [IpAddr::V4(*address)]);
            if is_there && there.is_some_and(|peer| peer.keepalive == KEEPALIVE) {
                continue;
            }
            let endpoint = (!is_there).then(|| SocketAddrV4::new(*address, self.port()));
            changes.push(PeerChange::Set {
                key: *key,
                address: *address,
                endpoint,
                keepalive: KEEPALIVE,
            });
        }
        changes
    }
}

fn remove_others(tunnels: &[Tunnel], socket: &mut Socket) -> Result<usize> {
    let wanted: Result<BTreeSet<IfName>> = tunnels.iter().map(Tunnel::name).collect();
    let wanted = wanted?;
    let links = socket.links(Links { kind: Some("wireguard"), master: None })?;
    let ours = |link: &&Link| {
        let number = link.name.as_str().strip_prefix(BEGIN);
        matches!(number, Some("0" | "1")) && !wanted.contains(&link.name)
    };
    let others: Vec<&Link> = links.iter().filter(ours).collect();
    others.iter().try_for_each(|link| delete(socket, link))?;
    Ok(others.len())
}

/// Fails where this host, which has this address, cannot encrypt.
///
/// # Errors
/// `Unsupported`, with what to do.
pub fn refuse_clear(network: &NetworkName, local: IpAddr) -> Result<()> {
    let refused = |error: Error| error.context(format!("network {network} is not made here"));
    refuse_v6(local).map_err(refused)?;
    match WireGuard::open()? {
        Some(_) => Ok(()),
        None => Err(refused(unsupported())),
    }
}

/// By IPv6 the kernel looks for a route through the device that a forwarding entry names, and that route would take
/// everything else for the host too.
fn refuse_v6(local: IpAddr) -> Result<()> {
    match local {
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(_) => Err(Error::unsupported(
            "networks are not encrypted between hosts that reach each other by IPv6, and packets would leave in clear \
             text; leave out --encrypt, or give the hosts addresses of IPv4",
        )),
    }
}

fn unsupported() -> Error {
    Error::unsupported(
        "this host's kernel has no WireGuard, and without it packets would leave in clear text; load the module \
         wireguard, or use a kernel that has it",
    )
}

#[cfg(test)]
mod tests {
    use netlink::wireguard::Peer;

    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey::new([number; 32])
    }

    fn address(number: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, number)
    }

    fn tunnel(turn: u32, peers: &[(u8, u8)]) -> Tunnel {
        let peers = peers.iter().map(|(host, number)| (address(*host), key(*number))).collect();
        Tunnel { turn, key: PrivateKey::new([9; 32]), peers }
    }

    fn device(peers: &[(u8, u8, bool)]) -> Device {
        let peer = |(host, number, is_known): &(u8, u8, bool)| {
            let allowed = vec![address(*host).into()];
            (key(*number), Peer { allowed, keepalive: KEEPALIVE, is_known: *is_known })
        };
        Device { key: Some(key(9)), port: PORT, peers: peers.iter().map(peer).collect() }
    }

    #[test]
    fn a_host_that_is_known_elsewhere_gets_no_endpoint() {
        let tunnel = tunnel(0, &[(1, 1), (2, 2)]);
        assert_eq!(tunnel.changes(&device(&[(1, 1, true), (2, 2, false)])), []);
        let changes = tunnel.changes(&device(&[(1, 7, true), (2, 2, true)]));
        let endpoint = Some(SocketAddrV4::new(address(1), PORT));
        let set =
            PeerChange::Set { key: key(1), address: address(1), endpoint, keepalive: KEEPALIVE };
        assert_eq!(changes, [PeerChange::Remove(key(7)), set]);
    }

    #[test]
    fn a_new_tunnel_is_used_when_both_hosts_have_it() {
        let mut ways = Ways::default();
        let (old, new) = (tunnel(0, &[(1, 1), (2, 2)]), tunnel(1, &[(1, 3), (2, 4), (3, 5)]));
        ways.learn(&old, (10, &device(&[(1, 1, true), (2, 2, true)])));
        ways.learn(&new, (11, &device(&[(1, 3, true), (2, 4, false), (3, 5, false)])));
        let via = [1, 2, 3, 4].map(|host| ways.via(address(host).into()));
        assert_eq!(via, [Some(11), Some(10), Some(11), None]);
        assert_eq!(ways.known[&1], BTreeSet::from([address(1).into()]));
    }
}
