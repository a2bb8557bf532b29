//! Who is a member.

use model::{ClusterHost, Error, HostName, Result};

use super::RACES;
use super::layout::refuse_other_layout;
use super::unanswered::Unanswered;
use crate::layout;
use crate::layout_version::LATEST;
use crate::port::{Cluster, Expect, Outcome, Txn, Write};
use crate::reach::{is_host, is_of_family, of_other_family};
use crate::record::{HostRecord, Key, Record, Revision};
use crate::view::View;

/// Makes `name` the first member, or one more of a cluster that is there: a host that may write to
/// etcd needs no token. A member that has lost its own record of that, and so is not heard of, is one again.
///
/// # Errors
/// `Conflict` where there is a host of that name or address; `Unsupported` where the layout is of another
/// version.
pub fn form(cluster: &impl Cluster, name: &HostName, host: &ClusterHost) -> Result<()> {
    let mut unanswered = Unanswered::default();
    for _ in 0..RACES {
        let view = cluster.read()?;
        refuse_other_layout(&view)?;
        let txn = match again(&view, name, host) {
            Some(txn) => txn,
            None => {
                refuse_taken(&view, name, host)?;
                Txn::new_member(&view, name, host)
            }
        };
        let txn = match view.layout {
            Some(_) => txn.require(Key::Layout, Expect::Present),
            None => {
                txn.require(Key::Layout, Expect::Absent).put(Key::Layout, Record::Layout(LATEST))
            }
        };
        if let Outcome::Done(_) = unanswered.heed(cluster.commit(&txn))? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!(
        "others write to the cluster all the time while host {name} is being added"
    )))
}

/// Where the cluster has this very host, and does not hear of it: it is a member again, with what operators said of it.
fn again(view: &View, name: &HostName, host: &ClusterHost) -> Option<Txn> {
    let (known, at) = (view.hosts.get(name)?, view.epochs.get(name)?);
    if known.address != host.address || view.alive.contains(name) {
        return None;
    }
    let key = Key::Host(name.clone());
    let txn = Txn::default()
        .require(key.clone(), Expect::At(*at))
        .require(Key::Alive(name.clone()), Expect::Absent);
    Some(txn.put(key, Record::Host(view.record(name)?)))
}

impl Txn {
    /// A network that is declared meanwhile may have the host's address, and so the turn is taken as for a network.
    pub(super) fn new_member(view: &View, name: &HostName, host: &ClusterHost) -> Self {
        let key = Key::Host(name.clone());
        Self::default()
            .require(Key::Turn, view.turn.map_or(Expect::Absent, Expect::At))
            .require(key.clone(), Expect::Absent)
            .put(Key::Turn, Record::Mark)
            .put(key, Record::Host(host.clone().into()))
    }
}

pub(super) fn refuse_taken(view: &View, name: &HostName, host: &ClusterHost) -> Result<()> {
    if !is_host(host.address) {
        return Err(Error::invalid(format!(
            "{} is no address at which others reach this host",
            host.address
        )));
    }
    layout::member(name.as_str())?;
    if view.hosts.contains_key(name) {
        return Err(Error::conflict(format!(
            "the cluster has a host {name}; choose another name with --name, or remove it with \
             `spoke host remove {name}`"
        )));
    }
    let other = view.hosts.iter().find(|(_, other)| other.address == host.address);
    if let Some((other, _)) = other {
        return Err(Error::conflict(format!(
            "host {other} has the address {}; choose another with --address",
            host.address
        )));
    }
    let mut others = view.hosts.iter();
    if let Some((other, it)) = others.find(|(_, it)| !is_of_family(it.address, host.address)) {
        return Err(Error::conflict(format!(
            "{}; choose an address as that of host {other} ({}) with --address",
            of_other_family((name, host.address), it.address),
            it.address
        )));
    }
    // Its bridge would hide the way to this host from all others.
    let mut networks = view.networks.iter();
    match networks.find(|(_, network)| network.has(host.address)) {
        Some((network, it)) => Err(Error::conflict(format!(
            "{} is an address of network {network} ({}) of the cluster; choose another with --address",
            host.address,
            it.subnets()
        ))),
        None => Ok(()),
    }
}

/// Changes what is said of a host. The revision of that record says what was taken over since the host was heard of, so
/// it stays as it is from the first takeover on until the host is back.
///
/// # Errors
/// `NotFound` where there is none; `TryAgain` where its record cannot be read; `Conflict` where its addresses were taken
/// over; as `change`.
pub fn change_host(
    cluster: &impl Cluster,
    name: &HostName,
    change: impl Fn(&mut ClusterHost) -> Result<()>,
) -> Result<()> {
    for _ in 0..RACES {
        let view = cluster.read()?;
        let (Some(known), Some(at)) = (view.hosts.get(name), view.epochs.get(name)) else {
            let missing = Error::not_found(format!("no host {name}; `spoke host ls` lists them"));
            return Err(view.unreadable(name).unwrap_or(missing));
        };
        let mut host = known.clone();
        change(&mut host)?;
        if host == *known {
            return Ok(());
        }
        if view.is_taken_over(name) {
            return Err(Error::conflict(format!(
                "host {name} is lost, and addresses of it were taken over; remove it with `spoke host remove {name}`, \
                 or wait until it is back"
            )));
        }
        let key = Key::Host(name.clone());
        let rest = view.rests.get(name).cloned().unwrap_or_default();
        let record = Record::Host(HostRecord { host, rest });
        let mut txn = Txn::default().require(key.clone(), Expect::At(*at)).put(key, record);
        if !view.alive.contains(name) {
            txn.no_pin_since = Some(view.revision);
        }
        if let Outcome::Done(_) = cluster.commit(&txn)? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("others write the record of host {name} all the time")))
}

