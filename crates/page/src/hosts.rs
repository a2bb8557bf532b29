//! The hosts of a cluster.

use crate::frame::{cell, columns, to_network};
use crate::html::Html;
use crate::shown::{Hosts, Member};

pub(crate) fn write(html: &mut Html, hosts: &Hosts) {
    for note in &hosts.notes {
        html.leaf("p", &[("class", "note")], note);
    }
    if hosts.hosts.is_empty() {
        html.leaf("p", &[("class", "empty")], "Nothing is known of the cluster's hosts yet.");
        return;
    }
    html.el("table", &[], |html| {
        html.leaf("caption", &[("class", "quiet")], "Hosts of this cluster");
        columns(html, &["Host", "State", "Address", "Containers", "Leases from"]);
        html.el("tbody", &[], |html| hosts.hosts.iter().for_each(|host| row(html, host)));
    });
}

fn row(html: &mut Html, host: &Member) {
    html.el("tr", &[], |html| {
        html.el("th", &[("scope", "row")], |html| {
            html.text(&host.name);
            if host.own {
                html.leaf("span", &[("class", "tag")], "this host");
            }
        });
        cell(html, "State", |html| {
            let class = if host.state == "up" { "kind" } else { "kind trouble" };
            html.leaf("span", &[("class", class)], &host.state);
        });
        html.el("td", &[("data-of", "Address"), ("class", "mono")], |html| {
            html.text(&host.address)
        });
        cell(html, "Containers", |html| html.text(&host.containers.to_string()));
        cell(html, "Leases from", |html| {
            for (network, block) in &host.blocks {
                html.el("div", &[], |html| {
                    to_network(html, network, None);
                    html.text(" ");
                    html.leaf("span", &[("class", "mono")], block);
                });
            }
        });
    });
}
