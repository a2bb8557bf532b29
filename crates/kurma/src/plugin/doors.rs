//! Starting and stopping plugin containers by hand, and clearing away what nobody wants.

use std::collections::BTreeSet;
use std::time::Instant;

use image::ImageId;
use model::{Error, Kind, Result};

use super::ensure::calls;
use super::state::State;
use super::{Key, NetworkingPod, Wanted};
use crate::config::{NetworkConfig, PodNetworks};
use crate::disk::{Lock, Share};

impl NetworkingPod {
    /// Starts a network's plugin if it does not run, without a pause after what went wrong before;
    /// replaces it where its image or its configuration has changed.
    ///
    /// # Errors
    /// Why the image cannot be had or run; [`Kind::TryAgain`] where somebody else is starting it.
    pub fn up(&self, network: &NetworkConfig) -> Result<()> {
        self.renew(&Wanted::network(network), Instant::now() + self.limits.wait)
    }

    /// Stops a plugin container, when nobody calls it any more or a call's limit has passed. It is
    /// not started again before somebody needs it.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where somebody else is starting it; the kernel's refusal.
    pub fn down(&self, key: &Key) -> Result<()> {
        let directory = self.plugin(key);
        if !directory.exists() {
            return Ok(());
        }
        let turn = self.turn(key, Instant::now() + self.limits.wait)?;
        let busy = || Error::new(Kind::TryAgain, format!("plugin of {key} is being started"));
        let _turn = turn.ok_or_else(busy)?;
        let state = State { is_stopped: true, error: None, ..State::read(&directory)? };
        state.write(&directory)?;
        let deadline = Instant::now() + self.limits.call;
        if !state.generation.is_empty() {
            let calls = calls(&directory, &state.generation);
            let _calls = Lock::until(&calls, Share::Alone, deadline)?;
            self.end(&directory, &state.generation)?;
        }
        let (retired, failed) = self.retire(&directory, state.retired.clone());
        State { retired, failures: 0, ..state }.write(&directory)?;
        failed.map_or(Ok(()), Err)
    }

    /// Whether no container of this key was ever started, so that no call has reached its plugin.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(crate) fn has_never_run(&self, key: &Key) -> Result<bool> {
        let state = State::read(&self.plugin(key))?;
        Ok(state.generation.is_empty() && state.retired.is_empty())
    }

    /// Stops all plugin containers, also those that are not configured any more.
    ///
    /// # Errors
    /// The first error; the others are stopped all the same.
    pub fn down_all(&self) -> Result<()> {
        let mut done = Ok(());
        for key in self.keys()? {
            done = done.and(self.down(&key));
        }
        done
    }

    /// Stops and forgets the plugin containers of networks that are neither configured nor `used`
    /// any more; what the plugins have kept stays.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(crate) fn forget(&self, networks: &PodNetworks, used: &[Key]) -> Result<()> {
        let is_configured = |key: &Key| match key {
            Key::Network(name) => {
                networks.networks().any(|network| network.name == *name)
                    || networks.refused().any(|one| one.name.as_deref() == Some(name.as_str()))
            }
            Key::Image(_) => true,
        };
        let mut done = Ok(());
        for key in self.keys()?.into_iter().filter(|key| !is_configured(key) && !used.contains(key))
        {
            let directory = self.plugin(&key);
            let state = State::read(&directory)?;
            if state.generation.is_empty() {
                continue;
            }
            self.down(&key)?;
            let Some(_turn) = self.turn(&key, Instant::now())? else { continue };
            let retired = [state.retired.clone(), vec![state.generation.clone()]].concat();
            let (retired, failed) = self.retire(&directory, retired);
            State { retired, ..State::default() }.write(&directory)?;
            done = done.and(failed.map_or(Ok(()), Err));
        }
        done
    }

    /// The images that plugin containers are made of, which must not be removed.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn images_in_use(&self) -> Result<BTreeSet<ImageId>> {
        let mut images = BTreeSet::new();
        for key in self.keys()? {
            images.extend(State::read(&self.plugin(&key))?.id.parse::<ImageId>().ok());
        }
        Ok(images)
    }
}
