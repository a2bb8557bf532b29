//! Counters of published ports. A port works without them, so their failure ends nothing.

use model::{Attachment, Error};

use super::Policy;
use crate::filter::{self, Elements};

impl Policy {
    /// Counts the ports among these elements; whether any was not counted. A failure is kept for
    /// [`Policy::take_uncounted`].
    pub(super) fn count(&self, attachment: &Attachment, elements: &Elements) -> bool {
        let kept = self.in_table(attachment, |socket| filter::counted::keep(socket, elements));
        kept.unwrap_or_else(|error| {
            let error = error.context(format!("counting the ports of {}", attachment.id));
            self.uncounted.borrow_mut().get_or_insert(error);
            false
        })
    }

    /// Why ports are not counted: the first failure since the last call.
    pub(crate) fn take_uncounted(&self) -> Option<Error> {
        self.uncounted.take()
    }
}
