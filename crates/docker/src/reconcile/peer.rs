//! One Docker Engine that the reconciler asks, and whether it answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::{AliasId, ContainerId, EngineId, Error, Result};

use super::Notice;
use super::unnamed::Unnamed;
use crate::api::{About, Api, Events, Names, News};

/// How long to wait after the first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause where it refused at once: no process listens, which costs nothing to find out. At boot
/// engines start after us, and until they are heard their containers have no names.
const LONGEST_REFUSED: Duration = Duration::from_secs(4);

/// An engine.
pub(super) struct Peer {
    pub(super) api: Api,
    pub(super) events: Option<Events>,
    /// Its own id, since it answered last.
    pub(super) id: Option<EngineId>,
    longest: Duration,
    pause: Duration,
    retry: Instant,
    is_reported: bool,
    made: Vec<AliasId>,
    removed: Vec<AliasId>,
    unnamed: Unnamed,
    /// Whether it is still to be asked which containers run, since it is back.
    asks_names: bool,
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
        let (made, removed, unnamed) = (Vec::new(), Vec::new(), Unnamed::default());
        let (events, id) = (None, None);
        Self {
            api,
            events,
            id,
            longest,
            pause,
            retry,
            is_reported: false,
            made,
            removed,
            unnamed,
            asks_names: false,
        }
    }

    /// Whether [`Peer::ask_names`] has something to ask.
    pub(super) fn asks_names(&self) -> bool {
        self.asks_names && self.events.is_some()
    }

    /// Learns later what the containers are called that run on these networks: an engine that came back has
    /// missed the events of some. It is asked until it has answered once.
    ///
    /// # Errors
    /// Where the engine does not answer.
    pub(super) fn ask_names(&mut self, networks: &BTreeSet<&AliasId>) -> Result<()> {
        if self.asks_names() {
            self.unnamed.add(self.api.running_on(networks)?, Instant::now());
            self.asks_names = false;
        }
        Ok(())
    }

    /// Reads its events. `false`: the engine is gone.
    pub(super) fn listen(&mut self) -> bool {
        let Some(events) = &mut self.events else { return true };
        let news = events.drain();
        self.made.append(&mut events.made());
        self.removed.append(&mut events.removed());
        self.unnamed.add(events.named(), Instant::now());
        match news {
            News::None | News::Some => true,
            News::End => {
                self.events = None;
                self.retry = Instant::now();
                false
            }
        }
    }

    /// The networks that were made there since it was asked last.
    pub(super) fn made(&mut self) -> Vec<AliasId> {
        std::mem::take(&mut self.made)
    }

    /// The networks that were removed there, each once.
    pub(super) fn removed(&mut self) -> Vec<AliasId> {
        std::mem::take(&mut self.removed)
    }

    /// What the containers there are called that have other names since it was asked last. One that is being
    /// started is heard of again when it runs. One whose answer fails is asked for again later: at most one
    /// is waited for in vain.
    pub(super) fn learned(&mut self, report: &dyn Fn(Notice)) -> Vec<(ContainerId, Vec<Names>)> {
        let due = self.unnamed.due(Instant::now());
        if self.events.is_none() || due.is_empty() {
            return Vec::new();
        }
        let running = match self.api.running_among(due.iter().map(|(named, _)| &named.container)) {
            Ok(running) => running,
            Err(why) => {
                self.lose(why, report);
                return Vec::new();
            }
        };
        let mut learned = Vec::new();
        for (named, is_new) in due {
            // What an event says of one that is new need not be in the list yet.
            let runs = running.contains(&named.container) || (is_new && named.runs);
            match if runs { self.api.names(&named) } else { Ok(None) } {
                Ok(Some(names)) => learned.push((named.container, names)),
                Ok(None) => self.unnamed.remove(&named.container),
                Err(why) => {
                    self.learn_again(&named.container, why, report);
                    break;
                }
            }
        }
        learned
    }

    /// The names of a container are written down.
    pub(super) fn has_learned(&mut self, container: &ContainerId) {
        self.unnamed.remove(container);
    }

    /// They are to be asked for once more; why it failed is reported where that is of no use.
    pub(super) fn learn_again(
        &mut self,
        container: &ContainerId,
        why: Error,
        report: &dyn Fn(Notice),
    ) {
        if !self.unnamed.failed(container, Instant::now()) {
            report(Notice::Failed(why.context(format!("names of Docker's container {container}"))));
        }
    }

    /// When names are to be asked for next.
    pub(super) fn names_due(&self) -> Option<Instant> {
        self.events.as_ref().and_then(|_| self.unnamed.next())
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
            Ok((events, version, About { id, restores })) => {
                self.events = Some(events);
                self.id = id;
                self.pause = FIRST_PAUSE;
                self.is_reported = false;
                self.asks_names = true;
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
    fn greet(&self) -> Result<(Events, String, About)> {
        let events = self.api.events()?;
        Ok((events, self.api.version()?, self.api.about()?))
    }

    /// The engine did not answer, or not completely.
    pub(super) fn lose(&mut self, why: Error, report: &dyn Fn(Notice)) {
        self.events = None;
        // All that run are asked for when it is back.
        self.unnamed.clear();
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
