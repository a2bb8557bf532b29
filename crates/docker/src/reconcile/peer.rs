//! One Docker Engine that the reconciler asks, and whether it answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::{AliasId, Error, Result};

use super::Notice;
use crate::api::{Api, Events, Named, Names, News};

/// How long to wait after the first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause where it refused at once: nobody listens, which costs nothing to find out. At boot
/// engines start after us, and until they are heard their containers have no names.
const LONGEST_REFUSED: Duration = Duration::from_secs(4);

/// An engine.
pub(super) struct Peer {
    pub(super) api: Api,
    pub(super) events: Option<Events>,
    longest: Duration,
    pause: Duration,
    retry: Instant,
    is_reported: bool,
    removed: Vec<AliasId>,
    named: Vec<Named>,
}

/// How an engine was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It answered all the time.
    Steady,
    /// It answers again.
    Back,
    /// It does not answer.
    Silent,
}

impl Peer {
    /// One that is asked again after at most `longest` when it is silent.
    pub(super) fn new(api: Api, longest: Duration) -> Self {
        let (pause, retry) = (FIRST_PAUSE, Instant::now());
        let (removed, named) = (Vec::new(), Vec::new());
        Self { api, events: None, longest, pause, retry, is_reported: false, removed, named }
    }

    /// Learns later what these containers are called: who came back has missed the events of some.
    pub(super) fn ask_names(&mut self, networks: &BTreeSet<&AliasId>) {
        // An engine that does not answer is found out at the next look.
        self.named.append(&mut self.api.running_on(networks).unwrap_or_default());
    }

    /// Reads its events. `false`: the engine is gone.
    pub(super) fn listen(&mut self) -> bool {
        let Some(events) = &mut self.events else { return true };
        let news = events.drain();
        self.removed.append(&mut events.removed());
        self.named.append(&mut events.named());
        match news {
            News::None | News::Some => true,
            News::End => {
                self.events = None;
                self.retry = Instant::now();
                false
            }
        }
    }

    /// The networks that were removed there, each once.
    pub(super) fn removed(&mut self) -> Vec<AliasId> {
        std::mem::take(&mut self.removed)
    }

    /// What the containers there are called that have other names since it was asked last. One that is being
    /// started is heard of again when it runs; an engine that does not answer is found out at the next look.
    pub(super) fn named(&mut self) -> Vec<Names> {
        let mut named = std::mem::take(&mut self.named);
        named.sort();
        named.dedup();
        let api = &self.api;
        named.retain(|one| one.runs || api.is_running(&one.container).unwrap_or(false));
        let names = named.iter().filter_map(|one| api.names(one).ok().flatten());
        names.flatten().collect()
    }

    /// Finds out whether the engine is there.
    pub(super) fn reach(&mut self, report: &dyn Fn(Notice)) -> State {
        self.listen();
        if self.events.is_some() {
            return State::Steady;
        }
        if Instant::now() < self.retry {
            return State::Silent;
        }
        let begin = Instant::now();
        match self.greet() {
            Ok((events, version, restores)) => {
                self.events = Some(events);
                self.pause = FIRST_PAUSE;
                self.is_reported = false;
                report(Notice::Reached {
                    engine: self.api.socket().to_owned(),
                    version,
                    restores: Some(restores),
                });
                State::Back
            }
            Err(why) => {
                self.lose(why, report);
                self.pause = paused(self.pause, begin.elapsed());
                State::Silent
            }
        }
    }

    /// Listens before asking, so that nothing happens in between unheard.
    fn greet(&self) -> Result<(Events, String, bool)> {
        let events = self.api.events()?;
        Ok((events, self.api.version()?, self.api.restores()?))
    }

    /// The engine did not answer, or not completely.
    pub(super) fn lose(&mut self, why: Error, report: &dyn Fn(Notice)) {
        self.events = None;
        self.retry = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(self.longest);
        if !std::mem::replace(&mut self.is_reported, true) {
            report(Notice::Lost { engine: self.api.socket().to_owned(), why });
        }
    }

    /// When to ask a silent engine again.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.events.is_none().then_some(self.retry)
    }
}

/// The pause after a failure that took so long to be found out.
fn paused(pause: Duration, took: Duration) -> Duration {
    if took < FIRST_PAUSE { pause.min(LONGEST_REFUSED) } else { pause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_is_not_there_is_asked_soon_and_one_that_hangs_is_not() {
        let minute = Duration::from_secs(60);
        assert_eq!(paused(minute, Duration::from_millis(3)), LONGEST_REFUSED);
        assert_eq!(paused(FIRST_PAUSE, Duration::ZERO), FIRST_PAUSE);
        assert_eq!(paused(minute, Duration::from_secs(10)), minute);
    }
}
