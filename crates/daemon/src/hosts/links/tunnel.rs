//! The keys of this host's tunnels: made here, kept in files that only the superuser may read, and sent to the others
//! as public keys.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use cluster::{Etcd, View, book};
use model::{Error, HostName, Kind, PublicKey, Result};
use overlay::{Outcome, PrivateKey, Tunnel};
use serde::{Deserialize, Serialize};

use crate::hosts::keep::Keeper;
use crate::hosts::member::{self, Member};

/// So long the older key is kept when every host has the newer one: each looks every three seconds which way to take.
const REST: Duration = Duration::from_secs(10);

/// What is in a file.
#[derive(Serialize, Deserialize)]
struct TunnelKeyFile {
    key: [u8; 32],
}

/// The tunnels that this host should have: to those of which it takes packets.
pub(in crate::hosts) fn wanted(
    view: &View,
    member: &Member,
    others: &BTreeSet<IpAddr>,
    place: &Path,
) -> Result<Vec<Tunnel>> {
    if !is_wanted(view, member) {
        return Ok(Vec::new());
    }
    let (turn, _) = view.key_turn;
    let mut tunnels = Vec::new();
    if let Some(before) = turn.checked_sub(1)
        && let Some(key) = read(place, before)?
    {
        tunnels.push(Tunnel { turn: before, key, peers: peers(view, others, before) });
    }
    let key = match read(place, turn)? {
        Some(key) => key,
        None => make(place, turn)?,
    };
    tunnels.push(Tunnel { turn, key, peers: peers(view, others, turn) });
    Ok(tunnels)
}

/// Whether this host has an encrypted network.
fn is_wanted(view: &View, member: &Member) -> bool {
    view.networks_of(&member.name).any(|(_, network)| network.encrypted)
}

fn peers(view: &View, others: &BTreeSet<IpAddr>, turn: u32) -> BTreeMap<Ipv4Addr, PublicKey> {
    let others = view.hosts.iter().filter(|(_, host)| others.contains(&host.address));
    // Between addresses of IPv6 there are no tunnels.
    let keys = others.filter_map(|(name, host)| match host.address {
        IpAddr::V4(address) => view.tunnels.get(&(name.clone(), turn)).map(|key| (address, *key)),
        IpAddr::V6(_) => None,
    });
    keys.collect()
}

impl Keeper<'_> {
    /// Tells the others this host's public keys, and forgets an older one when every host has a newer one.
    pub(in crate::hosts) fn settle_tunnels(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        outcome: &Outcome,
    ) -> Result<()> {
        if !is_wanted(view, member) {
            return self.forget_tunnels(etcd, view, member);
        }
        for (turn, key) in &outcome.keys {
            let name = (member.name.clone(), *turn);
            if view.tunnels.get(&name) != Some(key) {
                book::publish_key(etcd, (&member.name, *turn), *key)?;
                view.tunnels.insert(name, *key);
            }
        }
        let (turn, _) = view.key_turn;
        let own = view.tunnels.keys().filter(|(host, of)| *host == member.name && *of < turn);
        let older: Vec<u32> = own.map(|(_, of)| *of).collect();
        let known = outcome.known.get(&turn).cloned().unwrap_or_default();
        if older.is_empty() || !is_everywhere(view, member, turn, &known) {
            self.rotated = None;
            return Ok(());
        }
        if self.rotated.get_or_insert_with(Instant::now).elapsed() < REST {
            return Ok(());
        }
        for turn in older {
            book::forget_key(etcd, &member.name, turn)?;
            view.tunnels.remove(&(member.name.clone(), turn));
            member::remove(&self.hosts.place.join(file(turn)))?;
        }
        // Its device goes with the next comparison.
        self.hosts.nudge();
        Ok(())
    }

    /// A host without encrypted networks has no keys: no host waits for it when they are changed.
    fn forget_tunnels(&mut self, etcd: &Etcd, view: &mut View, member: &Member) -> Result<()> {
        self.rotated = None;
        let own = view.tunnels.keys().filter(|(host, _)| *host == member.name);
        for (host, turn) in own.cloned().collect::<Vec<_>>() {
            book::forget_key(etcd, &host, turn)?;
            view.tunnels.remove(&(host, turn));
        }
        forget(&self.hosts.place)
    }
}