/// Refuses to take a host out that is there, unless with `force`, or where it is `me`: its containers would be cut
/// off. What a transaction that removes it expects of its record otherwise: one that cannot be read only has to be there.
///
/// # Errors
/// `NotFound` where there is no such host; `Conflict` where it is there.
pub fn refuse_removal(view: &View, name: &HostName, me: &HostName, force: bool) -> Result<Expect> {
    let expect = match view.epochs.get(name) {
        Some(at) => Expect::At(*at),
        None if view.is_damaged(name) => Expect::Present,
        None => {
            return Err(Error::not_found(format!("no host {name}; `spoke host ls` lists them")));
        }
    };
    match view.alive.contains(name) && name != me && !force {
        false => Ok(expect),
        true => Err(Error::conflict(format!(
            "the daemon of host {name} is there; run `spoke host remove {name}` on it, or cut its \
             containers off with --force"
        ))),
    }
}

/// Whether a host that is no member any more has blocks or addresses: its removal was not finished.
pub fn has_remains(view: &View, name: &HostName) -> bool {
    let is_member = view.hosts.contains_key(name) || view.is_damaged(name);
    let has_blocks = || view.blocks.values().any(|(holder, _)| holder == name);
    let has_pins = || view.pins.values().any(|(pin, _)| pin.host == *name);
    !is_member && (has_blocks() || has_pins())
}

/// Takes a host out of the cluster, with its endpoints and its blocks. One whose daemon is there only
/// with `force`, or where it is `me`: its containers would be cut off. A removal that was not finished is.
///
/// # Errors
/// `NotFound` where there is none; `Conflict` where it is there.
pub fn remove_host(
    cluster: &impl Cluster,
    name: &HostName,
    me: &HostName,
    force: bool,
) -> Result<()> {
    let mut unanswered = Unanswered::default();
    for race in 0..RACES {
        let view = cluster.read()?;
        let is_member = view.hosts.contains_key(name) || view.is_damaged(name);
        // Another host may have taken it out meanwhile, and not have come to its blocks yet.
        if (race > 0 && !is_member) || has_remains(&view, name) {
            return free(cluster, name);
        }
        let expect = refuse_removal(&view, name, me, force)?;
        let taken_out = take_out(cluster, &view, (name, expect));
        if let Outcome::Done(_) = unanswered.heed(taken_out)? {
            return free(cluster, name);
        }
    }
    Err(Error::try_again(format!("others write the record of host {name} all the time")))
}

/// Deletes a host that is as it was seen, with what goes with it.
fn take_out(
    cluster: &impl Cluster,
    view: &View,
    (name, expect): (&HostName, Expect),
) -> Result<Outcome> {
    // The host goes first: what of it is left then has no owner.
    let mut writes = vec![
        Write::Delete(Key::Host(name.clone())),
        Write::Delete(Key::Alive(name.clone())),
        Write::DeleteEndpointsOf(name.clone()),
    ];
    let tunnels = view.tunnels.keys().filter(|(host, _)| host == name);
    writes.extend(tunnels.map(|(host, turn)| Write::Delete(Key::Tunnel(host.clone(), *turn))));
    writes.extend(super::certificate::revoked(view, name));
    // One that was renewed since it was read would be worth something to a later host of that name.
    let mut txn = Txn {
        expect: vec![(Key::Host(name.clone()), expect)],
        no_certificate_since: Some((name.clone(), view.revision)),
        ..Txn::default()
    };
    let mut outcome = Outcome::Lost;
    for writes in writes.chunks(Txn::MOST) {
        txn.writes = writes.to_vec();
        outcome = cluster.commit(&std::mem::take(&mut txn))?;
        if outcome == Outcome::Lost {
            break;
        }
    }
    Ok(outcome)
}

/// Deletes the blocks and pins of a host that is no member any more. Another host may take one over between
/// two transactions: that one is left to it.
fn free(cluster: &impl Cluster, name: &HostName) -> Result<()> {
    let mut unanswered = Unanswered::default();
    for _ in 0..RACES {
        let view = cluster.read()?;
        if view.hosts.contains_key(name) {
            return Ok(());
        }
        let pins = view.pins.iter().filter(|(_, (pin, _))| pin.host == *name);
        let pins =
            pins.map(|((network, address), (_, at))| (Key::Pin(network.clone(), *address), *at));
        let blocks = view.blocks.iter().filter(|(_, (holder, _))| holder == name);
        let blocks =
            blocks.map(|((network, net), (_, at))| (Key::Block(network.clone(), *net), *at));
        let all: Vec<(Key, Revision)> = pins.chain(blocks).collect();
        if all.is_empty() {
            return Ok(());
        }
        for some in all.chunks(Txn::MOST) {
            let txn = some.iter().fold(Txn::default(), |txn, (key, at)| {
                txn.require(key.clone(), Expect::At(*at)).delete(key.clone())
            });
            unanswered.heed(cluster.commit(&txn))?;
        }
    }
    Err(Error::try_again(format!("others take the addresses of host {name} over; remove it again")))
}
