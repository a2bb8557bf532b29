//! Published ports.

use crate::frame::{cell, columns, tag, to_container, to_network};
use crate::html::{Html, counted};
use crate::shown::Port;

pub(crate) fn write(html: &mut Html, ports: &[Port]) {
    match ports.is_empty() {
        true => html.leaf("p", &[("class", "empty")], "No container publishes a port."),
        false => {
            let count = format!("{} of this host published", counted(ports.len(), "port"));
            html.leaf("p", &[("class", "sum")], &count);
            table(html, ports, true);
        }
    }
}

/// With the container where `of_all`.
pub(crate) fn table(html: &mut Html, ports: &[Port], of_all: bool) {
    html.el("table", &[], |html| {
        html.leaf("caption", &[("class", "quiet")], "Published ports");
        let names = ["Port", "Reached from", "At address", "Leads to", "Network", "Container"];
        columns(html, if of_all { &names } else { names.get(..5).unwrap_or(&names) });
        html.el("tbody", &[], |html| ports.iter().for_each(|port| row(html, port, of_all)));
    });
}

fn row(html: &mut Html, port: &Port, of_all: bool) {
    html.el("tr", &[], |html| {
        html.el("th", &[("scope", "row"), ("class", "mono")], |html| {
            html.text(&port.port.to_string());
            html.leaf("span", &[("class", "faint")], &format!("/{}", port.protocol));
        });
        cell(html, "Reached from", |html| {
            let class = if port.reach == "any" { "reach any" } else { "reach" };
            html.leaf("span", &[("class", class)], from(&port.reach));
        });
        html.el("td", &[("data-of", "At address"), ("class", "mono")], |html| {
            html.text(port.host.as_deref().unwrap_or("all"));
        });
        html.el("td", &[("data-of", "Leads to"), ("class", "mono")], |html| html.text(&port.to));
        cell(html, "Network", |html| to_network(html, &port.network));
        if of_all {
            cell(html, "Container", |html| {
                to_container(html, &port.name, &port.runtime);
                html.text(" ");
                tag(html, &port.runtime);
            });
        }
    });
}

/// From where, for people.
fn from(reach: &str) -> &str {
    match reach {
        "any" => "anywhere",
        "lan" => "connected subnets",
        "local" => "this host",
        other => other,
    }
}
