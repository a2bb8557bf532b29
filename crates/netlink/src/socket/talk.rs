//! The answers to one batch, and when they are complete.

use crate::outcome::{Failure, Outcome};
use crate::wire::{Batch, DONE, DUMP_INTERRUPTED, ERROR, MULTI, Message};

/// When an exchange is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// At the result of the message with this index.
    Acknowledged(usize),
    /// At the first answer.
    Answered,
    /// At the end of the dump.
    Done,
}

/// How an exchange ended.
pub(super) enum ExchangeEnd {
    /// As it should.
    Complete(Outcome),
    /// The answer was inconsistent or did not fit: the same question again.
    Again,
}

/// The answers to one batch.
pub(super) struct Talk {
    first: u32,
    until: Until,
    outcome: Outcome,
    again: bool,
}

impl Talk {
    /// Answers to the batch whose first sequence number is `first`.
    pub(super) fn new(first: u32, until: Until) -> Self {
        Self { first, until, outcome: Outcome::default(), again: false }
    }

    /// An answer was lost.
    pub(super) fn lose(&mut self) {
        self.again = true;
    }

    /// Takes one message in; whether it was the last one.
    pub(super) fn hear(
        &mut self,
        message: &Message<'_>,
        batch: &Batch,
        each: &mut dyn FnMut(&Message<'_>),
    ) -> bool {
        let offset = usize::try_from(message.sequence.wrapping_sub(self.first));
        let Some(index) = offset.ok().filter(|index| *index < batch.count()) else {
            return false;
        };
        self.again |= message.flags & DUMP_INTERRUPTED != 0;
        match message.kind {
            ERROR | DONE => self.hear_result(message, batch, index),
            _ => {
                each(message);
                self.until == Until::Answered && message.flags & MULTI == 0
            }
        }
    }

    fn hear_result(&mut self, message: &Message<'_>, batch: &Batch, index: usize) -> bool {
        if let Some(failure) = Failure::read(message, batch, index) {
            self.outcome.push(failure);
        }
        match self.until {
            Until::Acknowledged(last) => index == last,
            Until::Answered | Until::Done => true,
        }
    }

    /// Whether an empty queue means that nothing more will come: where the kernel gives up a
    /// whole batch, it answers the first message only.
    pub(super) fn is_stalled(&self) -> bool {
        self.again || !self.outcome.failures().is_empty()
    }

    /// With answers lost, the failures that did arrive are not all there may have been.
    pub(super) fn end(self) -> ExchangeEnd {
        if self.again { ExchangeEnd::Again } else { ExchangeEnd::Complete(self.outcome) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Message<'_> {
        Message { kind, flags, sequence, payload }
    }

    fn talk(until: Until) -> (Talk, Batch) {
        let mut batch = Batch::new();
        for _ in 0..3 {
            batch.request(1, 0, "asking");
        }
        (Talk::new(u32::MAX, until), batch)
    }

    #[test]
    fn only_answers_to_this_batch_are_heard() {
        let (mut talk, batch) = talk(Until::Acknowledged(2));
        let failure = (-17i32).to_ne_bytes();
        let mut count = 0;
        let mut hear = |message: Message<'_>| talk.hear(&message, &batch, &mut |_| count += 1);
        assert!(!hear(message(ERROR, 0, u32::MAX - 1, &failure)), "before it");
        assert!(!hear(message(ERROR, 0, 2, &failure)), "after it");
        assert!(!hear(message(16, 0, 0, &[])));
        assert!(!hear(message(ERROR, 0, 0, &failure)), "of its second message");
        assert!(hear(message(ERROR, 0, 1, &[0; 4])), "of its last message");
        assert_eq!(count, 1);
        let ExchangeEnd::Complete(outcome) = talk.end() else { panic!("nothing was lost") };
        assert_eq!(outcome.failures().len(), 1);
        assert_eq!(outcome.failures()[0].index, 1);
    }

    #[test]
    fn an_interrupted_dump_is_taken_again() {
        let (mut talk, batch) = talk(Until::Done);
        let mut ignore = |_: &Message<'_>| {};
        let part = message(16, MULTI | DUMP_INTERRUPTED, u32::MAX, &[]);
        assert!(!talk.hear(&part, &batch, &mut ignore));
        assert!(talk.hear(&message(DONE, MULTI, u32::MAX, &[0; 4]), &batch, &mut ignore));
        assert!(matches!(talk.end(), ExchangeEnd::Again));
    }
}
