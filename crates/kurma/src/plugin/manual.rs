//! Starts and stops plugin containers by hand, and removes those that no network needs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use image::ImageId;
use model::{Error, Kind, Result};

use super::ensure::calls;
use super::state::{Retired, State};
use super::{Key, NetworkingPod, PluginSpec, Standing};
use crate::config::{NetworkConfig, PodNetworks};
use crate::disk::{self, Lock, Share};

impl NetworkingPod {
    /// Starts a network's plugin if it does not run, without a pause after earlier failures;
    /// replaces it where its image or its configuration has changed.
    ///
    /// # Errors
    /// Why the image cannot be fetched or run; [`Kind::TryAgain`] while another process is starting
    /// it.
    pub fn up(&self, network: &NetworkConfig) -> Result<()> {
        self.renew(&PluginSpec::network(network), Instant::now() + self.limits.wait)
    }

    /// Ends a network's plugin, after all calls or when a call's limit has passed, and starts it
    /// again, with the present image and configuration. The new one never runs beside the old one,
    /// which may hold something exclusively.
    ///
    /// # Errors
    /// Why the image cannot be fetched, in which case nothing was ended; as of
    /// [`NetworkingPod::down`] and [`NetworkingPod::up`].
    pub fn restart(&self, network: &NetworkConfig) -> Result<()> {
        let wanted = PluginSpec::network(network);
        self.image(&wanted, &|| false)?;
        self.ended(&wanted.key)?;
        self.up(network)
    }

    /// Ends the container of those who call programs out of an image. Their next call starts it again, out
    /// of the image of then.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where there is no such container; as of [`NetworkingPod::down`].
    pub fn renew_with_next_call(&self, key: &Key) -> Result<()> {
        match self.plugin(key).exists() {
            true => self.ended(key),
            false => Err(Error::not_found(format!(
                "there is no plugin container {key}: \"spoke kurma status\" names them"
            ))),
        }
    }

    /// Ends a container. What it has left behind and could not be removed is the next start's matter.
    fn ended(&self, key: &Key) -> Result<()> {
        let ended = self.down(key);
        match self.status_of(key, &[])?.standing {
            Standing::Running { .. } => ended,
            _ => Ok(()),
        }
    }

    /// Stops a plugin container, after all calls or when a call's limit has passed. It is not
    /// started again before it is needed.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] while another process is starting it; the kernel's refusal.
    pub fn down(&self, key: &Key) -> Result<()> {
        let directory = self.plugin(key);
        if !directory.exists() {
            return Ok(());
        }
        let lock = self.lock(key, Instant::now() + self.limits.wait)?;
        let busy = || Error::new(Kind::TryAgain, format!("plugin of {key} is being started"));
        let _lock = lock.ok_or_else(busy)?;
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

    /// Whether no plugin container runs, there is no pod, and no namespace is shown to plugins: nothing is
    /// in the namespaces where all of these are.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn is_idle(&self) -> Result<bool> {
        let is_empty = |path: &Path| Ok::<_, Error>(disk::names(path, "")?.is_empty());
        for key in self.keys()? {
            let directory = self.plugin(&key);
            let State { generation, retired, .. } = State::read(&directory)?;
            let past = retired.iter().map(|past| &past.generation).chain([&generation]);
            for past in past.filter(|past| !past.is_empty()) {
                if self.engine.adopt(&directory.join(past))?.is_some() {
                    return Ok(false);
                }
            }
        }
        let pods = disk::names(&self.directories.pods(), ".json")?;
        Ok(pods.is_empty() && is_empty(&self.directories.netns)?)
    }

    /// Stops and removes the plugin containers of networks that are neither configured nor `used`
    /// any more; the plugins' own files stay. Whether nothing of such networks is left: what is used,
    /// or what another process works on, is.
    ///
    /// # Errors
    /// The first one, after all others were tried.
    pub(crate) fn forget(&self, networks: &PodNetworks, used: &[Key]) -> Result<bool> {
        let is_configured = |key: &Key| match key {
            Key::Network(name) => {
                networks.networks().any(|network| network.name == *name)
                    || networks.refused().any(|one| one.name.as_deref() == Some(name.as_str()))
            }
            Key::Image(_) => true,
        };
        let (mut is_whole, mut done) = (true, Ok(()));
        for key in self.keys()?.into_iter().filter(|key| !is_configured(key)) {
            if used.contains(&key) {
                is_whole = false;
                continue;
            }
            match self.forget_one(&key) {
                Ok(is_forgotten) => is_whole &= is_forgotten,
                Err(error) => done = done.and(Err(error)),
            }
        }
        done.map(|()| is_whole)
    }

    /// Whether it is forgotten, which it is not where another process works on it.
    fn forget_one(&self, key: &Key) -> Result<bool> {
        let directory = self.plugin(key);
        if State::read(&directory)?.generation.is_empty() {
            return Ok(true);
        }
        self.down(key)?;
        let Some(_lock) = self.lock(key, Instant::now())? else { return Ok(false) };
        let state = State::read(&directory)?;
        let last = Retired { generation: state.generation, image: state.id };
        // Another process may have forgotten it meanwhile: it has no generation then, and nothing to end.
        let (retired, failed) = self.retire(&directory, [state.retired, vec![last]].concat());
        State { retired, ..State::default() }.write(&directory)?;
        failed.map_or(Ok(true), Err)
    }

    /// The images that plugin containers are made of, also those that were replaced and have a call
    /// still, which must not be removed.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn images_in_use(&self) -> Result<BTreeSet<ImageId>> {
        let mut images = BTreeSet::new();
        for key in self.keys()? {
            let State { id, retired, .. } = State::read(&self.plugin(&key))?;
            let all = retired.iter().map(|past| &past.image).chain([&id]);
            images.extend(all.filter_map(|id| id.parse::<ImageId>().ok()));
        }
        Ok(images)
    }
}
