//! Why a plugin does not run, or had to be started again.

use std::path::Path;
use std::time::Duration;

use container::{Ending, LastEnd};
use model::{Error, Kind, Process};

use super::call::printable;
use super::state::{Ended, State};
use super::{Key, NetworkingPod, PluginSpec};
use crate::config::NetworkConfig;

/// How long the kernel may take to end a container.
const BURIAL: Duration = Duration::from_secs(5);

impl NetworkingPod {
    /// Why a network's plugin ended that was this process.
    pub(crate) fn why(&self, network: &NetworkConfig, process: Process) -> String {
        let directory = self.plugin(&Key::Network(network.name.clone()));
        let state = State::read(&directory).unwrap_or_default();
        // Another caller may have started it again by now.
        let recorded = state.last_end.filter(|end| end.pid == process.pid);
        let now = || self.end_of(&directory, &state.generation);
        let ended = recorded.or_else(|| now().filter(|end| end.pid == process.pid));
        ended.map_or_else(|| "it was replaced or stopped".to_owned(), |end| end.why)
    }

    /// Why a plugin does not run.
    pub(super) fn why_down(&self, wanted: &PluginSpec) -> Error {
        let why = self.last_words(&self.plugin(&wanted.key));
        let why = why.unwrap_or_else(|| "it has ended".to_owned());
        let what = format!("plugin of {}: {why}; it is started again soon", wanted.key);
        Error::new(Kind::TryAgain, what)
    }

    /// Why a call ended unseen, in a container that was this process.
    pub(super) fn why_cut(&self, wanted: &PluginSpec, process: Process) -> Error {
        // The kernel ends what is in a container before its first process is seen to have ended.
        netlink::process::wait_for_end(&process, BURIAL);
        let directory = self.plugin(&wanted.key);
        let state = State::read(&directory).unwrap_or_default();
        let now = self.end_of(&directory, &state.generation);
        let ended = state.last_end.into_iter().chain(now).find(|end| end.pid == process.pid);
        let why = ended.map_or_else(String::new, |end| format!(": {}", end.why));
        Error::try_again(format!("ended with its container{why}"))
    }

    /// The last error.
    pub(super) fn last_words(&self, directory: &Path) -> Option<String> {
        let state = State::read(directory).ok()?;
        let ended = || self.end_of(directory, &state.generation).map(|end| end.why);
        state.error.clone().or_else(ended)
    }

    /// How this container of a plugin's ended, unless it runs.
    pub(super) fn end_of(&self, directory: &Path, generation: &str) -> Option<Ended> {
        if generation.is_empty() {
            return None;
        }
        let end = self.engine.last_end(&directory.join(generation)).ok()??;
        Some(Ended { pid: end.process.pid, why: reported(&end) })
    }
}

/// In words.
fn reported(end: &LastEnd) -> String {
    let mut text = match end.ending {
        Ending::Exited(code) => format!("its main executable exited {code}"),
        Ending::Signaled(signal) => format!("its main executable was ended by signal {signal}"),
        Ending::TimedOut | Ending::Unseen => "it ended with its container".to_owned(),
    };
    let is_killed = !matches!(end.ending, Ending::Exited(_));
    if end.was_short_of_memory && is_killed {
        text.push_str(", as the memory that it may have was used up");
    }
    let words = printable(&end.words);
    if words.is_empty() { text } else { format!("{text}: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_reported() {
        let process = Process { pid: 1, start: 1 };
        let end = |ending, words: &str, was_short_of_memory| {
            reported(&LastEnd { process, ending, words: words.to_owned(), was_short_of_memory })
        };
        let why = end(Ending::Exited(3), "no\n\u{1b}[2Jroute\n", false);
        assert_eq!(why, "its main executable exited 3: no \\u{1b}[2Jroute");
        let why = end(Ending::Signaled(9), "", true);
        assert!(why.contains("signal 9, as the memory"), "{why}");
        assert_eq!(end(Ending::Exited(1), "", true), "its main executable exited 1");
        assert_eq!(end(Ending::Unseen, "", false), "it ended with its container");
    }
}
