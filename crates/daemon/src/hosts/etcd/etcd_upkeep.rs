//! The cluster's own etcd, kept as it has to be: which hosts run its servers, whose certificates are worth
//! something, and by which servers this host asks.
//!
//! One host or two have one server: with two, the loss of either would stop both. As soon as three hosts
//! are up, there are three servers, so that one of them can be lost. They come one after another, and each
//! has no vote before it has what the others have: so no vote is ever missing that the others need.

mod authority;
mod grow;
mod renew;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use cluster::enrollment::{ask_with, wire};
use cluster::trust::{Authority, Files, Standing, Usage};
use cluster::{AliveRecord, Etcd, Revision, Url, View, book};
use host::cluster_health;
use host::time;
use host::time::rfc3339;
use model::{ClusterHost, Error, HostName, Kind, Result, Timestamp};

use super::join_server::DOOR;
use super::own::{certify_self, record};
use super::server::{self, Server};
use crate::Daemon;
use crate::hosts::Hosts;
use crate::hosts::member::Member;
use grow::Chosen;
use renew::RenewalPause;

/// How often everything is looked at, whatever is heard.
const PERIOD: Duration = Duration::from_secs(3);
/// How often the server of this host is looked at.
const GLANCE: Duration = Duration::from_secs(1);
/// How often the metrics are refreshed.
const MEASURE: Duration = Duration::from_secs(5);
/// How long the hosts that sign may take in all: the lease, which this thread renews, is not to end meanwhile.
const SIGN: Duration = Duration::from_secs(4);
/// A server that has to begin anew waits for so long for each that does so before: not all at once.
const TURN: Duration = Duration::from_secs(5);

/// How many there were of what is looked at at once, and which change of the authority.
type TendedCounts = (usize, usize, usize, usize, Option<Revision>);

/// What was seen last.
#[derive(Default)]
pub(in crate::hosts) struct Tended {
    at: Option<Instant>,
    seen: TendedCounts,
    /// Since when this host has the certificate that the session shows.
    shown: Option<Timestamp>,
    /// Whether etcd is installed here, as the session says; nothing where the cluster's etcd is not its own.
    has_etcd: Option<bool>,
    /// What it says of the authorities that this host knows.
    standing: Option<Standing>,
    failure: String,
    rest: RenewalPause,
    signing_rest: RenewalPause,
    chosen: Chosen,
}

impl Tended {
    /// Before a session: with which certificate it is held.
    pub(in crate::hosts) fn begin(&mut self, hosts: &Hosts, member: &Member) -> Result<()> {
        let Self { failure, rest, signing_rest, mut chosen, .. } = std::mem::take(self);
        chosen.begin();
        *self = Self { failure, rest, signing_rest, chosen, ..Self::default() };
        if !member.own_etcd {
            return Ok(());
        }
        self.has_etcd = Some(Server::program().is_ok());
        // What is wrong with the files is said where they are used.
        self.standing = hosts.standing().ok();
        let files = hosts.files();
        let Some(own) = files.own(&files.host_path())? else { return Ok(()) };
        self.shown = Some(own.since);
        match own.until < time::now() {
            true => Err(Error::new(
                Kind::Denied,
                format!(
                    "the certificate of this host ended at {}; remove it with `spoke host remove {}` on \
                     another one, and join it again",
                    rfc3339(own.until),
                    member.name
                ),
            )),
            false => Ok(()),
        }
    }

    /// What the session says of this host.
    pub(in crate::hosts) fn alive(&self) -> AliveRecord {
        AliveRecord::new(self.has_etcd, self.standing.clone())
    }

