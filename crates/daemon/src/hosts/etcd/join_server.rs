//! The socket at which a host with the authority's key answers requests for certificates: TLS on a port of
//! its own, on the address of the cluster only.
//!
//! Everybody can connect to it. What is asked is one short line within ten seconds; few are answered at
//! a time, and who was refused a few times waits. A host that joins shows the secret of its token; the
//! others show their certificates.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster::enrollment::{self, PeerQuestion, wire};
use cluster::trust::{self, Authority, Files, PublicKey, Serial, Usage, Validity};
use cluster::{Cluster, View, book};
use host::time;
use model::{ClusterHost, Error, HostName, Kind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::etcd_upkeep::servers;
use crate::hosts::{Hosts, State};
use crate::{Daemon, STACK};

/// The TCP port.
pub(in crate::hosts) const DOOR: u16 = 23810;
/// So many are answered at a time; who comes then is sent away.
const AT_ONCE: usize = 8;
/// And so many of one address: a silent client does not hold the others up.
const OF_ONE: usize = 2;
/// How often one address may be refused before it has to wait.
const REFUSALS: u32 = 5;
/// How long it has to wait.
const WAIT: Duration = Duration::from_secs(10);
/// So many addresses are remembered.
const MOST_REFUSED: usize = 1024;
/// How often to look whether this host still has the key.
const GLANCE: Duration = Duration::from_secs(1);

/// Who was refused lately: how often, and when last.
#[derive(Default)]
struct Refused(Mutex<BTreeMap<IpAddr, (u32, Instant)>>);

impl Refused {
    fn waits(&self, address: IpAddr, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, last)| now.duration_since(*last) < WAIT);
        known.get(&address).is_some_and(|(count, _)| *count >= REFUSALS)
            || known.len() >= MOST_REFUSED
    }

    fn count(&self, address: IpAddr, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = known.entry(address).or_insert((0, now));
        (*count, *last) = (count.saturating_add(1), now);
    }
}

/// Who is being answered.
#[derive(Default)]
struct Busy(Mutex<BTreeMap<IpAddr, usize>>);

impl Busy {
    /// Takes a place; `None` where there is none for this address.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = all.get(&address).copied().unwrap_or(0);
        if of_one >= OF_ONE || all.values().sum::<usize>() >= AT_ONCE {
            return None;
        }
        all.insert(address, of_one + 1);
        Some(ConnectionSlot(Arc::clone(self), address))
    }
}

/// A place, until it is dropped.
struct ConnectionSlot(Arc<Busy>, IpAddr);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.remove(&self.1).unwrap_or(0).saturating_sub(1);
        if left > 0 {
            all.insert(self.1, left);
        }
    }
}

/// Opens the door while this host has the authority's key.
pub(in crate::hosts) fn keep(daemon: &Daemon, hosts: &Arc<Hosts>) {
    let mut failure = String::new();
    while !daemon.sleep(Duration::ZERO) {
        let Some(address) = hosts.door_address() else {
            hosts.wait(GLANCE, |state| door(state).is_some());
            continue;
        };
        let served = serve(daemon, hosts, address);
        hosts.set(|state| state.is_open = false);
        let Err(error) = served else { continue };
        // Said once: it is tried again all the time.
        if failure != error.to_string() {
            daemon.journal.failed("letting hosts join", &error);
            failure = error.to_string();
        }
        daemon.sleep(GLANCE);
    }
}

fn serve(daemon: &Daemon, hosts: &Arc<Hosts>, address: IpAddr) -> Result<()> {
    let failed =
        |cause| Error::os(format!("listening at {}", SocketAddr::new(address, DOOR)), cause);
    let listener = TcpListener::bind((address, DOOR)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    hosts.set(|state| state.is_open = true);
    let (busy, refused) = (Arc::new(Busy::default()), Arc::new(Refused::default()));
    let glance = Timespec::try_from(GLANCE).ok();
    while !daemon.sleep(Duration::ZERO) && hosts.door_address() == Some(address) {
        // A signal is no failure: what is there is accepted below.
        let _ = poll(&mut [PollFd::new(&listener, PollFlags::IN)], glance.as_ref());
        let Ok((stream, from)) = listener.accept() else { continue };
        if refused.waits(from.ip(), Instant::now()) {
            continue;
        }
        let Some(place) = busy.enter(from.ip()) else { continue };
        let life = daemon.context_pool.config().hosts.certificate_seconds;
        let (hosts, refused) = (Arc::clone(hosts), Arc::clone(&refused));
        let work = move || {
            if !matches!(hosts.answer(stream, life), Ok(true)) {
                refused.count(from.ip(), Instant::now());
            }
            drop(place);
        };
        let thread = std::thread::Builder::new().name("hosts-listen".to_owned());
        // Where there is no thread, the place is free again.
        let _ = thread.stack_size(STACK).spawn(work);
    }
    Ok(())
}

/// At which address hosts are let in, if here.
fn door(state: &State) -> Option<IpAddr> {
    let member = state.member.as_ref().filter(|member| member.own_etcd && state.signs)?;
    Some(member.address)
}

impl Hosts {
    fn door_address(&self) -> Option<IpAddr> {
        door(&self.lock())
    }

    fn answer(&self, stream: TcpStream, life: u32) -> Result<bool> {
        let files = self.files();
        stream.set_nonblocking(false).map_err(|cause| Error::os("answering a host", cause))?;
        let config = enrollment::server(
            &files.read(&files.authority_path())?,
            &files.read(&files.server_path())?,
        )?;
        PeerQuestion::answer(stream, config, |asked| self.open(&files, asked, life))
    }

    fn open(&self, files: &Files, asked: PeerQuestion, life: u32) -> Result<wire::Reply> {
        let authority = files.authority()?.ok_or_else(|| Error::try_again("no authority"))?;
        let (_, etcd) = self.heard()?;
        let signed = Signed { authority: &authority, life };
        if let wire::Ask::Join { id, secret, name, address, key } = &asked.ask {
            // One key is read before all of them are: anybody can ask.
            let by = String::from(key.clone());
            let shown = book::Shown { id, secret, by: &by };
            book::refuse_token(shown, etcd.token(id)?.as_ref(), time::now())?;
            let host = ClusterHost::new(*address, time::now());
            let (serial, certificate, record) = signed.sign(name, key)?;
            let until = record.expires;
            let certified = book::Certified { host: name, serial: &serial, record };
            let write = certified.clone().write();
            let joined = book::join_with(&etcd, shown, (name, &host), vec![write])?;
            if joined.is_again {
                book::certify_again(&etcd, &joined.view, certified, id)?;
            }
            return Ok(signed.reply(certificate, until, &joined.view, name));
        }
        let view = self.lock().view.clone().unwrap_or_default();
        let host = known(&view, asked.certificate.as_deref())?;
        match asked.ask {
            wire::Ask::Renew { key } => {
                let (serial, certificate, record) = signed.sign(&host, &key)?;
                let until = record.expires;
                book::certify(
                    &etcd,
                    &view,
                    book::Certified { host: &host, serial: &serial, record },
                    asked.certificate.as_deref(),
                )?;
                Ok(signed.reply(certificate, until, &view, &host))
            }
            wire::Ask::Authority => key_of(&etcd, &asked.certificate, |_| Ok(Some(authority))),
            wire::Ask::AuthorityOf { digest } => key_of(&etcd, &asked.certificate, |view| {
                let record = view.authority.as_ref().map(|(record, _)| record);
                let next = record.map(|record| files.next(&record.next)).transpose()?;
                let both = [Some(authority), next.flatten()];
                Ok(both.into_iter().flatten().find(|known| known.digest() == digest))
            }),
            wire::Ask::Join { .. } => Err(Error::bug("a host that joins shows no certificate")),
        }
    }
}

/// What certificates are made with.
struct Signed<'a> {
    authority: &'a Authority,
    life: u32,
}

