//! A plugin container that runs: found, started, started again, or replaced.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use container::{Engine, Running};
use model::{Error, Kind, Result};

use super::call::verdict;
use super::plugin_spec::hex;
use super::spec::{Plan, plan};
use super::state::{Retired, State, now};
use super::{Key, Main, NetworkingPod, PluginSpec};
use crate::call::{self, Verb};
use crate::config::NetworkConfig;
use crate::disk::{self, Lock, Share};

/// How long a container may take to go by itself.
const GRACE: Duration = Duration::from_secs(2);

/// A running container. While this is held it is not replaced.
#[derive(Debug)]
pub(super) struct LockedContainer {
    pub(super) running: Running,
    _lock: Lock,
}

/// Which containers will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// As it is wanted now.
    Exact,
    /// Any of the same key, such as one that was configured otherwise.
    Any,
}

/// The result of [`NetworkingPod::watch`].
pub(crate) enum Watched {
    Runs(Running),
    /// On purpose.
    Stopped,
    /// It has ended, and is not started again before that.
    After(Duration),
}

/// The result of [`NetworkingPod::start`].
enum Started {
    Runs,
    /// It ended by itself, and is not started again before that.
    After(Duration),
}

impl NetworkingPod {
    /// Checks a network's plugin for a caller that need not wait: started if it has ended and may
    /// be started again; not if it was stopped on purpose, or `is_over`. Its image is fetched without
    /// the lock, which other callers wait for.
    pub(crate) fn watch(
        &self,
        network: &NetworkConfig,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Watched> {
        let wanted = PluginSpec::network(network);
        let directory = self.plugin(&wanted.key);
        if State::read(&directory)?.is_stopped {
            return Ok(Watched::Stopped);
        }
        if let Some(held) = self.current(&wanted, Fit::Exact)? {
            return Ok(Watched::Runs(held.running));
        }
        let fetched = self.prefetch(&wanted, is_over);
        if is_over() {
            return Ok(Watched::Stopped);
        }
        let lock = self.lock(&wanted.key, Instant::now() + self.limits.wait)?;
        let _lock = lock.ok_or_else(|| busy(&wanted.key))?;
        // While this waited, the operator may have stopped it, the networks may have changed, and
        // another caller may have started it.
        if is_over() || State::read(&directory)?.is_stopped {
            return Ok(Watched::Stopped);
        }
        if let Some(held) = self.current(&wanted, Fit::Exact)? {
            return Ok(Watched::Runs(held.running));
        }
        fetched.or_else(|error| self.failed(&wanted, error))?;
        match self.start(&wanted, Renewal::IfEnded)? {
            Started::After(pause) => Ok(Watched::After(pause)),
            Started::Runs => {
                // It may have ended again: then the next check shows that.
                let held = self.current(&wanted, Fit::Exact)?;
                Ok(held.map_or(Watched::After(Duration::ZERO), |held| Watched::Runs(held.running)))
            }
        }
    }

    /// The directory of a plugin container.
    pub(super) fn plugin(&self, key: &Key) -> PathBuf {
        self.directories.plugins().join(key.to_string())
    }

    /// The container, running; waits for it until `deadline`.
    pub(super) fn running(
        &self,
        wanted: &PluginSpec,
        fit: Fit,
        deadline: Instant,
    ) -> Result<LockedContainer> {
        loop {
            if let Some(held) = self.current(wanted, fit)? {
                return Ok(held);
            }
            let pause = match self.lock(&wanted.key, deadline)? {
                Some(_lock) => self.start(wanted, Renewal::IfEnded)?,
                None => return Err(busy(&wanted.key)),
            };
            if let Started::After(pause) = pause {
                if Instant::now() + pause > deadline {
                    return Err(self.why_down(wanted));
                }
                thread::sleep(pause);
            }
        }
    }

    /// Starts the container if it does not run, whatever happened before. Where its image or its
    /// configuration has changed, a new one is started, and the old one ended after its last call.
    pub(super) fn renew(&self, wanted: &PluginSpec, deadline: Instant) -> Result<()> {
        let lock = self.lock(&wanted.key, deadline)?;
        let _lock = lock.ok_or_else(|| busy(&wanted.key))?;
        self.start(wanted, Renewal::Always).map(drop)
    }

    /// The turn to start and stop containers of this key.
    pub(super) fn lock(&self, key: &Key, deadline: Instant) -> Result<Option<Lock>> {
        let directory = self.plugin(key);
        disk::make_directory(&directory)?;
        Lock::until(&directory.join("lock"), Share::Alone, deadline)
    }

    /// The container that runs and fits. Takes no turn: this is all that most calls need.
    fn current(&self, wanted: &PluginSpec, fit: Fit) -> Result<Option<LockedContainer>> {
        let directory = self.plugin(&wanted.key);
        let state = State::read(&directory)?;
        let fits = fit == Fit::Any || state.settings == wanted.settings();
        if !state.should_run() || !state.is_ready || !fits {
            return Ok(None);
        }
        let calls = calls(&directory, &state.generation);
        let Some(lock) = Lock::until(&calls, Share::Shared, Instant::now())? else {
            return Ok(None);
        };
        if matches!(wanted.key, Key::Image(_)) {
            lock.note_use();
        }
        let running = self.engine.adopt(&directory.join(&state.generation))?;
        let running = running.filter(|running| !self.is_elsewhere(running));
        Ok(running.map(|running| LockedContainer { running, _lock: lock }))
    }

    /// The engine that starts this container. Every engine finds what any other has started.
    fn engine_of(&self, wanted: &PluginSpec) -> Engine {
        match wanted.sandboxing.engine.as_deref() {
            None => self.engine.clone(),
            Some("native") => Engine::Native,
            Some(program) => Engine::Runtime(program.into()),
        }
    }

    /// Has the container running, with the turn taken.
    fn start(&self, wanted: &PluginSpec, renewal: Renewal) -> Result<Started> {
        let directory = self.plugin(&wanted.key);
        let before = State::read(&directory)?;
        let settings = wanted.settings();
        let is_same = before.settings == settings;
        let runs = match before.should_run() {
            true => self.engine.adopt(&directory.join(&before.generation))?,
            false => None,
        };
        let runs = self.in_place(runs)?;
        if runs.is_some() && is_same && before.is_ready && renewal == Renewal::IfEnded {
            return Ok(Started::Runs);
        }
        let has_ended = before.should_run() && runs.is_none();
        if has_ended && is_same && renewal == Renewal::IfEnded {
            let pause = before.pause(now());
            if !pause.is_zero() {
                return Ok(Started::After(pause));
            }
        }
        let started = self.start_new(wanted, &before, runs.as_ref(), renewal);
        started.or_else(|error| self.failed(wanted, error))
    }

    /// Records why a container could not be started, with the turn taken.
    fn failed<T>(&self, wanted: &PluginSpec, error: Error) -> Result<T> {
        let directory = self.plugin(&wanted.key);
        let error = error.context(format!("plugin of {}", wanted.key));
        let failed = State { error: Some(error.to_string()), ..State::read(&directory)? };
        let failed = match failed.generation.is_empty() {
            true => State { image: wanted.image.to_string(), ..failed },
            false => failed,
        };
        failed.write(&directory)?;
        Err(error)
    }

    /// Whether a container has other namespaces than the host, so that calls into it cannot serve.
    pub(super) fn is_elsewhere(&self, running: &Running) -> bool {
        running.is_elsewhere(&self.directories.netns, Path::new(crate::volume::INSIDE))
    }

    /// Ends a container that has other namespaces than the host: a new one is started in its place.
    fn in_place(&self, runs: Option<Running>) -> Result<Option<Running>> {
        match runs {
            Some(running) if self.is_elsewhere(&running) => running.stop(GRACE).map(|()| None),
            runs => Ok(runs),
        }
    }

    /// Starts the container of now beside the one of before.
    fn start_new(
        &self,
        wanted: &PluginSpec,
        before: &State,
        runs: Option<&Running>,
        renewal: Renewal,
    ) -> Result<Started> {
        let directory = self.plugin(&wanted.key);
        let image = self.image(wanted, &|| false)?;
        let settings = wanted.settings();
        let id = image.id.to_string();
        let generation: String =
            hex(&[settings.as_bytes(), id.as_bytes()]).chars().take(16).collect();
        let mut state = State {
            settings,
            generation: generation.clone(),
            image: wanted.image.to_string(),
            id,
            is_ready: false,
            is_stopped: false,
            error: None,
            ..before.clone()
        };
        let is_running = runs.is_some() && before.generation == generation;
        if is_running && before.is_ready {
            state.is_ready = true;
            self.retire_former(&directory, state)?;
            return Ok(Started::Runs);
        }
        if before.generation != generation && !before.generation.is_empty() {
            let (generation, image) = (before.generation.clone(), before.id.clone());
            state.retired.push(Retired { generation, image });
        }
        state.retired.retain(|past| past.generation != generation);
        if !is_running {
            if before.should_run() && runs.is_none() {
                state.count_restart(now());
                state.last_end = self.end_of(&directory, &before.generation);
            }
            if renewal == Renewal::Always {
                state.failures = 0;
            }
            state.started = now();
        }
        // The plan keeps an unprivileged container from writing to the volume, where that is there.
        crate::volume::Volume::new(&self.directories.netns).prepare()?;
        let plan = plan(self, wanted, &image, &generation)?;
        state.write(&directory)?;
        if let Err(error) = self.begin(wanted, &plan, &state) {
            if runs.is_some() && before.generation != generation {
                // The running one continues serving.
                let mut retired = before.retired.clone();
                retired.retain(|past| past.generation != generation);
                retired.push(Retired { generation, image: state.id });
                State { retired, ..before.clone() }.write(&directory)?;
            }
            return Err(error);
        }
        state.is_ready = true;
        state.write(&directory)?;
        self.retire_former(&directory, state)?;
        Ok(Started::Runs)
    }

    /// Ends what was replaced. The running container serves in any case: the record has the error.
    fn retire_former(&self, directory: &Path, mut state: State) -> Result<()> {
        let (remaining, failed) = self.retire(directory, state.retired);
        state.retired = remaining;
        state.error = failed.map(|error| error.to_string());
        state.write(directory)
    }

    /// Starts it, and calls its setup where it has no main executable.
    fn begin(&self, wanted: &PluginSpec, plan: &Plan, state: &State) -> Result<()> {
        let directory = self.plugin(&wanted.key);
        let place = directory.join(&state.generation);
        disk::make_directory(&directory.join("volume"))?;
        let running = self.engine_of(wanted).start(&place, &plan.spec, &plan.stdin)?;
        let Main::OfImage(input) = &wanted.main else { return Ok(()) };
        if !plan.needs_setup {
            return Ok(());
        }
        let program = call::Verb::Setup.path();
        let process = super::call::process([program.into()]);
        let bounds = super::call::bounds(self.limits.call);
        let ended = running.exec(&process, input, &bounds).map_err(|error| match error.kind() {
            Kind::NotFound => Error::invalid(format!(
                "the image has neither a main executable nor {}",
                Verb::Setup.path().display()
            )),
            _ => error,
        });
        let done = ended.and_then(|ended| verdict(&ended, self.limits.call));
        if let Err(error) = done {
            running.stop(GRACE)?;
            return Err(error.context("its setup"));
        }
        Ok(())
    }

    /// Ends a container of the plugin's.
    pub(super) fn end(&self, directory: &Path, past: &str) -> Result<()> {
        match self.engine.adopt(&directory.join(past))? {
            Some(running) => running.stop(GRACE),
            None => Ok(()),
        }
    }
}

/// When a container is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    /// Where it has ended, after a pause, or is to be another one.
    IfEnded,
    /// Also where its image is another one now, and without a pause.
    Always,
}

/// The file that callers of a container share.
pub(super) fn calls(directory: &Path, generation: &str) -> PathBuf {
    directory.join(format!("{generation}.calls"))
}

pub(super) fn remove_tree(path: &Path) -> Result<()> {
    let failed = |cause| Error::os(format!("removing {}", path.display()), cause);
    netlink::remove_tree(path).map_err(failed)
}

fn busy(key: &Key) -> Error {
    Error::new(Kind::TryAgain, format!("plugin of {key}: another process is still starting it"))
}
