//! Events of interfaces that a runtime names after Spoke has made them: Docker asks for `eth`, and calls it `eth0` once it
//! is in the container. They wait for that name.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use host::event::{Event, What};
use model::{Attachment, AttachmentId, IfName};

/// A runtime names an interface within milliseconds. After this time its events are reported without the name.
const LIMIT: Duration = Duration::from_secs(2);

/// What happened to them, and was not reported yet.
#[derive(Debug, Default)]
pub(super) struct Unnamed(BTreeMap<AttachmentId, Waiting>);

#[derive(Debug)]
struct Waiting {
    record: Box<Attachment>,
    events: Vec<Event>,
    since: Instant,
}

impl Unnamed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The events that can be reported now: those of an interface without a name wait, from the one that says that it came
    /// to the one that says that it left.
    pub(super) fn pass(
        &mut self,
        (id, name): (&AttachmentId, Option<&IfName>),
        record: Option<&Attachment>,
        events: Vec<Event>,
    ) -> Vec<Event> {
        let has = |what| events.iter().any(|event| event.event == what);
        if name.is_some() || has(What::Detached) {
            let mut all = self.take(id, name);
            all.extend(events);
            return all;
        }
        match (self.0.get_mut(id), record) {
            (Some(waiting), _) => waiting.events.extend(events),
            (None, Some(record)) if has(What::Attached) => {
                let (record, since) = (Box::new(record.clone()), Instant::now());
                self.0.insert(id.clone(), Waiting { record, events, since });
            }
            (None, _) => return events,
        }
        Vec::new()
    }

    /// What waits for the name of an interface, with that name.
    fn take(&mut self, id: &AttachmentId, name: Option<&IfName>) -> Vec<Event> {
        let mut events = self.0.remove(id).map(|waiting| waiting.events).unwrap_or_default();
        events.iter_mut().for_each(|event| event.interface = name.map(ToString::to_string));
        events
    }

    /// Those that have a name by now, and those that have waited for long enough.
    pub(super) fn due(
        &mut self,
        named: impl Fn(&Attachment) -> Option<IfName>,
    ) -> Vec<(AttachmentId, Option<IfName>, Vec<Event>)> {
        let look = |(id, waiting): (&AttachmentId, &Waiting)| {
            let name = named(&waiting.record);
            let is_due = name.is_some() || waiting.since.elapsed() > LIMIT;
            is_due.then(|| (id.clone(), name))
        };
        let due: Vec<_> = self.0.iter().filter_map(look).collect();
        let taken = due.into_iter().map(|(id, name)| {
            let events = self.take(&id, name.as_ref());
            (id, name, events)
        });
        taken.collect()
    }
}