impl Signed<'_> {
    fn sign(
        &self,
        name: &HostName,
        key: &PublicKey,
    ) -> Result<(Serial, String, trust::CertificateRecord)> {
        let serial = Serial::new()?;
        let validity = Validity { now: time::now(), life: self.life };
        let (certificate, record) =
            self.authority.sign(key, (name, Usage::Client), &serial, validity)?;
        Ok((serial, certificate, record))
    }

    fn reply(
        &self,
        certificate: String,
        until: model::Timestamp,
        view: &View,
        name: &HostName,
    ) -> wire::Reply {
        let authority = self.authority.certificate().to_owned();
        let servers = servers(view, name);
        wire::Reply::Certified(wire::Certified { certificate, authority, servers, until })
    }
}

/// An authority's key, for a host that runs a server of etcd. Who may have it is read of etcd anew: what was heard last may
/// be of before the host was removed.
fn key_of(
    etcd: &impl Cluster,
    shown: &Option<String>,
    meant: impl FnOnce(&View) -> Result<Option<Authority>>,
) -> Result<wire::Reply> {
    let view = etcd.read()?;
    let host = known(&view, shown.as_deref())?;
    if !view.servers.contains_key(&host) {
        return Err(Error::new(Kind::Denied, format!("host {host} runs no server of etcd")));
    }
    let missing = || Error::try_again("this host does not have that key");
    Ok(wire::Reply::Authority(meant(&view)?.ok_or_else(missing)?.key()))
}

/// Which member has shown a certificate: one that is known, and not revoked.
fn known(view: &View, shown: Option<&str>) -> Result<HostName> {
    let found = view.certificates.iter().find(|(_, record)| Some(&*record.digest) == shown);
    let found = found.map(|((host, _), _)| host).filter(|host| view.hosts.contains_key(host));
    found.cloned().ok_or_else(|| {
        Error::new(Kind::Denied, "this certificate is none of a member of the cluster")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_often_waits() {
        let (refused, now) = (Refused::default(), Instant::now());
        let [one, two] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        for _ in 0..REFUSALS {
            assert!(!refused.waits(one, now));
            refused.count(one, now);
        }
        assert!(refused.waits(one, now) && !refused.waits(two, now));
        assert!(!refused.waits(one, now + WAIT));
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let busy = Arc::new(Busy::default());
        let [one, two] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let places: Vec<Option<ConnectionSlot>> = (0..AT_ONCE).map(|_| busy.enter(one)).collect();
        assert_eq!(places.iter().flatten().count(), OF_ONE);
        assert!(busy.enter(two).is_some());
        drop(places);
        assert!(busy.0.lock().unwrap().is_empty() && busy.enter(one).is_some());
        let all = (0..=AT_ONCE as u8).map(|last| busy.enter(IpAddr::from([192, 0, 3, last])));
        let all: Vec<Option<ConnectionSlot>> = all.collect();
        assert_eq!(all.iter().flatten().count(), AT_ONCE);
    }

    #[test]
    fn many_addresses_are_not_remembered_without_end() {
        let (refused, now) = (Refused::default(), Instant::now());
        for address in 0..MOST_REFUSED as u32 {
            refused.count(std::net::Ipv4Addr::from(address).into(), now);
        }
        assert!(refused.waits(IpAddr::from([192, 0, 2, 1]), now));
        assert!(!refused.waits(IpAddr::from([192, 0, 2, 1]), now + WAIT));
    }
}