    /// Does what is to be done; whether the session has to begin anew.
    pub(in crate::hosts) fn tend(
        &mut self,
        (daemon, hosts): (&Daemon, &Hosts),
        (etcd, view): (&Etcd, &View),
        member: &Member,
    ) -> Result<bool> {
        let (servers, revoked) = (view.servers.len(), view.revoked.len());
        let authority = view.authority.as_ref().map(|(_, at)| *at);
        let seen = (servers, revoked, view.alive.len(), view.hosts.len(), authority);
        if self.seen == seen && self.at.is_some_and(|at| at.elapsed() < PERIOD) {
            return Ok(false);
        }
        (self.at, self.seen) = (Some(Instant::now()), seen);
        book::raise_layout(etcd, view)?;
        if !member.own_etcd {
            return Ok(false);
        }
        let work = Work { hosts, files: hosts.files(), etcd, view, member };
        let life = daemon.context_pool.config().hosts.certificate_seconds;
        let done = work.all(life, &mut self.chosen).and_then(|()| work.renew(&mut self.rest));
        let done = done.and(work.follow_authority(life, &mut self.signing_rest));
        let failed = match done {
            Ok(()) => self.chosen.note().map(Error::try_again),
            Err(error) => Some(error),
        };
        let failure = failed.as_ref().map(ToString::to_string).unwrap_or_default();
        if let Some(error) = failed.filter(|_| self.failure != failure) {
            daemon.journal.failed("the cluster's own etcd", &error);
        }
        self.failure.clone_from(&failure);
        hosts.set(|state| state.untended = Some(failure).filter(|failure| !failure.is_empty()));
        let own = work.files.own(&work.files.host_path())?;
        let is_other = own.map(|own| own.since) != self.shown
            || self.has_etcd != Some(Server::program().is_ok())
            || self.standing != hosts.standing().ok();
        Ok(work.follow()? || is_other)
    }
}

/// What is at hand.
struct Work<'a> {
    hosts: &'a Hosts,
    files: Files,
    etcd: &'a Etcd,
    view: &'a View,
    member: &'a Member,
}

