//! Following the book: what any process does with it is told, and published ports are kept.

use std::time::{Duration, Instant};

use engine::port::Prefix;
use model::Result;
use store::Watch;

use super::Daemon;
use super::ports::Ports;
use super::story::Story;
use crate::host;

/// How long the book's watch waits before it looks whether the daemon stops.
const GLANCE: Duration = Duration::from_millis(500);

/// What is known of the book.
#[derive(Default)]
pub(super) struct Told {
    story: Story,
    ports: Ports,
}

impl Daemon {
    /// What is heard of the book from now on; what is there already happened before.
    pub(super) fn open_book(&self) -> Result<(Watch, Told)> {
        let store = crate::world::open_store(self.worlds.config())?;
        let mut watch = store.watch(&[Prefix::Networks, Prefix::Attachments])?;
        let mut told = Told::default();
        for change in watch.wait(Duration::ZERO)? {
            told.story.tell(&change, host::now());
            told.ports.learn(&change, None);
        }
        Ok((watch, told))
    }

    /// Tells what any process does with the book, and keeps published ports from others.
    pub(super) fn follow_book(&self, watch: Watch, told: Told) {
        let mut followed = self.follow_book_until_lost(watch, told);
        while let Err(error) = followed {
            self.journal.failed("watching the book", &error);
            if self.sleep(Duration::from_secs(5)) {
                return;
            }
            followed =
                self.open_book().and_then(|(watch, told)| self.follow_book_until_lost(watch, told));
        }
    }

    fn follow_book_until_lost(&self, mut watch: Watch, mut told: Told) -> Result<()> {
        while !self.sleep(Duration::ZERO) {
            told.ports.keep(&self.journal);
            for change in watch.wait(GLANCE)? {
                told.ports.learn(&change, Some(Instant::now()));
                for event in told.story.tell(&change, host::now()) {
                    self.journal.tell(&event);
                }
            }
        }
        Ok(())
    }
}
