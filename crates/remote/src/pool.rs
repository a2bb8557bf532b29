//! Pools of remote IPAM drivers: what networks get, and release.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{
    DriverName, Error, Family, GivenPool, IpNet, Ipam, LinkKind, Network, RemoteIpam, RemotePool,
    Result, overlap,
};

use super::Remote;
use super::ipam::{Spec, remote_ipam};
use super::network::scope_of;
use super::undo_log::{DriverAllocation, LogDirectory, LogFile, PoolAsked, Subject, Undo};
use libnetwork::parameters::NetworkParameters;
use libnetwork::{Answer, Call, PoolGiven, Purpose, Scope, Skip};

/// The key of a pool's gateway in an IPAM driver's answer.
const GATEWAY: &str = "com.docker.network.gateway";
/// So many pools that a driver chooses are refused before its choice is.
const MOST_REFUSED: usize = 64;

/// The subnets of this host, asked when it matters.
type Busy<'a> = &'a dyn Fn() -> Result<Vec<IpNet>>;

/// How a network's pools are requested.
struct Terms<'a> {
    driver: &'a DriverName,
    space: String,
    options: &'a BTreeMap<String, String>,
    skip: Skip,
    busy: Busy<'a>,
    /// Whether this host routes the network: then its pools are none that the host has already.
    is_routed: bool,
}

impl Remote {
    /// Requests a network's pools, with their gateways and auxiliary addresses, and returns them. A
    /// pool of the driver's choice that overlaps with one of those in `busy` (the subnets that this
    /// host is connected to; called only if it matters) is refused. After a failure it releases
    /// what it got.
    pub fn request(&self, network: &Network, busy: Busy<'_>) -> Result<Ipam> {
        let doing = |error: Error| error.context(format!("network {}", network.name));
        self.request_all(network, busy).map_err(doing)
    }

    fn request_all(&self, network: &Network, busy: Busy<'_>) -> Result<Ipam> {
        let ipam = remote_ipam(&network.ipam)?;
        ipam.pools.iter().try_for_each(sound)?;
        let able = self.ipam_driver(&ipam.driver)?;
        let terms = self.terms(network, ipam, busy)?;
        self.replay(&ipam.driver, able)?;
        let subject = Subject::Network(network.name.clone());
        // What a dead process got is released.
        self.announce(&subject, |_| true)?;
        let mut log_file = self.undo_log.open(subject)?;
        let mut given = RemoteIpam { space: Some(terms.space.clone()), ..ipam.clone() };
        if given.pools.is_empty() {
            given.pools.push(RemotePool::any(Family::V4));
        }
        // IPv4 comes first, as in libnetwork.
        let mut pools: Vec<&mut RemotePool> = given.pools.iter_mut().collect();
        pools.sort_by_key(|pool| pool.family);
        let got =
            pools.into_iter().try_for_each(|pool| self.request_one(&mut log_file, &terms, pool));
        match got {
            Ok(()) => Ok(Ipam::Remote(given)),
            Err(error) => {
                self.announce_on(&mut log_file, Undo::is_of_ipam)?;
                Err(error)
            }
        }
    }

