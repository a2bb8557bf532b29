//! Networks.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{
    EngineKind, Error, HostName, IpNet, Ipv4Net, Ipv6Net, Mtu, NetworkName, Placement, Result,
    SharedNetwork, SharedRules, Timestamp, Transport, Vni, overlap,
};

use super::RACES;
use super::unanswered::Unanswered;
use crate::port::{Cluster, Expect, Outcome, Txn};
use crate::record::{Key, Record};
use crate::view::View;

/// The first VNI: lower ones are often in use already.
const FIRST_VNI: u32 = 0x1001;

/// Subnets are chosen from here where none is named: `10.64.0.0/16` and those behind it.
const CHOSEN: (u8, std::ops::RangeInclusive<u8>) = (10, 64..=127);

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The network's name.
    pub name: NetworkName,
    /// Its subnets.
    pub subnets: Subnets,
    /// The prefix length of a host's block; chosen where none is given.
    pub block: Option<u8>,
    /// Of its devices.
    pub mtu: Mtu,
    /// Where it is to be.
    pub hosts: Placement,
    /// Whether it is encrypted between hosts.
    pub encrypted: bool,
    /// How its packets go from host to host.
    pub transport: Transport,
    /// In which engines of its hosts it is to be made.
    pub engines: BTreeSet<EngineKind>,
    /// Whether it has names.
    pub names: bool,
    /// Whether names keep their addresses.
    pub sticky: bool,
    /// Who reaches its containers, and where these may go.
    pub rules: SharedRules,
    /// When it was asked for.
    pub since: Timestamp,
}

/// The subnets of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnets {
    /// One of IPv4; chosen where none is given.
    V4(Option<Ipv4Net>),
    /// One of IPv4, as before, and one of IPv6.
    Both(Option<Ipv4Net>, Subnet6),
    /// One of IPv6 alone.
    V6(Subnet6),
}

/// An IPv6 subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnet6 {
    /// This one.
    Named(Ipv6Net),
    /// A unique local one (RFC 4193) with this global identifier.
    Chosen([u8; 5]),
}

/// Declares a network for many hosts.
///
/// # Errors
/// `Conflict` where there is one of its name, or of some of its addresses; `NotFound` where it names a
/// host that is no member; `Invalid` as [`SharedNetwork::check`].
pub fn declare(cluster: &impl Cluster, wanted: &Declared) -> Result<SharedNetwork> {
    let (mut unanswered, mut written) = (Unanswered::default(), None);
    for _ in 0..RACES {
        let view = cluster.read()?;
        let is_there = |network: &SharedNetwork| view.networks.get(&wanted.name) == Some(network);
        if let Some(network) = written.take().filter(|it| unanswered.is_one() && is_there(it)) {
            return Ok(network);
        }
        let network = described(&view, wanted)?;
        let turn = view.turn.map_or(Expect::Absent, Expect::At);
        let (key, vni) = (Key::Network(wanted.name.clone()), Key::claim(&network));
        let txn = Txn::default()
            .require(Key::Turn, turn)
            .require(key.clone(), Expect::Absent)
            .require(Key::Vni(network.vni), Expect::Absent)
            .require(Key::EncryptedVni(network.vni), Expect::Absent)
            .require(Key::RuledVni(network.vni), Expect::Absent)
            .put(Key::Turn, Record::Mark)
            .put(vni, Record::Vni(wanted.name.clone()))
            .put(key, Record::Network(Box::new(network.clone())));
        if let Outcome::Done(_) = unanswered.heed(cluster.commit(&txn))? {
            return Ok(network);
        }
        written = Some(network);
    }
    Err(Error::try_again("others declare networks of the cluster all the time"))
}

/// Refuses what could not be declared now, under whatever name.
///
/// # Errors
/// As [`declare`].
pub fn refuse(view: &View, wanted: &Declared) -> Result<()> {
    described(view, wanted).map(drop)
}

