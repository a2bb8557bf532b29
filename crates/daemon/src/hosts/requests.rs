//! The answers to the command line about hosts, and to processes of this host that attach containers.

pub(super) mod check;
mod drain;
mod follow;
mod list;
mod pin;
mod remove;
mod routes;
mod rtt;

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use cluster::book::{self, Subnet6, Subnets};
use cluster::{Etcd, JoinToken, Url, View};
use host::hosts::{self, Ask, Me, Reply, SharedNetworkSpec};
use host::time::{self, rfc3339};
use model::{
    ClusterHost, Error, HostName, Kind, Mtu, NetworkName, Result, SharedNetwork, Transport,
};
use netlink::Socket;
use overlay::Overlay;

use super::links::near;
use super::member::{self, Member};
use super::{Hosts, State, engines};
use crate::Daemon;

/// How long a command may take to say what it wants.
const LIMIT: Duration = Duration::from_secs(5);
/// So many commands are answered at a time on a host of a cluster; others wait for one of them.
pub(super) const AT_ONCE: usize = 16;
/// How long to wait after a failure to accept.
const PAUSE: Duration = Duration::from_millis(100);
/// How long to wait until all hosts have a new network.
const EVERYWHERE: Duration = Duration::from_secs(10);
/// How long a daemon that has just started may take to hear of the cluster.
const BEGIN: Duration = Duration::from_secs(5);
/// How long to wait until no host has a network any more.
const NOWHERE: Duration = Duration::from_secs(20);

/// Answers one after the other; several threads do so: etcd or another host may be slow for one command.
pub(super) fn serve(daemon: &Daemon, hosts: &Hosts, listener: &UnixListener) {
    while !daemon.sleep(Duration::ZERO) {
        match listener.accept() {
            // A command that went away needs no answer.
            Ok((mut stream, _)) => {
                drop(hosts::answer(&mut stream, LIMIT, |ask| hosts.carry(daemon, ask)))
            }
            Err(_) => drop(daemon.sleep(PAUSE)),
        }
    }
}

impl Hosts {
    fn carry(&self, daemon: &Daemon, ask: Ask) -> Result<Reply> {
        match ask {
            Ask::Init { etcd, me } => {
                self.refuse_member()?;
                if etcd.is_empty() {
                    return self.begin(daemon, me).map(|()| Reply::Done);
                }
                let server = etcd.first().ok_or_else(|| Error::invalid("no etcd is named"))?;
                if server.address()?.is_loopback() {
                    return Err(Error::invalid(format!(
                        "no other host reaches {server}; name etcd by an address that all hosts reach"
                    )));
                }
                self.enter(me, etcd, book::form).map(|()| Reply::Done)
            }
            Ask::Join { token, me } => {
                self.refuse_member()?;
                let token = JoinToken::read(&token)?;
                if let Some(door) = &token.door {
                    return self.join_by(door, &token, me).map(|()| Reply::Done);
                }
                let etcd = token.etcd.clone();
                self.enter(me, etcd, |etcd, name, host| book::join(etcd, &token, name, host))
                    .map(|()| Reply::Done)
            }
            Ask::Hosts => self.list().map(Reply::Hosts),
            Ask::Remove { name, force } => self.remove(daemon, &name, force).map(|()| Reply::Done),
            Ask::Drain { name, undo } => self.drain(name, !undo),
            Ask::Label { name, labels, remove } => self.label(&name, &labels, &remove),
            Ask::CreateToken { seconds } => self.create_token(seconds),
            Ask::Tokens => {
                let (_, etcd) = self.connected()?;
                let tokens = cluster::Cluster::read(&etcd)?.tokens.into_iter();
                let tokens = tokens.filter(|(_, (token, _))| token.used.is_none());
                Ok(Reply::Tokens(tokens.map(|(id, (token, _))| (id, token.expires)).collect()))
            }
            Ask::RemoveToken { id } => {
                book::remove_token(&self.connected()?.1, &id).map(|()| Reply::Done)
            }
            Ask::Names => Ok(Reply::Names(daemon.elsewhere.names().to_vec())),
            Ask::CreateNetwork(wanted) => {
                self.refuse_own(daemon, &wanted)?;
                self.create_network(*wanted)
            }
            Ask::RemoveNetwork { name } => self.remove_network(&name),
            Ask::RotateKeys => book::rotate_keys(&self.heard()?.1).map(|()| Reply::Done),
            Ask::RotateAuthority { without } => self.rotate_authority(&without),
            Ask::AbandonAuthority => self.abandon_authority(),
            Ask::Authority => self.authority_view(),
            Ask::AcceptOlder => self.accept_older(),
            Ask::Check => self.check(),
            Ask::Rtt => self.rtt(),
            Ask::Routes => self.routes(),
            Ask::Pin { network, address, by } => self.pin(daemon, (&network, address), &by),
            Ask::Follow { network, name } => self.follow(daemon, &network, &name),
        }
    }

