//! One container.

use crate::events;
use crate::frame::{clock, tag, to_network};
use crate::html::{Html, short};
use crate::ports;
use crate::shown::{Attachment, Container};
use crate::target::explain_link;

/// No more ports are listed: a range may have thousands.
const PORTS: usize = 100;
/// A label's value is cut here.
const LABEL: usize = 4096;

pub(crate) fn write(html: &mut Html, container: &Container) {
    html.el("p", &[("class", "sum")], |html| {
        tag(html, &container.runtime);
        html.text(" ");
        html.leaf("a", &[("href", "containers")], "All containers");
        html.text(" ");
        let from = format!("{}/{}", container.runtime, container.name);
        html.leaf("a", &[("href", &explain_link(&from))], "What it reaches");
    });
    if container.attachments.is_empty() {
        html.leaf("p", &[("class", "empty")], "It is attached to no network now.");
    }
    if !container.attachments.is_empty() {
        html.el("div", &[("class", "cards")], |html| {
            container.attachments.iter().for_each(|one| attachment(html, one));
        });
    }
    section(html, "Published ports", !container.ports.is_empty(), |html| {
        ports::table(html, container.ports.get(..PORTS).unwrap_or(&container.ports), false);
        if container.ports.len() > PORTS {
            html.el("p", &[], |html| html.leaf("a", &[("href", "ports")], "All ports"));
        }
    });
    section(html, "Found by these names", !container.names.is_empty(), |html| {
        html.el("ul", &[], |html| {
            for (name, place) in &container.names {
                html.el("li", &[], |html| {
                    html.leaf("code", &[], &short(name, 120));
                    html.text(" on ");
                    to_network(html, &place.network, place.title.as_deref());
                });
            }
        });
    });
    let labels: Vec<&(String, String)> =
        container.attachments.iter().flat_map(|one| &one.labels).collect();
    section(html, "Labels", !labels.is_empty(), |html| {
        html.el("dl", &[("class", "labels")], |html| {
            for (key, value) in &labels {
                html.leaf("dt", &[], &short(key, 120));
                html.leaf("dd", &[], &short(value, LABEL));
            }
        });
    });
    section(html, "Events", !container.events.is_empty(), |html| {
        events::table(html, &container.events);
    });
}

fn section(html: &mut Html, title: &str, is_shown: bool, inner: impl FnOnce(&mut Html)) {
    if is_shown {
        html.el("section", &[("aria-label", title)], |html| {
            html.leaf("h2", &[], title);
            inner(html);
        });
    }
}

fn attachment(html: &mut Html, one: &Attachment) {
    html.el("section", &[("class", "card")], |html| {
        html.el("h2", &[], |html| to_network(html, &one.network, one.title.as_deref()));
        html.el("dl", &[("class", "facts")], |html| {
            let mut fact = |name: &str, value: &str, class: &str| {
                if !value.is_empty() {
                    html.el("div", &[], |html| {
                        html.leaf("dt", &[], name);
                        html.leaf("dd", &[("class", class)], value);
                    });
                }
            };
            fact("Addresses", &one.addresses.join(", "), "mono");
            fact("Interface", &one.interface, "mono");
            fact("MAC", one.mac.as_deref().unwrap_or_default(), "mono");
            fact("Driver", one.driver.as_deref().unwrap_or_default(), "");
            fact("State", &one.state, "");
            fact("Since", &clock(&one.since), "");
            fact("Other names", &short(&one.names.join(", "), LABEL), "");
            fact("Id", &one.id, "mono");
            fact("Namespace", &short(one.sandbox.as_deref().unwrap_or_default(), 200), "mono");
        });
    });
}
