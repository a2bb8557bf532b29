//! Hosts without a data plane: what their daemons say to etcd and hear of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cluster::{Access, AliveRecord, Cluster, Etcd, LeaseId, Revision, Url, View, book};
use model::{
    ClusterHost, Error, HostName, IpNet, Mac, NetworkName, Result, SharedEndpoint, Timestamp,
};
use netlink::Netns;

use super::CONTAINERS;

/// How long a lease lasts here: it is renewed only to be measured.
const LEASE: u32 = 600;
/// A change that has not come to a host after this long never does.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The hosts.
pub(super) struct Crowd {
    etcd: Etcd,
    network: NetworkName,
    hosts: Vec<Simulated>,
    url: Url,
}

struct Simulated {
    name: HostName,
    lease: LeaseId,
    block: IpNet,
    has: BTreeMap<(NetworkName, IpAddr), SharedEndpoint>,
}

/// What became of changes.
pub(super) struct Spread {
    /// Milliseconds from each change until every host had heard of it.
    pub(super) took: Vec<f64>,
    /// Transactions of etcd meanwhile.
    pub(super) writes: f64,
}

impl Crowd {
    pub(super) fn new(url: &str) -> Result<Self> {
        let url: Url = url.parse()?;
        let etcd = Etcd::new(vec![url.clone()], Access::default())?;
        Ok(Self { etcd, network: "front".parse()?, hosts: Vec::new(), url })
    }

    /// Hosts join, take a block, and have containers, until there are so many.
    pub(super) fn grow(&mut self, level: usize) -> Result<()> {
        for number in self.hosts.len()..level {
            let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
            let name: HostName = format!("sim{number}").parse()?;
            let host = ClusterHost::new([192, 0, 10 + high, low].into(), Timestamp(1));
            book::form(&self.etcd, &name, &host)?;
            let lease = self.etcd.grant(LEASE)?;
            let mut view = self.etcd.read()?;
            book::be_alive(&self.etcd, &mut view, &name, (lease, &AliveRecord::new(None, None)))?;
            let (block, _) = book::claim_block(&self.etcd, &view, &self.network, &name, None)?;
            let IpAddr::V4(first) = block.network() else { continue };
            let first = u32::from(first) + 1;
            let mac = |at: u32| endpoint([9, high, low, 0, 0, at.to_be_bytes()[3]]);
            let addresses = (0..=u32::try_from(CONTAINERS).unwrap_or_default())
                .map(|at| ((self.network.clone(), Ipv4Addr::from(first + at).into()), mac(at)));
            let simulated = Simulated { name, lease, block, has: addresses.collect() };
            let view = View::default();
            book::publish(&self.etcd, &view, &simulated.name, &simulated.has)?;
            self.hosts.push(simulated);
        }
        Ok(())
    }

    /// The records of so many hosts: each its own, its life, its block and its addresses.
    pub(super) fn records(&self, level: usize) -> usize {
        level * (3 + 1 + CONTAINERS)
    }

    /// Reads everything, and finds out where everything is; in milliseconds.
    pub(super) fn resync(&self, round: usize) -> Result<f64> {
        let me = &self.hosts[round % self.hosts.len()].name;
        let begin = Instant::now();
        let view = self.etcd.read()?;
        let none = BTreeSet::new();
        let reached = view.reached(&self.network, me, (&none, &none), linux::identity::mac_of);
        let took = begin.elapsed().as_secs_f64() * 1e3;
        // The real host has at least its bridge.
        match reached.endpoints.len() >= (self.hosts.len() - 1) * (CONTAINERS + 1) {
            true => Ok(took),
            false => Err(Error::bug(format!("{} addresses are reached", reached.endpoints.len()))),
        }
    }

    /// Every host renews its lease; how many.
    pub(super) fn renew(&self) -> Result<usize> {
        for _ in 0..5 {
            for host in &self.hosts {
                self.etcd.renew(host.lease)?;
            }
        }
        Ok(5 * self.hosts.len())
    }

    /// All hosts listen, and one after another has one more container, and then again not.
    pub(super) fn spread(&self, changes: usize) -> Result<Spread> {
        let (segment, from) = (Netns::current()?, self.etcd.read()?);
        let (is_over, (report, reported)) = (AtomicBool::new(false), mpsc::channel());
        let took = std::thread::scope(|scope| {
            for _ in &self.hosts {
                let (report, is_over, segment, from) = (report.clone(), &is_over, &segment, &from);
                let listen = move || {
                    let listened = segment.enter(|| self.listen(from, is_over, &report));
                    // It ends with the connection.
                    drop(listened);
                };
                let thread = std::thread::Builder::new().stack_size(256 << 10);
                thread
                    .spawn_scoped(scope, listen)
                    .map_err(|cause| Error::os("starting a host", cause))?;
            }
            let took = self.change(changes, &reported);
            is_over.store(true, Ordering::SeqCst);
            // Each listener hears this, and looks whether it is over.
            let last = &self.hosts[0];
            book::be_alive(
                &self.etcd,
                &mut from.clone(),
                &last.name,
                (last.lease, &AliveRecord::new(None, None)),
            )?;
            took
        })?;
        let writes = self.etcd.read()?.revision.0 - from.revision.0 - 1;
        Ok(Spread { took, writes: writes as f64 })
    }

    fn listen(
        &self,
        from: &View,
        is_over: &AtomicBool,
        report: &mpsc::Sender<Revision>,
    ) -> Result<()> {
        let etcd = Etcd::new(vec![self.url.clone()], Access::default())?;
        let (mut view, mut after) = (from.clone(), from.revision);
        while !is_over.load(Ordering::SeqCst) {
            etcd.watch(after, Duration::from_secs(20), &mut |revision, changes| {
                changes.into_iter().for_each(|change| view.apply(change));
                after = revision;
                let said = report.send(revision);
                match said.is_err() || is_over.load(Ordering::SeqCst) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
        }
        Ok(())
    }

    /// So many changes, one after another; the first one that reaches everybody says that all listen.
    fn change(&self, count: usize, reported: &mpsc::Receiver<Revision>) -> Result<Vec<f64>> {
        let mut took = Vec::new();
        for number in 0..count {
            let host = &self.hosts[(number / 2) % self.hosts.len()];
            let mut has = host.has.clone();
            let IpAddr::V4(last) = host.block.broadcast() else { continue };
            let address = IpAddr::V4(Ipv4Addr::from(u32::from(last) - 2));
            if number % 2 == 0 {
                has.insert((self.network.clone(), address), endpoint([8; 6]));
            }
            let mut view = View::default();
            let known = host
                .has
                .keys()
                .cloned()
                .chain((number % 2 > 0).then(|| (self.network.clone(), address)));
            view.endpoints.extend(known.map(|(network, address)| {
                let known = host.has.get(&(network.clone(), address));
                let known = known.cloned().unwrap_or_else(|| endpoint([8; 6]));
                ((host.name.clone(), network, address), (known, Revision::default()))
            }));
            let begin = Instant::now();
            book::publish(&self.etcd, &view, &host.name, &has)?;
            for _ in &self.hosts {
                let said = reported.recv_timeout(TIMEOUT);
                said.map_err(|_| Error::try_again("a host never heard of a change"))?;
            }
            took.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(took)
    }
}

/// What a container has.
fn endpoint(mac: [u8; 6]) -> SharedEndpoint {
    SharedEndpoint { mac: Mac::local(mac), names: Vec::new(), runtime: None }
}
