//! Addresses of remote IPAM drivers: what attachments get, and release.

use engine::port::Offer;
use model::{
    Attachment, DriverName, Error, Family, InterfaceAddress, IpNet, Ipam, Kind, Link, Mac, Network,
    OwnerName, RemoteIpam, RemotePool, Result,
};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::Remote;
use super::endpoint::{chosen_mac, subject};
use super::undo_log::{DriverAllocation, LogFile, Record, Undo, pool_key};
use libnetwork::{Answer, Call, EndpointName, IpamCapabilities, Purpose, RequestAddress};

/// How often an address is asked for again that is in the middle of being released.
const RACES: usize = 16;
/// How long to wait for a process that releases it at that moment: less than a plugin may take.
const BRIEFLY: Duration = Duration::from_secs(1);
/// The interval at which to check whether that process is done.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The requested address, and its user.
#[derive(Clone)]
pub(super) struct Spec {
    pub(super) address: Option<IpAddr>,
    pub(super) purpose: Purpose,
    pub(super) mac: Option<Mac>,
    pub(super) endpoint: Option<OwnerName>,
}

impl Remote {
    /// Gets an address of each family that the network has pools of. The offer's link is the
    /// attachment's, with a hardware address where the driver requires one.
    pub fn lease(&self, attachment: &Attachment) -> Result<Offer> {
        let doing = |error: Error| error.context(&attachment.id);
        self.lease_all(attachment).map_err(doing)
    }

    fn lease_all(&self, attachment: &Attachment) -> Result<Offer> {
        let ipam = remote_ipam(&attachment.ipam)?;
        let able = self.ipam_driver(&ipam.driver)?;
        self.replay(&ipam.driver, able)?;
        if able.requires_replay {
            self.refuse_forgotten(&attachment.id.network, ipam)?;
        }
        let mut link = attachment.wiring.link.clone();
        let spec = Spec {
            address: None,
            purpose: Purpose::Endpoint,
            mac: able.requires_mac.then(|| mac_of(attachment, &mut link)),
            endpoint: named(attachment),
        };
        let mut log_file = self.begin(attachment)?;
        let mut addresses = Vec::new();
        for family in [Family::V4, Family::V6] {
            let pools: Vec<&RemotePool> =
                ipam.pools.iter().filter(|pool| pool.family == family).collect();
            let address = wanted(attachment, family);
            match (pools.as_slice(), address) {
                ([], None) => {}
                ([], Some(address)) => {
                    return Err(Error::invalid(format!(
                        "address {address} is wanted, and the network has no pool of its family"
                    )));
                }
                (pools, address) => {
                    let spec = Spec { address, ..spec.clone() };
                    addresses.push(self.lease_one(&mut log_file, ipam, pools, &spec)?);
                }
            }
        }
        let routes = Vec::new();
        Ok(Offer { addresses, routes, dns: model::Dns::default(), link })
    }

