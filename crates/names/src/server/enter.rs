//! Sockets in sandboxes: opened when their containers come, closed when they go.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::Server;
use crate::listening::At;
use crate::sandbox::{Inside, Leaving, Opened, Sandbox};

impl Server<'_> {
    /// Closes what is in sandboxes no more, and opens what is due.
    pub(super) fn enter_sandboxes(&mut self, now: Instant) {
        let (closed, due) = {
            let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
            self.sandboxes.due(&table, now)
        };
        for (inside, leaving) in closed {
            self.leave(&inside, leaving);
        }
        for sandbox in due {
            self.enter(sandbox);
        }
    }

    /// Closes everything that is in sandboxes.
    pub(super) fn leave_sandboxes(&mut self) {
        for inside in self.sandboxes.take().collect::<Vec<_>>() {
            self.leave(&inside, Leaving::Ended);
        }
    }

    fn enter(&mut self, sandbox: Sandbox) {
        let opened = self.book.enter(&sandbox).and_then(|opened| {
            let Some(Opened { udp, tcp, inside }) = opened else { return Ok(()) };
            self.add(&At::Sandbox(sandbox.clone(), Arc::clone(&inside)), udp, tcp)?;
            self.sandboxes.opened(sandbox, inside);
            Ok(())
        });
        let doing = "answering queries for names in a container";
        opened.unwrap_or_else(|error| self.book.failed(doing, &error));
    }

    /// Where what leads queries to the sockets goes, it goes before they do.
    fn leave(&mut self, inside: &Arc<dyn Inside>, leaving: Leaving) {
        inside.leave(leaving);
        self.listening.retain(|_, here| !here.is_in(inside));
    }
}
