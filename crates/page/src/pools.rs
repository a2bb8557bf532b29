//! Addresses: each pool with who holds what.

use crate::frame::{cell, columns, parts, tag, to_container, to_network};
use crate::grid;
use crate::html::Html;
use crate::overview::number;
use crate::shown::{Pool, Pools, State, Taken};
use crate::target::link;

/// So many addresses of a pool without a grid are listed beside others.
const LISTED: usize = 10;
/// No list of one network's addresses is longer.
const MOST: usize = 256;
/// So many free ranges are listed.
const RANGES: usize = 12;

pub(crate) fn write(html: &mut Html, pools: &Pools) {
    if let Some(network) = &pools.network {
        html.el("p", &[("class", "sum")], |html| {
            html.text("Network ");
            let shown = pools.pools.first().and_then(|pool| pool.title.as_deref());
            to_network(html, network, shown);
            html.text(" only. ");
            html.leaf("a", &[("href", "addresses")], "All networks");
        });
    }
    if pools.pools.is_empty() {
        html.leaf("p", &[("class", "empty")], "No network has a pool of addresses here.");
        return;
    }
    legend(html);
    html.el("div", &[("class", "pools")], |html| {
        pools.pools.iter().for_each(|pool| one(html, pool, pools.network.is_some()));
    });
    let network = pools.network.as_deref().unwrap_or_default();
    parts(html, pools.part, &|number| {
        link("addresses", &[("network", network), ("page", &number.to_string())])
    });
}

fn legend(html: &mut Html) {
    html.el("ul", &[("class", "legend")], |html| {
        for (class, word) in [
            ("held", "held"),
            ("reserved", "reserved"),
            ("quarantined", "quarantine: may be in use"),
            ("gateway", "gateway"),
            ("free", "free"),
        ] {
            html.el("li", &[], |html| {
                let icon = [
                    ("class", "key"),
                    ("viewBox", "0 0 20 20"),
                    ("aria-hidden", "true"),
                    ("focusable", "false"),
                ];
                html.el("svg", &icon, |html| {
                    let round = if class == "gateway" { "9" } else { "4" };
                    let rect = [("class", class), ("x", "1"), ("y", "1"), ("rx", round)];
                    let rect =
                        [rect[0], rect[1], rect[2], rect[3], ("width", "18"), ("height", "18")];
                    html.el("rect", &rect, |_| {});
                });
                html.text(word);
            });
        }
    });
}

fn one(html: &mut Html, pool: &Pool, is_alone: bool) {
    let class = if is_alone { "pool alone" } else { "pool" };
    html.el("section", &[("class", class)], |html| {
        html.el("h2", &[], |html| {
            html.leaf("span", &[("class", "mono")], &pool.subnet);
            html.text(" ");
            // A page that is of this network alone would lead to itself.
            let called = pool.title.as_ref().unwrap_or(&pool.network);
            if is_alone {
                html.leaf("span", &[("class", "of")], called);
            } else {
                let url = link("addresses", &[("network", &pool.network)]);
                html.leaf("a", &[("href", &url), ("class", "of")], called);
            }
        });
        html.leaf("p", &[("class", "sum")], &sum(pool));
        if grid::fits(pool) {
            grid::write(html, pool);
        }
        if is_alone || !grid::fits(pool) {
            list(html, pool, if is_alone { MOST } else { LISTED });
        }
        if is_alone && !pool.free_ranges.is_empty() {
            free(html, pool);
        }
    });
}

fn sum(pool: &Pool) -> String {
    let mut words = vec![format!("{} held", number(pool.used))];
    for (count, word) in [(pool.reserved, "reserved"), (pool.quarantined, "in quarantine")] {
        if count > 0 {
            words.push(format!("{} {word}", number(count)));
        }
    }
    // An IPv6 subnet has more than a number says.
    if grid::fits(pool) {
        words.push(format!("{} free of {}", number(pool.free), number(pool.size)));
    }
    words.join(" · ")
}

fn list(html: &mut Html, pool: &Pool, most: usize) {
    if pool.taken.is_empty() {
        html.leaf("p", &[("class", "empty")], "Nothing is held.");
        return;
    }
    html.el("table", &[], |html| {
        html.leaf("caption", &[], "Addresses that are not free");
        columns(html, &["Address", "State", "Holder", "Interface", "Since"]);
        html.el("tbody", &[], |html| {
            pool.taken.iter().take(most).for_each(|taken| row(html, taken));
        });
    });
    if pool.taken.len() > most {
        let more = format!("{} more", pool.taken.len() - most);
        html.el("p", &[], |html| match most {
            LISTED => {
                let url = link("addresses", &[("network", &pool.network)]);
                html.leaf("a", &[("href", &url)], &more);
            }
            _ => {
                html.text(&format!("{more}: "));
                html.leaf("code", &[], &format!("spoke ipam show {}", pool.network));
            }
        });
    }
}

fn row(html: &mut Html, taken: &Taken) {
    html.el("tr", &[], |html| {
        let head = [("scope", "row"), ("class", "mono")];
        html.leaf("th", &head, &taken.address.to_string());
        cell(html, "State", |html| html.text(taken.state.word()));
        cell(html, "Holder", |html| match taken.state {
            State::Held | State::Quarantined if !taken.holder.is_empty() => {
                html.el("div", &[], |html| {
                    to_container(html, &taken.holder, &taken.runtime);
                    html.text(" ");
                    tag(html, &taken.runtime);
                });
            }
            _ => html.text(&taken.holder),
        });
        cell(html, "Interface", |html| html.text(&taken.interface));
        cell(html, "Since", |html| html.text(&taken.age));
    });
}

fn free(html: &mut Html, pool: &Pool) {
    let shown: Vec<&str> = pool.free_ranges.iter().take(RANGES).map(String::as_str).collect();
    let more = pool.free_ranges.len().saturating_sub(RANGES);
    let end = if more > 0 { format!(", and {more} more ranges") } else { String::new() };
    html.el("p", &[("class", "freed")], |html| {
        html.text("Free: ");
        html.leaf("span", &[("class", "mono")], &shown.join(", "));
        html.text(&end);
    });
}
