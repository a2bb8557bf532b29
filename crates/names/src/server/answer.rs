//! What others are asked, and what becomes of their answers.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::time::Instant;

use super::{ASKED, Server};
use crate::fenced_answer::Ready;
use crate::listening::Socket;
use crate::pending::{Done, Ended, From};
use crate::question::Transport;
use crate::upstream::Upstream;

impl Server<'_> {
    /// Asks others the second message for the first one.
    pub(super) fn forward(&mut self, messages: (&[u8], &[u8]), upstream: Upstream, from: From) {
        match self.asked.begin(messages, upstream, from) {
            Err(done) => self.answer(*done),
            Ok(Some(number)) => self.follow(number),
            Ok(None) => {}
        }
    }

    /// Hears what the server says that is asked now.
    fn follow(&mut self, number: u64) {
        if let Some(socket) = self.asked.socket(number) {
            // Without it the query is overdue some time.
            let _ = self.watch(socket.as_fd(), ASKED | number);
        }
    }

    pub(super) fn hear(&mut self, number: u64) {
        match self.asked.hear(number) {
            Ok(Some(ended)) => self.answer_all(ended),
            Ok(None) => {}
            Err(again) => self.follow(again),
        }
    }

    pub(super) fn expire(&mut self) {
        let (ended, again) = self.asked.expire(Instant::now());
        ended.into_iter().for_each(|ended| self.answer_all(ended));
        again.into_iter().for_each(|number| self.follow(number));
    }

    /// Answers each of those who wait, by the rules that hold for it.
    fn answer_all(&self, ended: Ended) {
        ended.done().for_each(|done| self.answer(done));
    }

    /// Answers, or has it opened first what the answer opens.
    pub(super) fn answer(&self, done: Done) {
        let Done { from, query, message, has_failed } = done;
        if has_failed {
            self.counters.fail();
        }
        let Some(here) = self.listening.get(&from.listener) else { return };
        let origin = {
            let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
            here.origin(&table, from.asker.ip())
        };
        // A container that has gone meanwhile needs no answer.
        let Some(origin) = origin else { return };
        let whose = (&origin.asker(), from.holder.as_ref());
        let to = (from.listener, from.asker);
        match self.shared.judged(whose, (&query, message), Transport::Udp) {
            Ready::Now(message) => self.send(to, &message),
            Ready::Unopened(it) => self.shared.opener.start(it, (from, &self.answers)),
        }
    }

    /// Sends what is open by now.
    pub(super) fn send_opened(&self) {
        for (From { asker, listener, holder, .. }, message) in self.answers.take() {
            let Some(here) = self.listening.get(&listener) else { continue };
            let is_same = {
                let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
                here.origin(&table, asker.ip()).is_some_and(|origin| origin.holder == holder)
            };
            if is_same {
                self.send((listener, asker), &message);
            }
        }
    }

    fn send(&self, (listener, asker): (u64, SocketAddr), message: &[u8]) {
        if let Some(Socket::Udp(socket)) = self.listening.get(&listener).map(|here| &here.socket) {
            // UDP: an asker that gets no answer asks again.
            let _ = socket.send_to(message, asker);
        }
    }
}

#[cfg(test)]
mod tests;
