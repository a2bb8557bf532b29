//! Containers in a table, with the filter.

use std::collections::BTreeSet;

use crate::frame::{cell, columns, parts, tag, to_container, to_network};
use crate::html::{Html, counted, short};
use crate::shown::{Attachment, Containers, Network};
use crate::target::{Filter, link};

/// A cell shows no more ports or addresses than this.
const SHOWN: usize = 4;

/// The URL of a part of the list.
fn url(filter: &Filter, number: usize) -> String {
    let number = if number > 1 { number.to_string() } else { String::new() };
    link(
        "containers",
        &[
            ("q", &filter.text),
            ("runtime", &filter.runtime),
            ("network", &filter.network),
            ("page", &number),
        ],
    )
}

pub(crate) fn write(html: &mut Html, containers: &Containers) {
    filter(html, containers);
    if let Some(network) = &containers.network {
        of_network(html, network);
    }
    let count = match containers.found == containers.all {
        true => counted(containers.all, "container"),
        false => format!("{} of {} containers", containers.found, containers.all),
    };
    html.leaf("p", &[("class", "sum"), ("role", "status")], &count);
    if containers.attachments.is_empty() {
        html.leaf("p", &[("class", "empty")], "No container is attached here.");
        return;
    }
    html.el("table", &[], |html| {
        html.leaf("caption", &[("class", "quiet")], "Containers by name");
        columns(html, &["Name", "Runtime", "Network", "Address", "Ports", "Up"]);
        html.el("tbody", &[], |html| {
            let same = |one: &Attachment, next: &Attachment| {
                (&one.runtime, &one.name) == (&next.runtime, &next.name)
            };
            containers.attachments.chunk_by(same).for_each(|group| row(html, group));
        });
    });
    parts(html, containers.part, &|number| url(&containers.filter, number));
}

/// Links, which work without the script; it adds a text field.
fn filter(html: &mut Html, containers: &Containers) {
    let filter = &containers.filter;
    html.el("div", &[("class", "filter")], |html| {
        html.el("span", &[("id", "find"), ("data-value", &filter.text)], |_| {});
        html.el("ul", &[("aria-label", "Runtimes")], |html| {
            let all = [String::new()];
            for runtime in all.iter().chain(&containers.runtimes) {
                let wanted = Filter { runtime: runtime.clone(), ..filter.clone() };
                let name = if runtime.is_empty() { "all runtimes" } else { runtime };
                let url = url(&wanted, 1);
                html.el("li", &[], |html| match *runtime == filter.runtime {
                    true => html.leaf("a", &[("href", &url), ("aria-current", "true")], name),
                    false => html.leaf("a", &[("href", &url)], name),
                });
            }
        });
        // Always there, so that the script replaces it alone.
        html.el("p", &[], |html| only(html, containers));
    });
}

fn only(html: &mut Html, containers: &Containers) {
    let filter = &containers.filter;
    let mut words = Vec::new();
    if !filter.network.is_empty() {
        let called =
            containers.network.as_ref().map_or(filter.network.as_str(), |network| network.called());
        words.push(format!("network {}", short(called, 40)));
    }
    if !filter.text.is_empty() {
        words.push(format!("“{}”", short(&filter.text, 40)));
    }
    if !words.is_empty() {
        html.text(&format!("Only {}. ", words.join(", ")));
        html.leaf("a", &[("href", "containers")], "Show all");
    }
}

fn of_network(html: &mut Html, network: &Network) {
    html.el("dl", &[("class", "facts")], |html| {
        let mut fact = |name: &str, value: &str| {
            if !value.is_empty() {
                html.el("div", &[], |html| {
                    html.leaf("dt", &[], name);
                    html.leaf("dd", &[], value);
                });
            }
        };
        fact("Name here", network.title.as_ref().map_or("", |_| &network.name));
        fact("State", &network.state);
        fact("Subnets", &network.subnets.join(", "));
        fact("Driver", &network.driver);
        fact("Device", network.device.as_deref().unwrap_or_default());
        fact("Parent", network.parent.as_deref().unwrap_or_default());
        fact("Made by", &network.runtime);
        fact("Called", &network.titles.join(", "));
        fact("Leads out", if network.internal { "no: internal" } else { "yes" });
    });
}

fn row(html: &mut Html, group: &[Attachment]) {
    let Some(first) = group.first() else { return };
    html.el("tr", &[], |html| {
        html.el("th", &[("scope", "row")], |html| {
            to_container(html, &first.name, &first.runtime);
        });
        cell(html, "Runtime", |html| tag(html, &first.runtime));
        cell(html, "Network", |html| {
            for one in group {
                html.el("div", &[], |html| to_network(html, &one.network, one.title.as_deref()));
            }
        });
        html.el("td", &[("data-of", "Address"), ("class", "mono")], |html| {
            several(html, group.iter().flat_map(|one| &one.addresses));
        });
        html.el("td", &[("data-of", "Ports"), ("class", "mono")], |html| {
            several(html, group.iter().flat_map(|one| &one.ports));
        });
        cell(html, "Up", |html| match first.state.as_str() {
            "attached" => html.text(&first.age),
            state => html.text(state),
        });
    });
}

/// A few values below each other.
fn several<'a>(html: &mut Html, values: impl Iterator<Item = &'a String>) {
    let mut values: Vec<&String> = values.collect();
    // A container publishes on each of its networks.
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(*value));
    for value in values.iter().take(SHOWN) {
        html.leaf("div", &[], &short(value, 60));
    }
    if values.len() > SHOWN {
        html.leaf("div", &[], &format!("and {} more", values.len() - SHOWN));
    }
}
