//! Sockets in sandboxes: opened when their containers come, closed when they go.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use model::Result;

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
            self.enter(sandbox, now);
        }
    }

    /// Closes everything that is in sandboxes.
    pub(super) fn leave_sandboxes(&mut self) {
        for inside in self.sandboxes.take().collect::<Vec<_>>() {
            self.leave(&inside, Leaving::Ended);
        }
    }

    fn enter(&mut self, sandbox: Sandbox, now: Instant) {
        if let Err(error) = self.open_in(&sandbox) {
            self.sandboxes.failed(&sandbox, now);
            self.book.failed("answering queries for names in a container", &error);
        }
    }

    fn open_in(&mut self, sandbox: &Sandbox) -> Result<()> {
        let Some(Opened { udp, tcp, inside }) = self.book.enter(sandbox)? else { return Ok(()) };
        let at = At::Sandbox(sandbox.clone(), Arc::clone(&inside));
        if let Err(error) = self.add(&at, udp, tcp) {
            // A sandbox that is shut stays so.
            inside.leave(if sandbox.is_shut { Leaving::Renewed } else { Leaving::Gone });
            return Err(error);
        }
        self.sandboxes.opened(sandbox.clone(), inside);
        Ok(())
    }

    /// Where what leads queries to the sockets goes, it goes before they do.
    fn leave(&mut self, inside: &Arc<dyn Inside>, leaving: Leaving) {
        inside.leave(leaving);
        self.listening.retain(|_, here| !here.is_in(inside));
    }
}