    /// Of the first pool that has one left; a wanted one of the pool that contains it.
    fn lease_one(
        &self,
        log_file: &mut LogFile,
        ipam: &RemoteIpam,
        pools: &[&RemotePool],
        spec: &Spec,
    ) -> Result<InterfaceAddress> {
        let mut full = None;
        let mut is_tried = false;
        for pool in pools {
            let given = pool.given.as_ref().ok_or_else(|| {
                Error::try_again("its network is not complete: its pools are not allocated yet")
            })?;
            if spec.address.is_some_and(|address| !given.net.contains(&address)) {
                continue;
            }
            is_tried = true;
            let gateway = given.gateway.map(|net| net.addr());
            match self.take(log_file, &ipam.driver, &given.key, spec) {
                Ok(address) => return Ok(InterfaceAddress { address, gateway, interface: None }),
                Err(error) if error.kind() == Kind::Exhausted => full = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (full, spec.address) {
            (Some(error), _) => Err(error),
            (None, Some(address)) if !is_tried => {
                Err(Error::invalid(format!("address {address} is in none of the network's pools")))
            }
            (None, _) => Err(Error::exhausted("the network has no pool with an address left")),
        }
    }

    /// Has one address of a pool: the one that the log file knows already, or else a new one.
    fn take(
        &self,
        log_file: &mut LogFile,
        driver: &DriverName,
        pool: &str,
        spec: &Spec,
    ) -> Result<IpNet> {
        let mut unfit = Vec::new();
        for entry in log_file.record.entries.iter().filter(|entry| entry.pending.is_none()) {
            match &entry.undo {
                Undo::ReleaseAddress(of, from, given) if of == driver && from == pool => {
                    match given {
                        DriverAllocation::Surely(net)
                            if spec.address.is_none_or(|a| a == net.addr()) =>
                        {
                            return Ok(*net);
                        }
                        _ => unfit.push(entry.undo.clone()),
                    }
                }
                Undo::UnknownAddress(of, from) if of == driver && from == pool => {
                    unfit.push(entry.undo.clone());
                }
                _ => {}
            }
        }
        // What a dead process asked for is of no use.
        self.announce_on(log_file, |undo| unfit.contains(undo))?;
        self.ask(log_file, driver, pool, spec)
    }

    /// RequestAddress. It is on the log file before, or as soon as it is known.
    pub(super) fn ask(
        &self,
        log_file: &mut LogFile,
        driver: &DriverName,
        pool: &str,
        spec: &Spec,
    ) -> Result<IpNet> {
        for _ in 0..RACES {
            let mut given_back = self.undo_log.releasing(driver, pool)?;
            let address = self.ask_once(log_file, driver, pool, spec)?;
            given_back.extend(self.undo_log.releasing(driver, pool)?);
            if !given_back.contains(&address.addr()) {
                return Ok(address);
            }
            // Its release is still pending elsewhere, so it was released already and the answer was
            // lost. It is released once more now, and not again later.
            self.give_up(log_file, driver, pool, address)?;
        }
        Err(Error::try_again(format!(
            "plugin {driver} gives addresses of pool {pool} that are being released"
        )))
    }

    fn ask_once(
        &self,
        log_file: &mut LogFile,
        driver: &DriverName,
        pool: &str,
        spec: &Spec,
    ) -> Result<IpNet> {
        let release = |given| Undo::ReleaseAddress(driver.clone(), pool.to_owned(), given);
        let before = match spec.address {
            Some(address) => release(DriverAllocation::Perhaps(address)),
            None => Undo::UnknownAddress(driver.clone(), pool.to_owned()),
        };
        log_file.hold(before.clone());
        log_file.save()?;
        let call = Call::RequestAddress(RequestAddress {
            pool: pool_key(pool)?,
            address: spec.address,
            purpose: spec.purpose,
            mac: spec.mac,
            endpoint: spec.endpoint.clone().map(EndpointName::Usable),
            serial: false,
        });
        let address = match self.calls.call(driver, &call) {
            Ok(Answer::Address { address, .. }) => address,
            Ok(_) => return Err(Error::bug(format!("{driver}: no answer to RequestAddress"))),
            Err(failed) => {
                match failed.undo.as_deref() {
                    Some(Call::ReleaseAddress(undo)) => {
                        log_file.put(&before, release(DriverAllocation::Perhaps(undo.address)));
                    }
                    _ if failed.may_be_done() => {}
                    _ => log_file.strike(&before),
                }
                log_file.save()?;
                return Err(failed.into());
            }
        };
        log_file.put(&before, release(DriverAllocation::Surely(address)));
        log_file.save()?;
        match spec.address {
            Some(wanted) if wanted != address.addr() => Err(Error::conflict(format!(
                "plugin {driver} was asked for address {wanted} and gave {address}"
            ))),
            _ => Ok(address),
        }
    }

    /// Releases an address whose release others have pending as well, unless one of them is about
    /// to do it: then it is left for later. The caller holds this log file while it waits for
    /// another one.
    fn give_up(
        &self,
        log_file: &mut LogFile,
        driver: &DriverName,
        pool: &str,
        address: IpNet,
    ) -> Result<()> {
        let is_it = |undo: &Undo| undo.address_in(driver, pool) == Some(address.addr());
        for key in self.undo_log.keys(super::undo_log::LogDirectory::CleanupPending)? {
            let has_pending =
                |record: &Record| record.entries.iter().any(|entry| is_it(&entry.undo));
            if key == log_file.key() || !self.undo_log.peek(&key)?.as_ref().is_some_and(has_pending)
            {
                continue;
            }
            let other = match self.find_soon(&key) {
                Err(error) if error.kind() == Kind::TryAgain => {
                    log_file.mark_pending(self.now(), is_it);
                    self.finish(log_file)?;
                    return Err(error.context(format!("plugin {driver} gave {address}")));
                }
                other => other?,
            };
            if let Some(mut other) = other {
                let before = other.record.entries.len();
                other.record.entries.retain(|e| e.pending.is_none() || !is_it(&e.undo));
                if other.record.entries.len() < before {
                    other.save()?;
                }
            }
        }
        self.announce_on(log_file, is_it)?;
        match log_file.record.entries.iter().any(|entry| is_it(&entry.undo)) {
            false => Ok(()),
            true => Err(Error::try_again(format!(
                "plugin {driver} gave {address}, which is being released"
            ))),
        }
    }

    /// A log file that others need not work on for long.
    fn find_soon(&self, key: &str) -> Result<Option<LogFile>> {
        let until = Instant::now() + BRIEFLY;
        loop {
            match self.undo_log.find_idle(key) {
                Err(error) if error.kind() == Kind::TryAgain && Instant::now() < until => {
                    thread::sleep(POLL_INTERVAL);
                }
                found => return found,
            }
        }
    }

    /// Gives the attachment's addresses back; as [`Remote::remove_pools`].
    pub fn release(&self, attachment: &Attachment) -> Result<()> {
        self.announce(&subject(attachment), Undo::is_of_ipam)
    }

    /// Whether every address that the attachment has is still written down as the driver's.
    pub fn check_addresses(&self, attachment: &Attachment) -> Result<()> {
        let ipam = remote_ipam(&attachment.ipam)?;
        let record = self.undo_log.peek(&subject(attachment).key())?;
        let entries = record.map(|record| record.entries).unwrap_or_default();
        let mut held = attachment.leases.iter().map(|lease| lease.address.addr());
        let is_missing = |address: &IpAddr| {
            !entries.iter().any(|entry| match &entry.undo {
                Undo::ReleaseAddress(driver, _, given) => {
                    *driver == ipam.driver && given.address() == *address && entry.pending.is_none()
                }
                _ => false,
            })
        };
        match held.find(is_missing) {
            None => Ok(()),
            Some(address) => Err(Error::conflict(format!(
                "{}: address {address} is not known as one of plugin {}'s; attach it anew",
                attachment.id, ipam.driver
            ))),
        }
    }

    /// Whether the network's IPAM driver could be asked for an address now.
    pub fn address_status(&self, network: &Network) -> Result<()> {
        let ipam = remote_ipam(&network.ipam)?;
        let able = self.ipam_driver(&ipam.driver).map(drop);
        able.map_err(|error| error.context(format!("network {}", network.name)))
    }

    /// The requirements of a plugin that is an IPAM driver.
    pub(super) fn ipam_driver(&self, driver: &DriverName) -> Result<IpamCapabilities> {
        self.calls.profile(driver)?.ipam.ok_or_else(|| {
            Error::unsupported(format!("plugin {driver} is no IPAM driver (IpamDriver)"))
        })
    }
}

/// The Docker IPAM plugin of a network or an attachment.
pub(super) fn remote_ipam(ipam: &Ipam) -> Result<&RemoteIpam> {
    let no = || Error::bug("a remote IPAM driver is asked for addresses that are not its");
    ipam.remote().ok_or_else(no)
}

/// Which address of the family was asked for, or was had before.
fn wanted(attachment: &Attachment, family: Family) -> Option<IpAddr> {
    let mut leases = attachment.leases.iter().map(|lease| lease.address);
    leases.find(|net| Family::of(net) == family).map(|net| net.addr())
}

/// The hardware address that the interface will have.
fn mac_of(attachment: &Attachment, link: &mut Option<Link>) -> Mac {
    let chosen = || chosen_mac(attachment);
    link.as_mut().map_or_else(chosen, |link| *link.mac.get_or_insert_with(chosen))
}

/// The container's lasting name, or else its id.
fn named(attachment: &Attachment) -> Option<OwnerName> {
    let id = || attachment.id.container.as_str().parse().ok();
    attachment.owner.clone().or_else(id)
}
