//! What the command line asks.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use cluster::{Etcd, JoinToken, Url, book};
use model::{ClusterHost, Error, HostName, Ipv4Net, Kind, NetworkName, Result, SharedNetwork};
use netlink::Socket;
use overlay::Overlay;

use super::member::{self, Member};
use super::{Hosts, State};
use crate::cli::time::rfc3339;
use crate::host;
use crate::hosts::{self, Ask, HostView, HostsView, Me, Reply, Wanted};
use crate::serve::Daemon;

/// How long a command may take to say what it wants.
const LIMIT: Duration = Duration::from_secs(5);
/// How long to wait after a failure to accept.
const PAUSE: Duration = Duration::from_millis(100);
/// How long to wait until all hosts have a new network.
const EVERYWHERE: Duration = Duration::from_secs(10);

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
                let etcd = token.etcd.clone();
                self.enter(me, etcd, |etcd, name, host| book::join(etcd, &token, name, host))
                    .map(|()| Reply::Done)
            }
            Ask::Hosts => self.list().map(Reply::Hosts),
            Ask::Remove { name, force } => {
                let (member, etcd) = self.connected()?;
                match book::remove_host(&etcd, &name, &member.name, force) {
                    // etcd lost its data, and so nobody says to this host that it was removed.
                    Err(error) if error.kind() == Kind::NotFound && name == member.name => {
                        self.set(|state| state.leaving = true);
                        self.nudge();
                    }
                    removed => removed?,
                }
                Ok(Reply::Done)
            }
            Ask::CreateToken { seconds } => self.create_token(seconds),
            Ask::Tokens => {
                let (_, etcd) = self.connected()?;
                let tokens = cluster::Cluster::read(&etcd)?.tokens.into_iter();
                Ok(Reply::Tokens(tokens.map(|(id, (token, _))| (id, token.expires)).collect()))
            }
            Ask::RemoveToken { id } => {
                book::remove_token(&self.connected()?.1, &id).map(|()| Reply::Done)
            }
            Ask::CreateNetwork(wanted) => self.create_network(*wanted),
            Ask::RemoveNetwork { name } => self.remove_network(&name),
            Ask::RotateKeys => book::rotate_keys(&self.heard()?.1).map(|()| Reply::Done),
            Ask::Check => self.check(),
            Ask::Pin { network, address, by } => self.pin(daemon, (&network, address), &by),
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
        let member = Member { name, address, etcd, access };
        overlay::underlay_mtu(member.address, &mut Socket::route()?)?;
        let host = ClusterHost { address: member.address, since: host::now() };
        let etcd = member.etcd()?;
        member.write(&self.place)?;
        if let Err(error) = how(&etcd, &member.name, &host) {
            Member::forget(&self.place)?;
            return Err(error);
        }
        self.set(|state| state.member = Some(member));
        self.nudge();
        match self.wait(LIMIT, |state| state.view.is_some()) {
            true => Ok(()),
            false => Err(Error::try_again(
                "this host is a member now, and does not hear from the cluster yet; see `spoke host ls`",
            )),
        }
    }

    fn connected(&self) -> Result<(Member, Etcd)> {
        let member = self.lock().member.clone().ok_or_else(no_member)?;
        let etcd = member.etcd()?;
        Ok((member, etcd))
    }

    /// The same, while the cluster is heard of: an etcd that lost its data takes what is written to it.
    pub(super) fn heard(&self) -> Result<(Member, Etcd)> {
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
        let token = JoinToken::new(member.etcd)?;
        let now = host::now();
        book::create_token(&etcd, &token, now, seconds)?;
        let expires = model::Timestamp(now.0.saturating_add(seconds.into()));
        Ok(Reply::Token { token: token.text()?, expires })
    }

    fn create_network(&self, wanted: Wanted) -> Result<Reply> {
        let (member, etcd) = self.heard()?;
        let underlay = overlay::underlay_mtu(member.address, &mut Socket::route()?)?;
        if wanted.encrypt {
            overlay::refuse_clear(&wanted.name)?;
        }
        let most = Overlay::mtu_within(underlay, wanted.encrypt);
        let mtu = wanted.mtu.or(most).ok_or_else(|| {
            Error::invalid(format!("{} is on a device with an MTU of {underlay}", member.address))
        })?;
        if most.is_none_or(|most| mtu.bytes() > most.bytes()) {
            return Err(Error::invalid(format!(
                "MTU {mtu} does not fit: the device with {} has {underlay}, of which VXLAN{} takes {}",
                member.address,
                if wanted.encrypt { " in WireGuard" } else { "" },
                overlay::overhead(wanted.encrypt)
            )));
        }
        let Wanted { name, subnet, block, hosts, encrypt: encrypted, .. } = wanted;
        let since = host::now();
        let name_of = name.clone();
        let declared =
            book::Declared { name: name_of, subnet, block, mtu, hosts, encrypted, since };
        let network = book::declare(&etcd, &declared)?;
        // Who is there is asked of etcd: what this host has heard may be older.
        let mut there = cluster::Cluster::read(&etcd)?.alive;
        there.insert(member.name);
        there.retain(|host| network.hosts.has(host));
        self.wait(EVERYWHERE, |state| {
            state.failures.contains_key(&name) || missing(state, &name, &there).is_empty()
        });
        let state = self.lock();
        let (missing, failure) =
            (missing(&state, &name, &there), state.failures.get(&name).cloned());
        Ok(Reply::Network { network, missing, failure })
    }

    /// Ends it for all hosts, and waits until this one has no more of it.
    fn remove_network(&self, name: &NetworkName) -> Result<Reply> {
        let (_, etcd) = self.heard()?;
        book::remove_network(&etcd, name)?;
        // A host that is lost gives its blocks up when it is back.
        let is_gone = |state: &State| {
            state.view.as_ref().is_some_and(|view| {
                let mut holders = view.blocks.iter().filter(|((of, _), _)| of == name);
                let is_held = holders.any(|(_, holder)| view.alive.contains(holder));
                !view.networks.contains_key(name) && (state.failures.contains_key(name) || !is_held)
            })
        };
        self.wait(EVERYWHERE, is_gone);
        match self.lock().failures.get(name) {
            Some(failure) => Err(Error::conflict(failure.clone())),
            None => Ok(Reply::Done),
        }
    }

    fn list(&self) -> Result<HostsView> {
        let state = self.lock();
        let member = state.member.as_ref().ok_or_else(no_member)?;
        let lost = state.lost.clone();
        let Some(view) = &state.view else {
            return Ok(HostsView { lost, ..HostsView::default() });
        };
        let hosts = view.hosts.iter().map(|(name, host)| {
            let blocks: std::collections::BTreeMap<_, _> = view
                .networks
                .keys()
                .map(|network| (network, joined(view.blocks_of(network, name))))
                .filter(|(_, blocks)| !blocks.is_empty())
                .collect();
            let is_container = |network: &NetworkName, address| {
                view.networks.get(network).is_none_or(|network| !network.is_gateway(address))
            };
            let own = view
                .endpoints
                .keys()
                .filter(|(of, network, address)| of == name && is_container(network, *address));
            HostView {
                name: name.to_string(),
                address: host.address.to_string(),
                state: if view.alive.contains(name) { "up" } else { "lost" }.to_owned(),
                own: *name == member.name,
                containers: own.count(),
                blocks: blocks
                    .into_iter()
                    .map(|(name, blocks)| (name.to_string(), blocks))
                    .collect(),
            }
        });
        Ok(HostsView { hosts: hosts.collect(), lost, notes: notes(&state) })
    }
}

fn joined(blocks: impl Iterator<Item = Ipv4Net>) -> String {
    blocks.map(|block| block.to_string()).collect::<Vec<_>>().join(" ")
}

fn notes(state: &State) -> Vec<String> {
    let damaged = state.view.iter().flat_map(|view| &view.damaged);
    let damaged = damaged.map(|(key, why)| format!("not used, {key}: {why}"));
    // Most sentences name the network themselves.
    let failures = state.failures.iter().map(|(name, why)| match why.contains(name.as_str()) {
        true => why.clone(),
        false => format!("network {name}: {why}"),
    });
    let refused = state.refused.iter().map(|why| format!("not used, {why}"));
    let all = failures.chain(state.broken.iter().cloned()).chain(refused).chain(damaged);
    let mut seen = BTreeSet::new();
    all.filter(|note| seen.insert(note.clone())).collect()
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

pub(super) fn no_member() -> Error {
    Error::not_found(
        "this host is in no cluster; make one with `spoke host init --etcd URL`, or join one with \
         `spoke host join TOKEN`",
    )
}
