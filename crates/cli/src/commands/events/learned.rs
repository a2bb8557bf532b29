//! Names of containers that the daemon learned after it wrote down what happened to them. An id of Docker's endpoint
//! is never given again, so that no later holder of an address is taken for an earlier one.

use std::collections::HashMap;

use host::denied::Denied;
use host::event::Event;
use model::Runtime;

use super::reported;
use crate::context::CommandContext;

/// The names of Docker's containers by the ids of their endpoints.
type Names = HashMap<String, String>;

/// As far as the book or one of these events has them. Without the book, what was written is shown as it is.
fn names(events: &[Event], context: &CommandContext) -> Names {
    let mut names = of_events(events);
    let records = (context.engine)().and_then(|engine| engine.records.attachments());
    let of_docker = records.unwrap_or_default().into_iter().filter_map(|record| {
        let name = record.owner.filter(|_| record.runtime == Runtime::Docker)?;
        Some((record.id.container.to_string(), name.to_string()))
    });
    names.extend(of_docker);
    names
}

fn of_events(events: &[Event]) -> Names {
    let docker = Runtime::Docker.to_string();
    let named = events.iter().filter(|event| event.runtime.as_ref() == Some(&docker));
    named.filter_map(|event| Some((event.container.clone()?, event.name.clone()?))).collect()
}

/// Says the names where these events, which are all that there are, have none.
pub(crate) fn name_events(events: &mut [Event], context: &CommandContext) {
    let names = names(events, context);
    call_events(events, &names);
}

fn call_events(events: &mut [Event], names: &Names) {
    for event in events.iter_mut().filter(|event| event.name.is_none()) {
        let Some(id) = &event.container else { continue };
        let Some(name) = names.get(id) else { continue };
        if let Some(rest) = event.message.strip_prefix(id.as_str()) {
            event.message = format!("{name}{rest}");
        }
        event.name = Some(name.clone());
    }
}

/// The same of what was refused.
pub(crate) fn name_denied(all: &mut [Denied], context: &CommandContext) {
    if all.iter().any(|denied| denied.id.is_some()) {
        call_denied(all, &names(&reported(&context.events), context));
    }
}

fn call_denied(all: &mut [Denied], names: &Names) {
    for denied in all.iter_mut().filter(|denied| denied.container.is_none()) {
        denied.container = denied.id.as_ref().and_then(|id| names.get(id)).cloned();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use model::Timestamp;

    use super::*;
    use host::denied::Act;
    use host::event::What;

    const ID: &str = "92ddfa92f5a2";

    fn event(what: What, id: &str, name: Option<&str>, message: &str) -> Event {
        Event {
            container: Some(id.to_owned()),
            name: name.map(str::to_owned),
            runtime: Some("docker".to_owned()),
            ..Event::new(what, Timestamp(1), message)
        }
    }

    #[test]
    fn what_happened_before_a_name_was_known_has_it() {
        let mut events = [
            event(What::Attached, ID, None, "92ddfa92f5a2 is on network front with 10.0.0.2/24"),
            event(What::Attached, "77", None, "77 is on network front with 10.0.0.2/24"),
            event(What::Detached, ID, Some("web"), "web left network front"),
        ];
        let names = of_events(&events);
        call_events(&mut events, &names);
        assert_eq!(events[0].message, "web is on network front with 10.0.0.2/24");
        assert_eq!(events[0].name.as_deref(), Some("web"));
        assert_eq!(events[1].message, "77 is on network front with 10.0.0.2/24");
    }

    #[test]
    fn a_later_holder_of_an_address_is_not_taken_for_an_earlier_one() {
        let source: IpAddr = "10.0.0.2".parse().unwrap();
        let denied = |id: Option<&str>| Denied {
            id: id.map(str::to_owned),
            ..Denied::new(Timestamp(1), "front".to_owned(), source, Act::NameRefused)
        };
        let mut all = [denied(Some(ID)), denied(Some("77")), denied(None)];
        call_denied(&mut all, &Names::from([(ID.to_owned(), "web".to_owned())]));
        let containers = all.each_ref().map(|one| one.container.as_deref());
        assert_eq!(containers, [Some("web"), None, None]);
    }
}
