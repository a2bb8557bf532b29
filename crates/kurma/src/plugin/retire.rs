//! Containers that are needed no more: each that was replaced is ended after its last call, and each
//! that nothing names some days after it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use image::Locator;
use model::{Error, Result};

use super::ensure::{calls, remove_tree};
use super::state::{Retired, State};
use super::{Key, NetworkingPod};
use crate::disk::{self, Lock};

/// A container of `spoke-image` that had no call for this long, and that nothing names, is ended.
pub const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// The beginning of the error where one could not be ended.
const FORMER: &str = "ending its former container";

impl NetworkingPod {
    /// Ends the replaced containers of this key whose last call is over. A failure is in the record,
    /// and is repeated with the next call, start or sweep.
    ///
    /// # Errors
    /// Where the record cannot be read or written.
    pub(super) fn retire_now(&self, key: &Key) -> Result<()> {
        let directory = self.plugin(key);
        if State::read(&directory)?.retired.is_empty() {
            return Ok(());
        }
        // Another process that starts or stops one ends these as well.
        let Some(_lock) = self.lock(key, Instant::now())? else { return Ok(()) };
        let state = State::read(&directory)?;
        let (retired, failed) = self.retire(&directory, state.retired.clone());
        let before = state.error.clone().filter(|error| !error.starts_with(FORMER));
        let error = failed.map(|error| error.to_string()).or(before);
        State { retired, error, ..state }.write(&directory)
    }

    /// The same of all keys: of a caller that was killed no call comes.
    ///
    /// # Errors
    /// The first one; the others are tried all the same.
    pub(crate) fn retire_all(&self) -> Result<()> {
        let mut done = Ok(());
        for key in self.keys()? {
            done = done.and(self.retire_now(&key));
        }
        done
    }

    /// Ends the containers of `spoke-image` whose images are not `named` in the host's CNI
    /// configuration, and that had no call for [`UNUSED`]; gives their keys. Their next call starts them
    /// again, out of the same images, which stay.
    ///
    /// # Errors
    /// The first one, after all others were tried.
    pub fn end_unused(&self, named: &[Locator]) -> (Vec<Key>, Result<()>) {
        let keys = match self.keys() {
            Ok(keys) => keys,
            Err(error) => return (Vec::new(), Err(error)),
        };
        let (mut ended, mut done) = (Vec::new(), Ok(()));
        for key in keys.into_iter().filter(|key| matches!(key, Key::Image(_))) {
            match self.end_if_unused(&key, named) {
                Ok(true) => ended.push(key),
                Ok(false) => {}
                Err(error) => done = done.and(Err(error)),
            }
        }
        (ended, done)
    }

    fn end_if_unused(&self, key: &Key, named: &[Locator]) -> Result<bool> {
        let directory = self.plugin(key);
        let state = State::read(&directory)?;
        let is_named = || named.iter().any(|image| image.to_string() == state.image);
        if !state.should_run() || is_named() {
            return Ok(false);
        }
        let started = UNIX_EPOCH + Duration::from_millis(state.started);
        let called = fs::metadata(calls(&directory, &state.generation));
        let last = called.and_then(|file| file.modified()).unwrap_or(started);
        // After a clock was set back it counts as used.
        if last.elapsed().is_ok_and(|elapsed| elapsed >= UNUSED) {
            return self.down(key).map(|()| true);
        }
        Ok(false)
    }

    /// Ends replaced containers after their last calls; returns the remaining ones, and why one of
    /// them could not be ended.
    pub(super) fn retire(
        &self,
        directory: &Path,
        retired: Vec<Retired>,
    ) -> (Vec<Retired>, Option<Error>) {
        let gone = |past: &str| -> Result<bool> {
            // Without a name it would be the plugin's whole directory, with the plugin's own files.
            if past.is_empty() {
                return Ok(true);
            }
            let path = calls(directory, past);
            let Some(_lock) = Lock::now(&path)? else { return Ok(false) };
            self.end(directory, past)?;
            remove_tree(&directory.join(past))?;
            remove_tree(&directory.join(format!("{past}.root")))?;
            disk::remove(&path).map(|()| true)
        };
        // A failure is retried at the next start.
        let (mut remaining, mut failed) = (Vec::new(), None);
        for past in retired {
            match gone(&past.generation) {
                Ok(true) => {}
                Ok(false) => remaining.push(past),
                Err(error) => {
                    failed = Some(error.context(format_args!("{FORMER} {}", past.generation)));
                    remaining.push(past);
                }
            }
        }
        (remaining, failed)
    }
}