/// Removes the keys of all turns.
pub(in crate::hosts) fn forget(place: &Path) -> Result<()> {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let turn = name.to_str().and_then(|name| name.strip_prefix("tunnel-"));
        let turn = turn.and_then(|rest| rest.strip_suffix(".json")?.parse::<u32>().ok());
        turn.map_or(Ok(()), |turn| member::remove(&place.join(file(turn))))?;
    }
    Ok(())
}

/// Whether every host that has a key has agreed with this one on the keys of this turn.
fn is_everywhere(view: &View, member: &Member, turn: u32, known: &BTreeSet<IpAddr>) -> bool {
    let hosts: BTreeSet<&HostName> = view.tunnels.keys().map(|(host, _)| host).collect();
    let mut others = hosts.into_iter().filter(|host| **host != member.name);
    // One whose daemon is stopped goes on with its older key.
    let is_late = |(host, of): &(HostName, u32)| {
        *of < turn && *host != member.name && view.hosts.contains_key(host)
    };
    let mut late = view.tunnels.keys().filter(|key| is_late(key));
    view.tunnels.contains_key(&(member.name.clone(), turn))
        && late.all(|(host, _)| view.alive.contains(host))
        && others
            .all(|host| view.hosts.get(host).is_none_or(|record| known.contains(&record.address)))
}

fn file(turn: u32) -> String {
    format!("tunnel-{turn}.json")
}

fn read(place: &Path, turn: u32) -> Result<Option<PrivateKey>> {
    let kept: Option<TunnelKeyFile> = member::read(&place.join(file(turn)))?;
    Ok(kept.map(|kept| PrivateKey::new(kept.key)))
}

fn make(place: &Path, turn: u32) -> Result<PrivateKey> {
    let key = random()?;
    member::write(place, &file(turn), &TunnelKeyFile { key })?;
    Ok(PrivateKey::new(key))
}

fn random() -> Result<[u8; 32]> {
    let (mut bytes, mut filled) = ([0; 32], 0);
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let more = rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty());
        match more {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                let what = "the kernel gives no random bytes";
                return Err(Error::new(Kind::Kernel, what).because(errno));
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use model::{ClusterHost, Timestamp};

    use super::*;

    #[test]
    fn an_older_key_goes_when_every_host_has_a_newer_one() {
        let (a, b): (HostName, HostName) = ("a".parse().unwrap(), "b".parse().unwrap());
        let address = IpAddr::from([192, 0, 2, 2]);
        let mut view = View::default();
        view.hosts.insert(b.clone(), ClusterHost::new(address, Timestamp(1)));
        for (host, turn) in [(&a, 0), (&a, 1), (&b, 0)] {
            view.tunnels.insert((host.clone(), turn), PublicKey::new([1; 32]));
        }
        let member = Member {
            name: a.clone(),
            address: [192, 0, 2, 1].into(),
            etcd: Vec::new(),
            access: cluster::Access::default(),
            own_etcd: false,
        };
        let none = BTreeSet::new();
        assert!(!is_everywhere(&view, &member, 1, &none));
        // Its kernel has both keys, and its daemon is stopped.
        assert!(!is_everywhere(&view, &member, 1, &BTreeSet::from([address])));
        view.alive.insert(b.clone());
        assert!(is_everywhere(&view, &member, 1, &BTreeSet::from([address])));
        view.hosts.remove(&b);
        assert!(is_everywhere(&view, &member, 1, &none));
    }

    #[test]
    fn a_key_is_kept_where_only_root_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let made = make(place.path(), 3).unwrap();
        assert_eq!(read(place.path(), 3).unwrap(), Some(made));
        let mode = std::fs::metadata(place.path().join(file(3))).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(place.path(), 4).unwrap(), None);
        std::fs::write(place.path().join("member.json"), "{}").unwrap();
        forget(place.path()).unwrap();
        assert_eq!(read(place.path(), 3).unwrap(), None);
        assert!(place.path().join("member.json").exists());
    }
}
