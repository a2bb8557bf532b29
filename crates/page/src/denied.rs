//! What egress rules refused, newest first.

use crate::frame::{cell, clock, columns, parts, to_container, to_network};
use crate::html::{Html, counted, short};
use crate::shown::{Refusal, Refusals};
use crate::target::link;

/// A name that was asked for is cut here.
const TARGET: usize = 120;

pub(crate) fn write(html: &mut Html, refusals: &Refusals) {
    html.el("p", &[("class", "sum")], |html| {
        html.text(&counted(refusals.found, "refusal"));
        if let Some(network) = &refusals.network {
            html.text(&format!(" on {network}. "));
            html.leaf("a", &[("href", "denied")], "All networks");
        }
    });
    match refusals.refusals.is_empty() {
        true => html.leaf("p", &[("class", "empty")], "Nothing was refused."),
        false => table(html, &refusals.refusals),
    }
    let network = refusals.network.as_deref().unwrap_or_default();
    parts(html, refusals.part, &|number| {
        link("denied", &[("network", network), ("page", &number.to_string())])
    });
}

fn table(html: &mut Html, refusals: &[Refusal]) {
    html.el("table", &[], |html| {
        html.leaf("caption", &[("class", "quiet")], "What egress rules refused, newest first");
        columns(html, &["Time", "Container", "To", "What", "Why", "Network"]);
        html.el("tbody", &[], |html| refusals.iter().for_each(|one| row(html, one)));
    });
}

fn row(html: &mut Html, refusal: &Refusal) {
    html.el("tr", &[], |html| {
        html.el("td", &[("data-of", "Time"), ("class", "mono")], |html| {
            html.leaf("time", &[("datetime", &refusal.time)], &clock(&refusal.time));
        });
        cell(html, "Container", |html| match &refusal.runtime {
            Some(runtime) => to_container(html, &refusal.who, runtime),
            None => html.text(&refusal.who),
        });
        html.el("td", &[("data-of", "To"), ("class", "mono")], |html| {
            html.text(&short(&refusal.to, TARGET));
        });
        cell(html, "What", |html| html.text(&refusal.what));
        cell(html, "Why", |html| html.text(&refusal.why));
        cell(html, "Network", |html| to_network(html, &refusal.network, refusal.title.as_deref()));
    });
}