    fn terms<'a>(
        &self,
        network: &Network,
        ipam: &'a RemoteIpam,
        busy: Busy<'a>,
    ) -> Result<Terms<'a>> {
        let (mut scope, mut skip) = (Scope::Local, Skip::default());
        if let Some(LinkKind::Remote(link)) = network.wiring.link.as_ref().map(|link| &link.kind) {
            let parameters = NetworkParameters::read(&link.network)?;
            let able = self.network_driver(&link.driver)?;
            scope = scope_of(&parameters, &able, &link.driver)?;
            if able.checks_gateways {
                skip = self.skipped(&link.driver, &parameters)?;
            }
        }
        let space = match &ipam.space {
            Some(space) => space.clone(),
            None => self.default_space(&ipam.driver, scope)?,
        };
        let (driver, options) = (&ipam.driver, &ipam.options);
        let is_routed = scope == Scope::Local && network.wiring.address_space.is_none();
        Ok(Terms { driver, space, options, skip, busy, is_routed })
    }

    fn default_space(&self, driver: &DriverName, scope: Scope) -> Result<String> {
        let profile = self.calls.profile(driver)?;
        let spaces = profile.spaces.as_ref().ok_or_else(|| {
            Error::invalid(format!("plugin {driver} has no default address space: name one"))
        })?;
        Ok(match scope {
            Scope::Local => spaces.local.to_string(),
            Scope::Global => spaces.global.to_string(),
        })
    }

    /// One pool with its gateway and its auxiliary addresses.
    fn request_one(
        &self,
        log_file: &mut LogFile,
        terms: &Terms<'_>,
        pool: &mut RemotePool,
    ) -> Result<()> {
        let got = self.request_pool(log_file, terms, pool)?;
        let (key, net) = (got.key.to_string(), got.pool);
        let spec = |address, purpose| Spec { address, purpose, mac: None, endpoint: None };
        let gateway = match (pool.gateway, gateway_of(&got)?) {
            _ if terms.skip.has(&net) => None,
            (None, Some(reported)) => {
                // libnetwork releases it with the others, though it never asked for it.
                let undo = (terms.driver.clone(), key.clone(), DriverAllocation::Surely(reported));
                log_file.hold(Undo::ReleaseAddress(undo.0, undo.1, undo.2));
                log_file.save()?;
                Some(reported)
            }
            (wanted, _) => {
                Some(self.ask(log_file, terms.driver, &key, &spec(wanted, Purpose::Gateway))?)
            }
        };
        for (name, address) in &pool.auxiliary {
            within(name, *address, &net)?;
            self.ask(log_file, terms.driver, &key, &spec(Some(*address), Purpose::Auxiliary))?;
        }
        pool.given = Some(GivenPool { key, net, gateway, data: got.data });
        Ok(())
    }

    /// RequestPool, until the pool overlaps with nothing on this host. Those that do are kept
    /// meanwhile, or they would be given again.
    fn request_pool(
        &self,
        log_file: &mut LogFile,
        terms: &Terms<'_>,
        pool: &RemotePool,
    ) -> Result<PoolGiven> {
        let asked = PoolAsked {
            space: terms.space.clone(),
            family: pool.family,
            net: pool.net,
            part: pool.part,
            options: terms.options.clone(),
        };
        let mut refused: Vec<Undo> = Vec::new();
        let got = loop {
            let got = self.ask_pool(log_file, terms.driver, &asked)?;
            let known = asked.known(got.pool);
            let undo = Undo::ReleasePool(terms.driver.clone(), got.key.to_string(), known);
            let is_chosen =
                pool.net.is_none_or(|net| net.prefix_len() > 0 && net.addr().is_unspecified());
            let matters = is_chosen && terms.is_routed && got.pool.prefix_len() > 0;
            let clash = match matters {
                true => (terms.busy)()?.into_iter().find(|busy| overlap(busy, &got.pool)),
                false => None,
            };
            let Some(busy) = clash else { break got };
            if refused.contains(&undo) || refused.len() >= MOST_REFUSED {
                return Err(Error::conflict(format!(
                    "plugin {} offers pool {}, which overlaps with {busy} of this host, and no \
                     other: name a pool",
                    terms.driver, got.pool
                )));
            }
            refused.push(undo);
        };
        if !refused.is_empty() {
            self.announce_on(log_file, |undo| refused.contains(undo))?;
        }
        if Family::of(&got.pool) != pool.family {
            let what = format!("plugin {} gave pool {} of another family", terms.driver, got.pool);
            return Err(Error::invalid(what));
        }
        Ok(got)
    }

    fn ask_pool(
        &self,
        log_file: &mut LogFile,
        driver: &DriverName,
        asked: &PoolAsked,
    ) -> Result<PoolGiven> {
        let before = Undo::UnknownPool(driver.clone(), asked.clone());
        log_file.hold(before.clone());
        log_file.save()?;
        let known = |key: &str| Undo::ReleasePool(driver.clone(), key.to_owned(), asked.clone());
        let got = match self.calls.call(driver, &asked.call()?) {
            Ok(Answer::Pool(got)) => got,
            Ok(_) => return Err(Error::bug(format!("{driver}: no answer to RequestPool"))),
            Err(failed) => {
                match failed.undo.as_deref() {
                    Some(Call::ReleasePool(key)) => log_file.put(&before, known(key.as_str())),
                    _ if failed.may_be_done() => {}
                    _ => log_file.strike(&before),
                }
                log_file.save()?;
                return Err(failed.into());
            }
        };
        let undo = Undo::ReleasePool(driver.clone(), got.key.to_string(), asked.known(got.pool));
        log_file.put(&before, undo.clone());
        log_file.record.forgotten.remove(got.key.as_str());
        log_file.save()?;
        for (key, record) in self.undo_log.records(LogDirectory::CleanupPending)? {
            let mut pending = record.entries.iter().filter(|entry| entry.pending.is_some());
            if key != log_file.key() && pending.any(|entry| entry.undo.gives_back_same(&undo)) {
                return Err(Error::try_again(format!(
                    "plugin {driver} gives pool {}, which a network that is gone still has to give \
                     back: see what `spoke gc` says",
                    got.pool
                )));
            }
        }
        Ok(got)
    }

    /// Releases what [`Remote::request`] got. What fails stays pending; an error means that even
    /// that could not be recorded.
    pub fn remove_pools(&self, network: &Network) -> Result<()> {
        self.announce(&Subject::Network(network.name.clone()), Undo::is_of_ipam)
    }
}

/// Checks a pool before any request.
fn sound(pool: &RemotePool) -> Result<()> {
    let Some(net) = pool.net else {
        return match (pool.part, pool.gateway) {
            (None, _) => Ok(()),
            (Some(part), _) => {
                Err(Error::invalid(format!("IP range {part} needs the subnet that it is part of")))
            }
        };
    };
    if Family::of(&net) != pool.family {
        return Err(Error::invalid(format!("subnet {net} is of another family than its pool")));
    }
    if let Some(part) = pool.part.filter(|part| !net.contains(part)) {
        return Err(Error::invalid(format!("IP range {part} is not in subnet {net}")));
    }
    let mut named = pool.auxiliary.iter();
    named.try_for_each(|(name, address)| within(name, *address, &net))
}

fn within(name: &str, address: IpAddr, net: &IpNet) -> Result<()> {
    match net.contains(&address) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "auxiliary address {address} ({name}) must belong to the master pool {net}"
        ))),
    }
}

/// The gateway that the driver named by itself.
fn gateway_of(got: &PoolGiven) -> Result<Option<IpNet>> {
    let Some(text) = got.data.get(GATEWAY).filter(|text| !text.is_empty()) else { return Ok(None) };
    let net = text.parse::<IpNet>().or_else(|_| {
        let address = text.parse::<IpAddr>().ok();
        address.and_then(|address| IpNet::new(address, got.pool.prefix_len()).ok()).ok_or_else(
            || {
                Error::invalid(format!(
                    "pool {}: the driver's {GATEWAY} is {text:?}, which is no address",
                    got.pool
                ))
            },
        )
    })?;
    match Family::of(&net) == Family::of(&got.pool) {
        true => Ok(Some(net)),
        false => Err(Error::invalid(format!(
            "pool {}: the driver's {GATEWAY} {net} is of another family",
            got.pool
        ))),
    }
}
