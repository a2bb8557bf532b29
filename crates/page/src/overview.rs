//! The overview: figures, what is wrong, the picture, the last events.

use std::collections::BTreeSet;

use crate::events;
use crate::html::Html;
use crate::picture::{self, Size};
use crate::shown::Overview;

pub(crate) fn write(html: &mut Html, overview: &Overview) {
    figures(html, overview);
    if !overview.troubles.is_empty() {
        html.el("section", &[("class", "troubles"), ("aria-label", "What is wrong")], |html| {
            html.leaf("h2", &[], "Needs attention");
            html.el("ul", &[], |html| {
                overview.troubles.iter().for_each(|trouble| html.leaf("li", &[], trouble));
            });
            html.el("p", &[], |html| html.leaf("a", &[("href", "checks")], "All checks"));
        });
    }
    html.el("section", &[("aria-labelledby", "networks")], |html| {
        html.leaf("h2", &[("id", "networks")], "Networks");
        match overview.networks.is_empty() {
            true => empty(html),
            false => {
                picture::write(html, overview, Size::Wide);
                picture::write(html, overview, Size::Narrow);
                picture::legend(html);
            }
        }
    });
    html.el("section", &[("aria-labelledby", "last")], |html| {
        html.leaf("h2", &[("id", "last")], "Last events");
        match overview.events.is_empty() {
            true => html.leaf("p", &[("class", "empty")], "Nothing has happened yet."),
            false => events::table(html, &overview.events),
        }
        html.el("p", &[], |html| html.leaf("a", &[("href", "events")], "All events"));
    });
}

fn empty(html: &mut Html) {
    html.el("p", &[("class", "empty")], |html| {
        html.text("There is no network yet. Make one: ");
        html.leaf("code", &[], "spoke network create front");
    });
}

fn figures(html: &mut Html, overview: &Overview) {
    let containers: BTreeSet<(&str, &str)> =
        overview.attachments.iter().map(|one| (one.runtime.as_str(), one.name.as_str())).collect();
    html.el("div", &[("class", "figures")], |html| {
        let mut figure = |count: u64, name: &str, url: &str| {
            html.el("a", &[("href", url)], |html| {
                html.leaf("strong", &[], &number(count));
                html.text(" ");
                html.leaf("span", &[], name);
            });
        };
        figure(containers.len() as u64, "containers", "containers");
        figure(overview.networks.len() as u64, "networks", "#networks");
        figure(overview.ports as u64, "ports", "ports");
        figure(overview.addresses.used, "addresses", "addresses");
        figure(overview.addresses.free, "IPv4 free", "addresses");
        if overview.addresses.quarantined > 0 {
            figure(overview.addresses.quarantined, "in quarantine", "addresses");
        }
    });
}

/// With a thin space between thousands; a power of ten where there are too many digits to read.
pub(crate) fn number(count: u64) -> String {
    match count {
        1_000_000_000.. => return format!("{:.1e}", count as f64),
        1_000_000.. => return format!("{:.2}\u{a0}M", count as f64 / 1e6),
        _ => {}
    }
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(number(999), "999");
        assert_eq!(number(65_534), "65\u{202f}534");
        assert_eq!(number(1_052_795), "1.05\u{a0}M");
        assert_eq!(number(u64::MAX), "1.8e19");
    }
}
