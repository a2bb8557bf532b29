//! Containers that were replaced: each is ended after its last call.

use std::path::Path;
use std::time::Instant;

use model::{Error, Result};

use super::ensure::{calls, remove_tree};
use super::state::{Retired, State};
use super::{Key, NetworkingPod};
use crate::disk::{self, Lock};

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
        self.keys()?.iter().fold(Ok(()), |done, key| done.and(self.retire_now(key)))
    }

    /// Ends replaced containers after their last calls; returns the remaining ones, and why one of
    /// them could not be ended.
    pub(super) fn retire(
        &self,
        directory: &Path,
        retired: Vec<Retired>,
    ) -> (Vec<Retired>, Option<Error>) {
        let gone = |past: &str| -> Result<bool> {
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