fn described(view: &View, wanted: &Declared) -> Result<SharedNetwork> {
    let name = &wanted.name;
    if view.networks.contains_key(name) {
        return Err(Error::conflict(format!("the cluster has a network {name} already")));
    }
    if let Placement::Hosts(names) = &wanted.hosts
        && let Some(unknown) = names.iter().find(|host| !view.hosts.contains_key(*host))
    {
        return Err(Error::not_found(format!(
            "the cluster has no host {unknown}; `spoke host ls` lists them"
        )));
    }
    let vni = free_vni(view)?;
    let (subnet, subnet6) = wanted.subnets.of(view, vni)?;
    let block = wanted.block.unwrap_or_else(|| block_of(&subnet));
    let network = SharedNetwork {
        vni,
        subnet,
        subnet6,
        block,
        mtu: wanted.mtu,
        hosts: wanted.hosts.clone(),
        encrypted: wanted.encrypted,
        transport: wanted.transport,
        engines: wanted.engines.clone().into(),
        names: wanted.names,
        sticky: wanted.sticky,
        rules: wanted.rules.clone(),
        since: wanted.since,
    };
    network.check(name)?;
    network.rules.check()?;
    refuse_hosts_own(view, name, &network)?;
    for subnet in network.nets() {
        if let Some((other, net)) = overlapping(view, &subnet) {
            return Err(Error::conflict(format!(
                "subnet {subnet} overlaps {net} of network {other} of the cluster"
            )));
        }
    }
    Ok(network)
}

impl Subnets {
    /// That from which hosts have blocks, and the one of IPv6 beside it.
    fn of(self, view: &View, vni: Vni) -> Result<(IpNet, Option<Ipv6Net>)> {
        let v4 = |subnet: Option<Ipv4Net>| subnet.map_or_else(|| choose(view), Ok);
        Ok(match self {
            Subnets::V4(subnet) => (v4(subnet)?.into(), None),
            Subnets::Both(subnet, v6) => (v4(subnet)?.into(), Some(v6.of(view, vni)?)),
            Subnets::V6(subnet) => (subnet.of(view, vni)?.into(), None),
        })
    }
}

impl Subnet6 {
    fn of(self, view: &View, vni: Vni) -> Result<Ipv6Net> {
        let site = match self {
            Subnet6::Named(subnet) => return Ok(subnet),
            Subnet6::Chosen(site) => site.map(u16::from),
        };
        let [a, b, c, d, e] = site;
        let net = |number: u16| {
            let first = Ipv6Addr::new(0xfd00 | a, b << 8 | c, d << 8 | e, number, 0, 0, 0, 0);
            Ipv6Net::new(first, 64).ok()
        };
        // Numbers of networks are rarely used again, and so their addresses are not either.
        let begin = u16::try_from(vni.number() & 0xffff).unwrap_or(0);
        let mut all = (0..=u16::MAX).filter_map(|more| net(begin.wrapping_add(more)));
        all.find(|net| overlapping(view, &IpNet::V6(*net)).is_none()).ok_or_else(|| {
            Error::exhausted("no IPv6 subnet is left to choose; name one with --subnet")
        })
    }
}

/// Refuses a subnet that has the address of a host: its bridge would hide the way to that host.
///
/// # Errors
/// `Conflict`, naming the host.
pub fn refuse_hosts_own(view: &View, name: &NetworkName, network: &SharedNetwork) -> Result<()> {
    match view.hosts.iter().find(|(_, host)| network.has(host.address)) {
        Some((host, its)) => Err(Error::conflict(format!(
            "network {name}: its subnet {} has the address {} of host {host}; choose another with --subnet",
            network.subnets(),
            its.address
        ))),
        None => Ok(()),
    }
}

/// Refuses a network that only later versions know how to use.
///
/// # Errors
/// `Unsupported`.
pub fn refuse_unknown(name: &NetworkName, network: &SharedNetwork) -> Result<()> {
    if network.transport != Transport::Other && network.is_unknown() {
        return Err(Error::unsupported(format!(
            "network {name} is not used: it has rules that this Spoke does not know; install the version of the other \
             hosts"
        )));
    }
    match network.transport {
        Transport::Vxlan | Transport::Route => Ok(()),
        Transport::Other => Err(Error::unsupported(format!(
            "network {name} is not used: its packets go from host to host in a way that this Spoke does not know; \
             install the version of the other hosts"
        ))),
    }
}