    fn refuse_member(&self) -> Result<()> {
        match &self.lock().member {
            None => Ok(()),
            Some(member) => Err(Error::conflict(format!(
                "this host is a member of a cluster already, as {}; `spoke host remove {}` ends that",
                member.name, member.name
            ))),
        }
    }

    /// Becomes a member. The file comes first: a host that the cluster knows and that does not know it
    /// would have to be removed by hand.
    fn enter(
        &self,
        Me { name, address, access }: Me,
        etcd: Vec<Url>,
        how: impl FnOnce(&Etcd, &HostName, &ClusterHost) -> Result<()>,
    ) -> Result<()> {
        let server = etcd.first().ok_or_else(|| Error::invalid("no etcd is named"))?;
        let address = address.map_or_else(|| member::own_address(server), Ok)?;
        let member = Member { name, address, etcd, access, own_etcd: false };
        overlay::underlay_mtu(member.address, &mut Socket::route()?)?;
        let host = ClusterHost::new(member.address, time::now());
        let etcd = member.etcd()?;
        member.write(&self.place)?;
        if let Err(error) = how(&etcd, &member.name, &host) {
            Member::forget(&self.place)?;
            return Err(error);
        }
        self.enter_as(member)
    }

    /// This host is a member: waits until it hears from the cluster.
    pub(super) fn enter_as(&self, member: Member) -> Result<()> {
        self.serve_as(&member)?;
        self.set(|state| state.member = Some(member));
        self.nudge();
        match self.wait(LIMIT, |state| state.view.is_some()) {
            true => Ok(()),
            false => Err(Error::try_again(
                "this host is a member now, and does not hear from the cluster yet; see `spoke host ls`",
            )),
        }
    }

    /// Waits for a daemon that has just started, until it has heard of the cluster or found that it cannot.
    pub(super) fn wait_for_begin(&self) {
        self.wait(BEGIN, |state| !state.is_beginning());
    }

    pub(super) fn connected(&self) -> Result<(Member, Etcd)> {
        let member = self.lock().member.clone().ok_or_else(no_member)?;
        let etcd = member.etcd()?;
        Ok((member, etcd))
    }

    /// The same, while the cluster is heard of: an etcd that lost its data takes what is written to it. A daemon that has
    /// just started is waited for.
    pub(super) fn heard(&self) -> Result<(Member, Etcd)> {
        self.wait_for_begin();
        let lost = self.lock().lost.clone();
        match lost {
            Some((since, why)) => Err(Error::try_again(format!(
                "since {} the cluster is not heard of: {why}",
                rfc3339(since)
            ))),
            None => self.connected(),
        }
    }

    fn create_token(&self, seconds: u32) -> Result<Reply> {
        let (member, etcd) = self.heard()?;
        let door = self.door(&member, &cluster::Cluster::read(&etcd)?)?;
        let token = match door {
            Some(door) => JoinToken::at(door)?,
            None => JoinToken::new(member.etcd)?,
        };
        let now = time::now();
        book::create_token(&etcd, &token, now, seconds)?;
        let expires = model::Timestamp(now.0.saturating_add(seconds.into()));
        Ok(Reply::Token { token: token.text()?, expires })
    }

