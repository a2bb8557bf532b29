//! Events, newest first.

use crate::days;
use crate::frame::{cell, clock, columns, parts, to_container};
use crate::html::{Html, counted, short};
use crate::shown::{Event, Events};
use crate::target::link;

/// A message is cut here: it may quote what another program wrote.
const MESSAGE: usize = 400;

pub(crate) fn write(html: &mut Html, events: &Events) {
    days::write(html, &events.days, events.day.as_deref());
    html.el("p", &[("class", "sum")], |html| {
        html.text(&counted(events.found, "event"));
        if let Some(day) = &events.day {
            html.text(&format!(" on {day}. "));
            html.leaf("a", &[("href", "events")], "All days");
        }
    });
    match events.events.is_empty() {
        true => html.leaf("p", &[("class", "empty")], "Nothing has happened."),
        false => table(html, &events.events),
    }
    let day = events.day.as_deref().unwrap_or_default();
    parts(html, events.part, &|number| {
        link("events", &[("day", day), ("page", &number.to_string())])
    });
}

pub(crate) fn table(html: &mut Html, events: &[Event]) {
    html.el("table", &[("class", "events")], |html| {
        html.leaf("caption", &[("class", "quiet")], "Events, newest first");
        columns(html, &["Time", "Event", "What"]);
        let day = |event: &Event| event.time.get(..10).unwrap_or_default().to_owned();
        for of_day in events.chunk_by(|one, next| day(one) == day(next)) {
            html.el("tbody", &[], |html| {
                let name = of_day.first().map(day).unwrap_or_default();
                html.el("tr", &[("class", "day")], |html| {
                    html.leaf("th", &[("colspan", "3"), ("scope", "rowgroup")], &name);
                });
                of_day.iter().for_each(|event| row(html, event));
            });
        }
    });
}

fn row(html: &mut Html, event: &Event) {
    html.el("tr", &[], |html| {
        let time = clock(&event.time);
        html.el("td", &[("data-of", "Time"), ("class", "mono")], |html| {
            let short = time.get(11..19).unwrap_or(&time);
            html.leaf("time", &[("datetime", &event.time)], short);
        });
        cell(html, "Event", |html| {
            let class = if event.is_trouble { "kind trouble" } else { "kind" };
            html.leaf("span", &[("class", class)], &event.kind);
        });
        cell(html, "What", |html| {
            let message = short(&event.message, MESSAGE);
            // The sentence begins with the name of its container.
            let rest = event.name.as_ref().and_then(|name| message.strip_prefix(name.as_str()));
            match (&event.name, &event.runtime, rest) {
                (Some(name), Some(runtime), Some(rest)) => {
                    to_container(html, name, runtime);
                    html.text(rest);
                }
                _ => html.text(&message),
            }
        });
    });
}