/// Refuses a network whose VNI is another one's: its device would be that of the other.
///
/// # Errors
/// `Conflict`, naming the other.
pub fn refuse_unclaimed(view: &View, name: &NetworkName, network: &SharedNetwork) -> Result<()> {
    let vni = network.vni;
    match view.vni_of(network) {
        Some(holder) if holder == name => Ok(()),
        Some(holder) => Err(Error::conflict(format!(
            "network {name} is not used: its VNI {vni} is that of network {holder}"
        ))),
        None => Err(Error::conflict(format!(
            "network {name} is not used: no host has claimed its VNI {vni} for it, as `spoke network \
             create` does"
        ))),
    }
}

/// A host has 256 addresses, or a sixteenth of a subnet that is smaller than a /20; of IPv6 a part of 256, or a
/// sixteenth of a subnet that is smaller than a /112.
fn block_of(subnet: &IpNet) -> u8 {
    let length = subnet.prefix_len();
    match subnet {
        IpNet::V4(_) => length.saturating_add(4).clamp(24, 29),
        IpNet::V6(_) if length <= 112 => length.saturating_add(8),
        IpNet::V6(_) => length.saturating_add(4).clamp(120, 125),
    }
}

fn overlapping<'a>(view: &'a View, subnet: &IpNet) -> Option<(&'a NetworkName, IpNet)> {
    let all = view.networks.iter().flat_map(|(name, it)| it.nets().map(move |net| (name, net)));
    all.into_iter().find(|(_, net)| overlap(net, subnet))
}

fn choose(view: &View) -> Result<Ipv4Net> {
    let (first, mut seconds) = CHOSEN;
    seconds
        .find_map(|second| {
            let net = Ipv4Net::new(Ipv4Addr::new(first, second, 0, 0), 16).ok()?;
            let is_free = overlapping(view, &net.into()).is_none()
                && !view.hosts.values().any(|host| IpNet::V4(net).contains(&host.address));
            is_free.then_some(net)
        })
        .ok_or_else(|| Error::exhausted("no subnet is left to choose; name one with --subnet"))
}

fn free_vni(view: &View) -> Result<Vni> {
    let networks = view.networks.values().map(|network| network.vni);
    let claims = [&view.vnis, &view.encrypted_vnis, &view.ruled_vnis];
    let claimed = claims.into_iter().flat_map(|claims| claims.keys()).copied();
    let taken: BTreeSet<u32> = networks.chain(claimed).map(Vni::number).collect();
    let mut free = (FIRST_VNI..=Vni::LAST).filter(|number| !taken.contains(number));
    free.find_map(Vni::new).ok_or_else(|| Error::exhausted("every VNI is taken"))
}

/// Removes a network. Refused while a container is on it on any host; the addresses of bridges are no
/// containers'.
///
/// # Errors
/// `NotFound` where there is none, `Conflict` where it is used.
pub fn remove_network(cluster: &impl Cluster, name: &NetworkName) -> Result<()> {
    let mut unanswered = Unanswered::default();
    for _ in 0..RACES {
        let view = cluster.read()?;
        let Some(network) = view.networks.get(name) else {
            if unanswered.is_one() {
                return Ok(());
            }
            return Err(Error::not_found(format!("the cluster has no network {name}")));
        };
        if let Some((host, address)) = user_of(&view, name) {
            let advice = match view.alive.contains(host) {
                true => "remove its containers first".to_owned(),
                false => format!("that host is lost: `spoke host remove {host}` if it is for good"),
            };
            return Err(Error::conflict(format!(
                "network {name} is used on host {host}, by {address} among others; {advice}"
            )));
        }
        let turn = view.turn.map_or(Expect::Absent, Expect::At);
        let key = Key::Network(name.clone());
        let mut txn =
            Txn::default().require(Key::Turn, turn).put(Key::Turn, Record::Mark).delete(key);
        if view.vni_of(network) == Some(name) {
            txn = txn.delete(Key::claim(network));
        }
        if let Outcome::Done(_) = unanswered.heed(cluster.commit(&txn))? {
            return Ok(());
        }
    }
    Err(Error::try_again("others declare networks of the cluster all the time"))
}

fn user_of<'a>(view: &'a View, name: &NetworkName) -> Option<(&'a HostName, IpAddr)> {
    view.endpoints.keys().find_map(|(host, of, address)| {
        let network = view.networks.get(name)?;
        (of == name && !network.is_gateway(*address)).then_some((host, *address))
    })
}