    /// What a command asks for, as it is declared.
    pub(super) fn declared(
        &self,
        member: &Member,
        wanted: SharedNetworkSpec,
    ) -> Result<book::Declared> {
        let underlay = overlay::underlay_mtu(member.address, &mut Socket::route()?)?;
        let (view, subnets) = (cluster::Cluster::read(&member.etcd()?)?, subnets(&wanted));
        let transport = near::transport(&view, member, (&wanted, &subnets))?;
        if wanted.encrypt {
            overlay::refuse_clear(&wanted.name, member.address)?;
        }
        let most = match transport {
            Transport::Route => Mtu::new(underlay),
            Transport::Vxlan | Transport::Other => {
                Overlay::mtu_within((member.address, underlay), wanted.encrypt)
            }
        };
        let mtu = wanted.mtu.or(most).ok_or_else(|| {
            Error::invalid(format!("{} is on a device with an MTU of {underlay}", member.address))
        })?;
        if most.is_none_or(|most| mtu.bytes() > most.bytes()) {
            let overhead = overlay::overhead(member.address, wanted.encrypt);
            let around = match (transport, wanted.encrypt) {
                (Transport::Route, _) => String::new(),
                (_, true) => format!(", of which VXLAN in WireGuard takes {overhead}"),
                (_, false) => format!(", of which VXLAN takes {overhead}"),
            };
            return Err(Error::invalid(format!(
                "MTU {mtu} does not fit: the device with {} has {underlay}{around}",
                member.address,
            )));
        }
        let SharedNetworkSpec {
            name,
            block,
            hosts,
            encrypt: encrypted,
            engines,
            names,
            sticky,
            rules,
            ..
        } = wanted;
        let since = time::now();
        Ok(book::Declared {
            name,
            subnets,
            block,
            mtu,
            hosts,
            encrypted,
            transport,
            engines,
            names,
            sticky,
            rules,
            since,
        })
    }

    pub(super) fn create_network(&self, wanted: SharedNetworkSpec) -> Result<Reply> {
        let (member, etcd) = self.heard()?;
        let (name, or_join) = (wanted.name.clone(), wanted.or_join);
        let declared = self.declared(&member, wanted)?;
        let network = match book::declare(&etcd, &declared) {
            Err(error) if or_join && error.kind() == Kind::Conflict => {
                joined(&cluster::Cluster::read(&etcd)?, &declared).ok_or(error)?
            }
            declared => declared?,
        };
        // Who is there is asked of etcd: what this host has heard may be older.
        let now = cluster::Cluster::read(&etcd)?;
        if or_join && !now.is_on(&network, &member.name) {
            return Err(Error::not_found(format!(
                "network {name} is on other hosts of the cluster, and not on this one"
            )));
        }
        let mut there = match or_join {
            // A container of this host is about to join it here.
            true => BTreeSet::new(),
            false => now.alive.clone(),
        };
        there.insert(member.name);
        there.retain(|host| now.is_on(&network, host));
        self.wait(EVERYWHERE, |state| {
            state.failures.contains_key(&name) || missing(state, &name, &there).is_empty()
        });
        let state = self.lock();
        let (missing, failure) =
            (missing(&state, &name, &there), state.failures.get(&name).cloned());
        let notes = engines::notes(&state, &name);
        if or_join && failure.is_none() && !missing.is_empty() {
            return Err(Error::try_again(format!(
                "network {name} is declared for the cluster, and this host has not made it yet; see `spoke host ls`"
            )));
        }
        Ok(Reply::Network { network, missing, failure, notes })
    }

    /// A host cannot have a network of the cluster beside one of its own with that name: that is found out before all others
    /// have it.
    fn refuse_own(&self, daemon: &Daemon, wanted: &SharedNetworkSpec) -> Result<()> {
        let name = &wanted.name;
        let (member, _) = self.heard()?;
        let is_here = match self.lock().view.as_ref().and_then(|it| it.hosts.get(&member.name)) {
            Some(own) => wanted.hosts.has(&member.name, own),
            None => true,
        };
        if !is_here {
            return Ok(());
        }
        let (refusal, known) = daemon.context_pool.with(|host_context| {
            let engine = host_context.engine();
            // One that only a runtime's file describes, which is what refuses it when it is made.
            let refusal = engine.records.refuse_shared(name);
            engine.records.networks().map(|known| (refusal, known))
        })?;
        // Another host may have declared it meanwhile. That it is the cluster's is written down before it is made here.
        if hosts::networks(&self.place).join(name.as_str()).exists() {
            return Ok(());
        }
        refusal?;
        let own = known.iter().find(|network| network.name == *name && network.stage.is_whole());
        own.map_or(Ok(()), |own| {
            Err(Error::conflict(format!(
                "this host has a network {name} of its own (runtime {}): nothing is declared for the cluster; choose \
                 another name, or remove that network first",
                own.runtime
            )))
        })
    }

