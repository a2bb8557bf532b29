//! Events, as `spoke events` has them.

use std::collections::BTreeMap;

use config::Level;
use host::event;
use host::time::rfc3339;
use model::Timestamp;
use page::shown::{Day, Event, Events, ListPart};

use crate::commands::events::{learned, reported, titles};
use crate::context::CommandContext;
use crate::titles::Titles;

/// A part of the list has so many events.
const MOST: usize = 100;
/// The bars are those of so many days.
const DAYS: usize = 31;
/// The characters of a time that are its day.
const DAY: usize = 10;

fn shown(event: event::Event, titles: &Titles) -> Event {
    let message = titles.sentence(&event);
    Event {
        time: rfc3339(Timestamp(event.time)),
        kind: event.event.name(),
        is_trouble: event.event.level() <= Level::Warn,
        message,
        name: event.name.or(event.container),
        runtime: event.runtime,
    }
}

/// All of them, with names that became known later.
fn named(context: &CommandContext) -> Vec<event::Event> {
    let mut all = reported(&context.events);
    learned::name_events(&mut all, context);
    all
}

/// The last of those that are wanted, newest first.
pub(super) fn last(
    most: usize,
    context: &CommandContext,
    is_wanted: impl Fn(&event::Event) -> bool,
) -> Vec<Event> {
    let all = named(context).into_iter().rev();
    let titles = titles(context);
    all.filter(is_wanted).take(most).map(|event| shown(event, &titles)).collect()
}

pub(super) fn events(day: Option<&str>, number: usize, context: &CommandContext) -> Events {
    let titles = titles(context);
    let all = named(context).into_iter().rev().map(|event| shown(event, &titles));
    let all: Vec<Event> = all.collect();
    let days = days(&all);
    let of_day = |event: &Event| day.is_none_or(|day| event.time.starts_with(day));
    let found: Vec<Event> = all.into_iter().filter(of_day).collect();
    let count = found.len();
    let (events, part) = ListPart::of(found, number, MOST);
    Events { events, day: day.map(str::to_owned), days, part, found: count }
}

/// The days on which something happened, oldest first.
fn days(all: &[Event]) -> Vec<Day> {
    let mut days: BTreeMap<&str, Day> = BTreeMap::new();
    for event in all {
        let name = event.time.get(..DAY).unwrap_or_default();
        let day = days.entry(name).or_default();
        day.count += 1;
        day.troubles += usize::from(event.is_trouble);
    }
    let first = days.len().saturating_sub(DAYS);
    let named = |(name, day): (&str, Day)| Day { day: name.to_owned(), ..day };
    days.into_iter().skip(first).map(named).collect()
}
