//! Published ports.

use std::net::IpAddr;

use crate::frame::{cell, columns, parts, tag, to_container, to_network};
use crate::html::{Html, counted, short};
use crate::shown::{Port, Ports};
use crate::target::link;

/// A name that leads nowhere is cut here.
const NAME: usize = 48;

pub(crate) fn write(html: &mut Html, ports: &Ports) {
    match ports.ports.is_empty() {
        true => html.leaf("p", &[("class", "empty")], "No container publishes a port."),
        false => {
            let count = format!("{} of this host", counted(ports.all, "published port"));
            html.leaf("p", &[("class", "sum")], &count);
            table(html, &ports.ports, true);
        }
    }
    parts(html, ports.part, &|number| link("ports", &[("page", &number.to_string())]));
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
            let from = from(port);
            let class = if from == ANYWHERE { "reach any" } else { "reach" };
            html.leaf("span", &[("class", class)], from);
        });
        html.el("td", &[("data-of", "At address"), ("class", "mono")], |html| {
            html.text(port.host.as_deref().unwrap_or("all"));
        });
        html.el("td", &[("data-of", "Leads to"), ("class", "mono")], |html| {
            port.to.iter().for_each(|to| html.leaf("div", &[], to));
        });
        cell(html, "Network", |html| network(html, port));
        if of_all {
            cell(html, "Container", |html| {
                html.el("div", &[], |html| {
                    match port.is_beside {
                        true => html.text(&short(&port.name, NAME)),
                        false => to_container(html, &port.name, &port.runtime),
                    }
                    html.text(" ");
                    tag(html, &port.runtime);
                });
            });
        }
    });
}

fn network(html: &mut Html, port: &Port) {
    if !port.is_beside {
        return to_network(html, &port.network, port.title.as_deref());
    }
    html.el("div", &[], |html| {
        html.text(&short(port.title.as_ref().unwrap_or(&port.network), NAME));
        html.text(" ");
        tag(html, "Docker's own");
    });
}

const ANYWHERE: &str = "anywhere";

/// From where, for people. Nothing comes to a loopback address from another host.
fn from(port: &Port) -> &str {
    let host = port.host.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
    if host.is_some_and(|host| host.is_loopback()) {
        return "this host";
    }
    match port.reach.as_str() {
        "any" => ANYWHERE,
        "lan" => "connected subnets",
        "local" => "this host",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reaches_a_port() {
        let from_of = |host: Option<&str>, reach: &str| {
            let port = Port { host: host.map(Into::into), reach: reach.into(), ..Port::default() };
            from(&port).to_owned()
        };
        assert_eq!(from_of(None, "any"), "anywhere");
        assert_eq!(from_of(Some("192.0.2.1"), "lan"), "connected subnets");
        assert_eq!(from_of(Some("127.0.0.1"), "any"), "this host");
        assert_eq!(from_of(Some("::1"), "lan"), "this host");
    }

    #[test]
    fn what_has_no_view_is_no_link() {
        let written = |is_beside| {
            let port = Port {
                name: "till".into(),
                runtime: "docker".into(),
                network: "shop".into(),
                is_beside,
                ..Port::default()
            };
            let mut html = Html::default();
            table(&mut html, &[port], true);
            html.into_string()
        };
        let (ours, beside) = (written(false), written(true));
        assert!(ours.contains("href") && !ours.contains("own"), "{ours}");
        assert!(!beside.contains("href") && beside.contains("Docker&#39;s own"), "{beside}");
        assert!(beside.contains("till") && beside.contains("shop"), "{beside}");
    }
}