    /// Ends it for all hosts, and waits until none has it any more.
    fn remove_network(&self, name: &NetworkName) -> Result<Reply> {
        let (_, etcd) = self.heard()?;
        match book::remove_network(&etcd, name) {
            // An earlier command has ended it, and hosts are still about to remove it.
            Err(error)
                if error.kind() == Kind::NotFound && !holders(&self.lock(), name).is_empty() => {}
            removed => removed?,
        }
        let is_gone = |state: &State| {
            let has = |view: &View| view.networks.contains_key(name);
            !state.view.as_ref().is_none_or(has)
                && (state.failures.contains_key(name) || holders(state, name).is_empty())
        };
        let is_done = self.wait(NOWHERE, is_gone);
        let state = self.lock();
        match state.failures.get(name) {
            Some(failure) => Err(Error::conflict(failure.clone())),
            None if is_done => Ok(Reply::Done),
            None => Err(Error::try_again(format!(
                "the cluster has no network {name} any more, and hosts still have it, {} among others; they remove \
                 it by themselves, and `spoke host ls` says what is in the way",
                holders(&state, name).into_iter().next().map_or("this one", HostName::as_str)
            ))),
        }
    }
}

/// Those of the hosts that have not said yet that they have the network.
fn missing(state: &State, name: &NetworkName, hosts: &BTreeSet<HostName>) -> Vec<HostName> {
    let Some(view) = &state.view else { return hosts.iter().cloned().collect() };
    let has = |host: &HostName| {
        view.blocks_of(name, host).any(|block| {
            let gateway = (host.clone(), name.clone(), SharedNetwork::gateway(&block));
            view.endpoints.contains_key(&gateway)
        })
    };
    hosts.iter().filter(|host| !has(host)).cloned().collect()
}

/// The hosts that have addresses of a network. One that is lost gives its blocks up when it is back.
fn holders<'a>(state: &'a State, name: &NetworkName) -> BTreeSet<&'a HostName> {
    let Some(view) = &state.view else { return BTreeSet::new() };
    let all = view.blocks.iter().filter(|((of, _), _)| of == name).map(|(_, (holder, _))| holder);
    all.filter(|holder| view.alive.contains(*holder)).collect()
}

/// The network that is there already, where it is of the wanted subnet and has the rules that are asked for.
fn joined(view: &View, wanted: &book::Declared) -> Option<SharedNetwork> {
    let there = view.networks.get(&wanted.name);
    let is_wanted = |there: &&SharedNetwork| match wanted.subnets {
        Subnets::V4(subnet) | Subnets::Both(subnet, _) => {
            subnet.is_none_or(|subnet| there.subnet == subnet.into())
        }
        Subnets::V6(Subnet6::Named(subnet)) => there.subnet == subnet.into(),
        Subnets::V6(Subnet6::Chosen(_)) => there.subnet.addr().is_ipv6(),
    };
    let is_ruled = |there: &&SharedNetwork| there.rules.satisfy(&wanted.rules);
    there.filter(is_wanted).filter(is_ruled).cloned()
}

/// One of IPv6 that is named alone is the only one.
fn subnets(wanted: &SharedNetworkSpec) -> Subnets {
    let chosen = || Subnet6::Chosen(host::site());
    match (wanted.subnet, wanted.subnet6.map(Subnet6::Named)) {
        (None, v6) if wanted.only_v6 => Subnets::V6(v6.unwrap_or_else(chosen)),
        (None, Some(v6)) if !wanted.ipv6 => Subnets::V6(v6),
        (v4, Some(v6)) => Subnets::Both(v4, v6),
        (v4, None) if wanted.ipv6 => Subnets::Both(v4, chosen()),
        (v4, None) => Subnets::V4(v4),
    }
}

pub(super) fn no_member() -> Error {
    Error::not_found(
        "this host is in no cluster; make one with `spoke host init`, or join one with \
         `spoke host join TOKEN`",
    )
}
