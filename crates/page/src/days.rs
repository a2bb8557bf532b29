//! How many events each day has, as bars.

use crate::html::{Html, counted};
use crate::shown::Day;
use crate::target::link;

const STEP: usize = 34;
const HEIGHT: usize = 64;

pub(crate) fn write(html: &mut Html, days: &[Day], chosen: Option<&str>) {
    if days.len() < 2 {
        return;
    }
    let most = days.iter().map(|day| day.count).max().unwrap_or(1).max(1);
    let view = format!("0 0 {} {}", days.len() * STEP, HEIGHT + 18);
    let attributes = [
        ("class", "days"),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "xMinYMin"),
        ("role", "group"),
        ("aria-label", "Events of each day"),
    ];
    html.el("svg", &attributes, |html| {
        for (at, day) in days.iter().enumerate() {
            bar(html, day, at * STEP, most, chosen == Some(day.day.as_str()));
        }
    });
}

fn bar(html: &mut Html, day: &Day, x: usize, most: usize, is_chosen: bool) {
    let mut attributes = vec![("href", link("events", &[("day", &day.day)]))];
    attributes.extend(is_chosen.then(|| ("aria-current", "true".to_owned())));
    let attributes: Vec<_> =
        attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
    html.el("a", &attributes, |html| {
        let mut title = format!("{}: {}", day.day, counted(day.count, "event"));
        if day.troubles > 0 {
            title.push_str(&format!(", {} of them troubles", day.troubles));
        }
        html.leaf("title", &[], &title);
        part(html, "all", (x, STEP, HEIGHT + 18), HEIGHT + 18);
        let tall = |count: usize| (count * (HEIGHT - 4)).div_ceil(most);
        part(html, "bar", (x + 3, STEP - 6, HEIGHT), tall(day.count));
        part(html, "bar trouble", (x + 3, STEP - 6, HEIGHT), tall(day.troubles));
        let (x, y) = ((x + STEP / 2).to_string(), (HEIGHT + 14).to_string());
        html.leaf("text", &[("x", &x), ("y", &y)], day.day.get(8..).unwrap_or_default());
    });
}

/// A rectangle that stands on `bottom`.
fn part(html: &mut Html, class: &str, (x, width, bottom): (usize, usize, usize), tall: usize) {
    if tall == 0 {
        return;
    }
    let (x, y) = (x.to_string(), bottom.saturating_sub(tall).to_string());
    let (width, height) = (width.to_string(), tall.to_string());
    let place = [
        ("class", class),
        ("x", &x),
        ("y", &y),
        ("width", &width),
        ("height", &height),
        ("rx", "3"),
    ];
    html.el("rect", &place, |_| {});
}
