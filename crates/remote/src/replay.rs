//! IPAM drivers that lose their state (`RequiresRequestReplay`): a new life of theirs gets all
//! requests again, as libnetwork does when it starts.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::{DriverName, Error, Result};

use super::Remote;
use super::undo_log::{LogFile, Place, Undo, pool_key};
use libnetwork::{Answer, Call, IpamCapabilities, Purpose, RequestAddress};

impl Remote {
    /// Repeats the requests for all that is held to another life of the driver, if it wants that;
    /// once for every life, in any process. Nothing is released because of an answer: a driver with
    /// state answers that it is taken.
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
        for is_turn in [Undo::is_pool, Undo::is_address] {
            for place in [Place::Held, Place::CleanupPending] {
                for key in self.undo_log.keys(place)? {
                    if let Some(log_file) = self.undo_log.find(&key)? {
                        self.replay_log_file(driver, &log_file, is_turn)?;
                    }
                }
            }
        }
        remember(&path, driver, &life)
    }

    fn replay_log_file(
        &self,
        driver: &DriverName,
        log_file: &LogFile,
        is_turn: impl Fn(&Undo) -> bool,
    ) -> Result<()> {
        let entries = log_file.record.entries.iter().filter(|entry| entry.pending.is_none());
        let its = entries.map(|entry| &entry.undo).filter(|undo| undo.driver() == driver);
        for undo in its.filter(|undo| is_turn(undo)) {
            let call = match undo {
                Undo::ReleasePool(_, _, asked) => asked.call()?,
                Undo::ReleaseAddress(_, pool, given) => Call::RequestAddress(RequestAddress {
                    pool: pool_key(pool)?,
                    address: Some(given.address()),
                    purpose: Purpose::Auxiliary,
                    mac: None,
                    endpoint: None,
                    serial: false,
                }),
                _ => continue,
            };
            match (self.calls.call(driver, &call), undo) {
                (Ok(Answer::Pool(got)), Undo::ReleasePool(_, key, _))
                    if got.key.as_str() != key =>
                {
                    return Err(Error::conflict(format!(
                        "plugin {driver} was started anew and calls pool {key} of network {} \
                         {} now: it forgot what containers have; remove the network",
                        log_file.record.subject.network(),
                        got.key
                    )));
                }
                (Err(failed), _) if !matches!(failed.fate, super::calls::Fate::Refused) => {
                    return Err(failed.into());
                }
                (Ok(_) | Err(_), _) => {}
            }
        }
        Ok(())
    }
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
