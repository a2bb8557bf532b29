//! IPAM drivers that lose their state (`RequiresRequestReplay`): a new life of theirs gets all
//! requests again, as libnetwork does when it starts.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::{DriverName, Error, NetworkName, RemoteIpam, Result};

use super::Remote;
use super::calls::Fate;
use super::undo_log::{DriverAllocation, LogDirectory, LogFile, Subject, Undo, pool_key};
use libnetwork::{Answer, Call, IpamCapabilities, Purpose, RequestAddress};

impl Remote {
    /// Repeats the requests for all that is held to another life of the driver, if it wants that;
    /// once for every life, in any process. Nothing that is held is released because of an answer: a
    /// driver with state answers that it is taken.
    pub(super) fn replay(&self, driver: &DriverName, able: IpamCapabilities) -> Result<()> {
        if !able.requires_replay {
            return Ok(());
        }
        let life = self.calls.life(driver)?.0;
        let path = self.settings.undo_log.join("lives").join(driver.as_str());
        match fs::read_to_string(&path) {
            Ok(known) if known == life => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::os(format!("reading {}", path.display()), error)),
        }
        // Pools before addresses.
        let mut forgotten = BTreeSet::new();
        for key in self.log_files()? {
            if let Some(mut log_file) = self.undo_log.find(&key)? {
                forgotten.append(&mut self.replay_pools(driver, &mut log_file)?);
            }
        }
        for key in self.log_files()? {
            if let Some(mut log_file) = self.undo_log.find(&key)? {
                self.replay_addresses(driver, &mut log_file, &forgotten)?;
            }
        }
        remember(&path, driver, &life)
    }

    fn log_files(&self) -> Result<Vec<String>> {
        let places = [LogDirectory::Held, LogDirectory::CleanupPending].into_iter();
        let keys = places.map(|place| self.undo_log.keys(place)).collect::<Result<Vec<_>>>()?;
        Ok(keys.concat())
    }

    /// A pool that has another name now is given back: the driver forgot the network's own, and what
    /// containers have of it. No other network waits for that. The pools that the driver forgot; of what
    /// another one forgot, it knows nothing.
    fn replay_pools(
        &self,
        driver: &DriverName,
        log_file: &mut LogFile,
    ) -> Result<BTreeSet<String>> {
        let (mut others, mut forgotten) = (log_file.record.forgotten.clone(), BTreeSet::new());
        for undo in held(log_file, driver) {
            let Undo::ReleasePool(_, key, asked) = &undo else { continue };
            others.remove(key);
            let got = match self.replayed(driver, &asked.call()?)? {
                Some(Answer::Pool(got)) => got,
                Some(_) | None => continue,
            };
            if got.key.as_str() != key {
                forgotten.insert(key.clone());
                let other = got.key.to_string();
                let other = Undo::ReleasePool(driver.clone(), other, asked.clone());
                self.give_other_back(log_file, other)?;
            }
        }
        others.extend(forgotten.iter().cloned());
        if log_file.record.forgotten != others {
            log_file.record.forgotten = others;
            log_file.save()?;
        }
        Ok(forgotten)
    }

    fn replay_addresses(
        &self,
        driver: &DriverName,
        log_file: &mut LogFile,
        forgotten: &BTreeSet<String>,
    ) -> Result<()> {
        for undo in held(log_file, driver) {
            let Undo::ReleaseAddress(_, pool, given) = &undo else { continue };
            if forgotten.contains(pool) {
                continue;
            }
            let call = Call::RequestAddress(RequestAddress {
                pool: pool_key(pool)?,
                address: Some(given.address()),
                purpose: Purpose::Auxiliary,
                mac: None,
                endpoint: None,
                serial: false,
            });
            match self.replayed(driver, &call)? {
                Some(Answer::Address { address, .. }) if address.addr() != given.address() => {
                    let given = DriverAllocation::Surely(address);
                    let other = Undo::ReleaseAddress(driver.clone(), pool.clone(), given);
                    self.give_other_back(log_file, other)?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// The answer; none where the driver refuses, as one that has not forgotten does.
    fn replayed(&self, driver: &DriverName, call: &Call) -> Result<Option<Answer>> {
        match self.calls.call(driver, call) {
            Ok(answer) => Ok(Some(answer)),
            Err(failed) if matches!(failed.fate, Fate::Refused) => Ok(None),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Gives back what the driver gave instead of what it was asked for, unless that is the name of something
    /// in use.
    fn give_other_back(&self, log_file: &mut LogFile, other: Undo) -> Result<()> {
        let is_own = log_file.holds(|held| held.gives_back_same(&other));
        if is_own || self.undo_log.is_in_use(&other, log_file.key())? {
            return Ok(());
        }
        log_file.hold(other.clone());
        log_file.save()?;
        self.announce_on(log_file, |undo| *undo == other)
    }

    /// Refuses a network whose pools its driver forgot.
    pub(super) fn refuse_forgotten(&self, network: &NetworkName, ipam: &RemoteIpam) -> Result<()> {
        let record = self.undo_log.peek(&Subject::Network(network.clone()).key())?;
        let forgotten = record.map(|record| record.forgotten).unwrap_or_default();
        let mut pools = ipam.pools.iter().filter_map(|pool| pool.given.as_ref());
        match pools.find(|pool| forgotten.contains(&pool.key)) {
            None => Ok(()),
            Some(pool) => Err(Error::conflict(format!(
                "plugin {} was started anew and calls pool {} of network {network} otherwise now: it forgot \
                 what containers have; remove the network and create it again",
                ipam.driver, pool.net
            ))),
        }
    }
}

/// What the driver has to know again.
fn held(log_file: &LogFile, driver: &DriverName) -> Vec<Undo> {
    let entries = log_file.record.entries.iter().filter(|entry| entry.pending.is_none());
    let its = entries.map(|entry| &entry.undo).filter(|undo| undo.driver() == driver);
    its.cloned().collect()
}

fn remember(path: &Path, driver: &DriverName, life: &str) -> Result<()> {
    // Threads of one process come here at the same time.
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let draft = path.with_file_name(format!("{driver}.{process}.{thread:?}.new"));
    let written = path.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| file::replace(path, &draft, life.as_bytes()))
        .map_err(|error| Error::os(format!("writing {}", path.display()), error))
}