impl Work<'_> {
    fn all(&self, life: u32, chosen: &mut Chosen) -> Result<()> {
        if self.view.servers.contains_key(&self.member.name) && !self.hosts.server.is_set_up() {
            self.become_server(life)?;
        }
        if let Some(authority) = self.files.authority()? {
            book::revoke_strays(self.etcd, self.view)?;
            self.revoke(&authority, life)?;
            self.record_own()?;
            book::advance_rotation(self.etcd, self.view)?;
            if self.hosts.server.is_set_up() && self.is_taken_out()? {
                return self.end_server();
            }
            self.grow(chosen)?;
            return book::prune(self.etcd, self.view, time::now(), life);
        }
        Ok(())
    }

    /// Those who sign certificates, this host left out.
    fn doors(&self) -> impl Iterator<Item = SocketAddr> {
        let others = self.view.servers.keys().filter(|name| **name != self.member.name);
        let hosts = others.filter_map(|name| self.view.hosts.get(name));
        hosts.map(|host| SocketAddr::new(host.address, DOOR))
    }

    fn ask(&self, ask: &wire::Ask) -> Result<wire::Reply> {
        let files = &self.files;
        let (authority, own) =
            (files.read(&files.authority_path())?, files.read(&files.host_path())?);
        let mut failure = Error::try_again("no host of the cluster signs certificates");
        let (doors, end) = (self.doors().collect::<Vec<_>>(), Instant::now() + SIGN);
        for (at, left) in doors.iter().zip((1..=doors.len()).rev()) {
            // What one does not need is the others'.
            let limit = end.saturating_duration_since(Instant::now())
                / u32::try_from(left).unwrap_or(u32::MAX);
            match ask_with(*at, (&authority, &own), ask, limit) {
                Ok(reply) => return Ok(reply),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// This host was chosen: it gets the authority's key, and runs one more server.
    fn become_server(&self, life: u32) -> Result<()> {
        Server::program()?;
        let authority = match self.files.authority()? {
            Some(authority) => authority,
            None => {
                let wire::Reply::Authority(key) = self.ask(&wire::Ask::Authority)? else {
                    return Err(Error::bug(
                        "unexpected answer to a request for the authority's key",
                    ));
                };
                let certificate = self.files.read(&self.files.authority_path())?;
                Authority::read(&certificate, &key)?
            }
        };
        let (name, address) = (&self.member.name, self.member.address);
        self.files.keep_key(&authority)?;
        self.hosts.renew_own(life)?;
        self.files.write_revocations(&authority, &self.view.revoked, time::now())?;
        let own = server::peer(address);
        let mut others = self.etcd.servers()?;
        others.retain(|server| server.peer != own);
        self.hosts.server.set_up((name, address), &self.files, &others)?;
        self.hosts.server.start()?;
        self.hosts.set(|state| state.signs = true);
        Ok(())
    }

    /// What this host has signed itself is known too.
    fn record_own(&self) -> Result<()> {
        for path in [self.files.host_path(), self.files.server_path()] {
            let Some(own) = self.files.own(&path)? else { continue };
            let Some(serial) = &own.serial else { continue };
            if !self.view.certificates.contains_key(&(self.member.name.clone(), serial.clone())) {
                record(self.etcd, &self.member.name, &own)?;
            }
        }
        Ok(())
    }

    /// Takes over which certificates are worth nothing. What was heard once stays until its end: an etcd
    /// that has an older state than before may have forgotten it.
    fn revoke(&self, authority: &Authority, life: u32) -> Result<()> {
        let (now, known) = (time::now(), self.files.revocations()?);
        let mut all = known.clone();
        all.extend(self.view.revoked.clone());
        all.retain(|_, until| !book::is_past(*until, now, life));
        if all == known {
            return Ok(());
        }
        let is_more =
            all.iter().any(|(serial, until)| *until >= now && !known.contains_key(serial));
        let write = || self.files.write_revocations(authority, &all, now);
        // A connection that is there already is not looked at again, unless etcd begins anew.
        if is_more { self.with_restart(write) } else { write() }
    }

    /// Writes what this host's server of etcd takes over when it begins anew, and has it do so in its turn.
    fn with_restart(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.hosts.server.is_set_up() {
            return write();
        }
        let before = self.view.servers.keys().take_while(|name| **name != self.member.name);
        let wait = TURN * u32::try_from(before.count()).unwrap_or(0);
        let restart_in = |wait| self.hosts.set(|state| state.restart = Some(Instant::now() + wait));
        // Not before it is written; and also where the daemon ends before.
        restart_in(wait + TURN);
        self.hosts.server.want_restart()?;
        write()?;
        restart_in(wait);
        Ok(())
    }

    /// Whether etcd has servers of other hosts, and none of this one any more: one that was taken out never comes
    /// back with its data. Where etcd was restored with a peer of another name, that one is the only server.
    fn is_taken_out(&self) -> Result<bool> {
        let peers: BTreeSet<String> =
            self.etcd.servers()?.into_iter().map(|server| server.peer).collect();
        let has = |host: &ClusterHost| peers.contains(&server::peer(host.address));
        let is_own = peers.contains(&server::peer(self.member.address));
        Ok(!is_own && self.view.hosts.values().any(has))
    }

    /// The server of this host goes with its data; as one without it may become one again. The record goes last,
    /// so that no new one is made before.
    fn end_server(&self) -> Result<()> {
        self.hosts.server.remove()?;
        book::forget_server(self.etcd, &self.member.name)
    }

    /// Asks the servers that there are; whether those are others than before.
    fn follow(&self) -> Result<bool> {
        let servers = servers(self.view, &self.member.name);
        let set = |urls: &[Url]| urls.iter().cloned().collect::<BTreeSet<Url>>();
        if servers.is_empty() || set(&servers) == set(&self.member.etcd) {
            return Ok(false);
        }
        let member = Member { etcd: servers, ..self.member.clone() };
        member.write(&self.hosts.place)?;
        self.hosts.set(|state| state.member = Some(member));
        Ok(true)
    }
}

/// The servers that have a vote, that of `me` first.
pub(in crate::hosts) fn servers(view: &View, me: &HostName) -> Vec<Url> {
    let voters = view.servers.iter().filter(|(_, server)| server.voter);
    let mut voters: Vec<&HostName> = voters.map(|(name, _)| name).collect();
    voters.sort_by_key(|name| *name != me);
    let hosts = voters.into_iter().filter_map(|name| view.hosts.get(name));
    hosts.filter_map(|host| server::client(host.address).parse().ok()).collect()
}

/// Takes a host's server out of etcd, before the host itself is removed; by the servers that stay, with which
/// it goes on. Nothing is done of a removal that is refused.
pub(in crate::hosts) fn retire(member: &Member, name: &HostName, force: bool) -> Result<Etcd> {
    let etcd = member.etcd()?;
    if !member.own_etcd {
        return Ok(etcd);
    }
    let view = cluster::Cluster::read(&etcd)?;
    if book::has_remains(&view, name) {
        // Its server went first.
        return Ok(etcd);
    }
    book::refuse_removal(&view, name, &member.name, force)?;
    let Some(address) = server_of(&etcd, &view, name)? else { return Ok(etcd) };
    let (own, peer) = (server::client(address), server::peer(address));
    let mut others = member.clone();
    others.etcd.retain(|url| url.to_string() != own);
    match others.etcd.is_empty() {
        true if view.hosts.keys().all(|host| host == name) => return Ok(etcd),
        true => {
            return Err(Error::conflict(format!(
                "host {name} runs the cluster's only server of etcd: remove the other hosts first"
            )));
        }
        false => {}
    }
    let etcd = others.etcd()?;
    let found = etcd.servers()?.into_iter().find(|server| server.peer == peer);
    if let Some(server) = found {
        etcd.remove_server(server.id)?;
    }
    Ok(etcd)
}

/// Where the server of a host is, if it has one. Where the host's record cannot be read, etcd's own list says it.
fn server_of(etcd: &Etcd, view: &View, name: &HostName) -> Result<Option<IpAddr>> {
    if let Some(host) = view.hosts.get(name) {
        return Ok(view.servers.contains_key(name).then_some(host.address));
    }
    let found = etcd.servers()?.into_iter().find(|server| server.name == name.as_str());
    Ok(found.and_then(|server| server::of_peer(&server.peer)))
}

/// The metrics have how its certificates and its server are. What cannot be read is left to `spoke doctor`.
fn measure(daemon: &Daemon, hosts: &Hosts) {
    let Some(state) = hosts.place.parent() else { return };
    let certificates = cluster_health::certificates(state).unwrap_or_default();
    daemon.journal.metrics.standing(&certificates, cluster_health::etcd_serves(state));
}

/// Keeps this host's server running, with certificates that are worth something.
pub(in crate::hosts) fn run(daemon: &Daemon, hosts: &Hosts) {
    let mut failure = String::new();
    if let Err(error) = hosts.server.start() {
        daemon.journal.failed("starting the cluster's etcd", &error);
    }
    let mut measured: Option<Instant> = None;
    while !daemon.sleep(GLANCE) {
        if measured.is_none_or(|measured| measured.elapsed() >= MEASURE) {
            measure(daemon, hosts);
            measured = Some(Instant::now());
        }
        let due = {
            let mut state = hosts.lock();
            match state.restart {
                Some(at) if at <= Instant::now() => state.restart.take().is_some(),
                Some(_) => false,
                // An earlier daemon wanted it, or it has failed.
                None => hosts.server.wants_restart(),
            }
        };
        let life = daemon.context_pool.config().hosts.certificate_seconds;
        let done = hosts.renew_own(life).and_then(|()| match due {
            true => hosts.server.restart(),
            false => hosts.server.keep(),
        });
        let text = done.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if let Err(error) = done
            && text != failure
        {
            daemon.journal.failed("running the cluster's etcd", &error);
        }
        failure = text;
    }
}

impl Hosts {
    /// A host with the authority's key signs its certificates itself: etcd needs one to begin with.
    fn renew_own(&self, life: u32) -> Result<()> {
        let is_due = |files: &Files, path: &Path| {
            Ok(files.own(path)?.is_none_or(|own| own.is_due(time::now())))
        };
        self.sign_due(life, is_due).map(drop)
    }

    /// Signs those of this host's certificates that `is_due` names; whether there was one. The host's goes last:
    /// by it others know that both are there.
    fn sign_due(&self, life: u32, is_due: impl Fn(&Files, &Path) -> Result<bool>) -> Result<bool> {
        let _signing = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
        let member = self.lock().member.clone().filter(|member| member.own_etcd);
        let Some(member) = member else { return Ok(false) };
        let files = self.files();
        let Some(authority) = files.authority()? else { return Ok(false) };
        let mut has_signed = false;
        for (path, usage) in [
            (files.server_path(), Usage::Server(member.address)),
            (files.host_path(), Usage::Client),
        ] {
            if is_due(&files, &path)? {
                certify_self(&files, &authority, (&member.name, usage), life)?;
                has_signed = true;
            }
        }
        Ok(has_signed)
    }
}
