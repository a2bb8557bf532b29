//! Sockets in sandboxes: opened when their containers come, closed when they go.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use model::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Server;
use super::work::{Done, LONGEST};
use crate::listening::At;
use crate::sandbox::{Closed, Inside, Leaving, Opened};
use crate::table::Sandbox;

/// How long the end of the server waits for the sandboxes that it leaves.
const END: Duration = Duration::from_secs(2);

impl Server<'_> {
    /// Closes what is in sandboxes no more, and has opened what is due.
    pub(super) fn enter_sandboxes(&mut self, now: Instant) {
        let (closed, due, changed) = {
            let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
            self.sandboxes.due(&table, now)
        };
        closed.into_iter().for_each(|closed| self.leave(closed));
        due.into_iter().for_each(|sandbox| self.works.enter(sandbox));
        changed.into_iter().for_each(|(sandbox, inside)| self.works.restore(sandbox, inside));
        for error in self.works.late(now) {
            self.book.failed("answering queries for names in a container", &error);
        }
    }

    /// Closes everything that is in sandboxes, and waits a while for it.
    pub(super) fn leave_sandboxes(&mut self) {
        self.sandboxes.take().into_iter().for_each(|closed| self.leave(closed));
        let end = Instant::now() + END;
        while !self.works.is_idle() {
            let remaining = end.saturating_duration_since(Instant::now());
            let limit = Timespec::try_from(remaining).ok();
            let ready = poll(&mut [PollFd::new(&self.works, PollFlags::IN)], limit.as_ref());
            if ready == Ok(0) {
                return;
            }
            self.finish_works();
        }
    }

    /// Serves in sandboxes that were entered, and closes the sockets in those that were left.
    pub(super) fn finish_works(&mut self) {
        for done in self.works.take() {
            match done {
                Done::Left(inside) => self.close(&inside),
                Done::Restored(sandbox, restored) => self.restored(&sandbox, restored),
                Done::Entered(sandbox, entered) => {
                    let opened = entered.and_then(|opened| match opened {
                        Some(opened) => self.serve_in(sandbox.clone(), opened),
                        None => Ok(()),
                    });
                    if let Err(error) = opened {
                        self.sandboxes.failed(&sandbox, Instant::now());
                        let doing = "answering queries for names in a container";
                        self.book.failed(doing, &error);
                    }
                }
            }
        }
    }

    /// Counts that what led queries was taken away in a sandbox, and reports it once.
    fn restored(&mut self, sandbox: &Sandbox, restored: Result<bool>) {
        match restored {
            Ok(false) => {}
            Ok(true) => {
                self.counters.restored.fetch_add(1, Ordering::Relaxed);
                if self.sandboxes.is_first_theft(sandbox) {
                    let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
                    let container = table.container_in(&sandbox.path);
                    self.book.restored(container.as_deref(), sandbox);
                }
            }
            Err(error) => self.book.failed("answering queries for names in a container", &error),
        }
    }

    /// What the life before left behind is given up once all sandboxes that are there have taken theirs.
    pub(super) fn discard_rest(&mut self) {
        let is_over = |since: Instant| self.works.is_idle() || since.elapsed() > LONGEST;
        if self.taking.is_some_and(is_over) {
            self.taking = None;
            self.book.discard_rest();
        }
    }

    fn serve_in(&mut self, sandbox: Sandbox, opened: Opened) -> Result<()> {
        let Opened { udp, tcp, inside } = opened;
        let path = sandbox.path.clone();
        if !self.sandboxes.is_wanted(&sandbox) {
            let leaving = self.sandboxes.unwanted(sandbox, &inside);
            self.leave((path, inside, leaving));
            return Ok(());
        }
        let at = At::Sandbox(sandbox.clone(), Arc::clone(&inside));
        if let Err(error) = self.add(&at, udp, tcp) {
            // A sandbox that is shut stays so.
            let leaving = if sandbox.is_shut { Leaving::Renewed } else { Leaving::Gone };
            self.leave((path, inside, leaving));
            return Err(error);
        }
        self.sandboxes.opened(sandbox, inside);
        Ok(())
    }

    /// Where what leads queries to the sockets goes, it goes before they do.
    fn leave(&mut self, closed: Closed) {
        let (_, inside, leaving) = &closed;
        if *leaving == Leaving::Renewed {
            inside.leave(*leaving);
            self.close(inside);
        } else {
            self.works.leave(closed);
        }
    }

    fn close(&mut self, inside: &Arc<dyn Inside>) {
        self.listening.retain(|_, here| !here.is_in(inside));
    }
}
