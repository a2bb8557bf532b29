//! Networks and containers as SVG: the host on top, below it each network as a lane with its
//! containers. Where there are few containers each is a chip with its name and address; where there
//! are many, those with similar names are a row of squares.
//!
//! It is drawn twice, for wide and for narrow screens; the style sheet shows one of them.

mod chips;
mod rows;

use std::collections::BTreeMap;

use crate::html::{Attribute, Html, counted, short};
use crate::shown::{Attachment, Network, Overview};
use crate::target::link;

/// With more containers than this they are drawn as squares.
const CHIPS: usize = 80;

/// No more networks than this are drawn; the others are listed by name.
const LANES: usize = 200;

/// For which screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A desk's.
    Wide,
    /// A phone's.
    Narrow,
}

impl Size {
    /// In units of the picture, which are pixels where it is not scaled.
    fn width(self) -> usize {
        match self {
            Size::Wide => 1120,
            Size::Narrow => 358,
        }
    }

    /// Where lanes begin.
    fn left(self) -> usize {
        match self {
            Size::Wide => 44,
            Size::Narrow => 18,
        }
    }

    /// The line from the host to the lanes.
    fn spine(self) -> usize {
        self.left() / 2
    }

    /// The height of a lane's heading.
    fn head(self) -> usize {
        match self {
            Size::Wide => 46,
            Size::Narrow => 60,
        }
    }

    /// What fits beside the edges of a lane.
    fn inner(self) -> usize {
        self.width() - self.left() - 2 * PAD
    }

    fn class(self) -> &'static str {
        match self {
            Size::Wide => "picture wide",
            Size::Narrow => "picture narrow",
        }
    }
}

/// Between the edge of a lane and what is in it.
const PAD: usize = 14;
/// Between lanes.
const GAP: usize = 14;
/// The host's height.
const HOST: usize = 50;

/// A network with what is on it.
struct Lane<'a> {
    network: &'a Network,
    attachments: Vec<&'a Attachment>,
    /// Which other networks a container is on, in words.
    also: BTreeMap<Key<'a>, String>,
}

/// A container: its runtime, and its name.
type Key<'a> = (&'a str, &'a str);

fn key(one: &Attachment) -> Key<'_> {
    (&one.runtime, &one.name)
}

/// Draws an element that has nothing in it.
fn shape(html: &mut Html, name: &'static str, attributes: &[Attribute<'_>]) {
    html.el(name, attributes, |_| {});
}

fn text(html: &mut Html, (x, y): (usize, usize), class: &str, text: &str) {
    let (x, y) = (x.to_string(), y.to_string());
    html.leaf("text", &[("x", &x), ("y", &y), ("class", class)], text);
}

pub(crate) fn write(html: &mut Html, overview: &Overview, size: Size) {
    let lanes = lanes(overview);
    let is_small = overview.attachments.len() <= CHIPS;
    let is_named = rows::are_named(&lanes);
    let mut height = HOST + GAP;
    let mut drawn = Vec::new();
    for lane in &lanes {
        let body = match is_small {
            true => chips::height(lane, size),
            false => rows::height(lane, (size, is_named)),
        };
        drawn.push((lane, height, size.head() + body));
        height += size.head() + body + GAP;
    }
    let view = format!("0 0 {} {}", size.width(), height);
    let label = format!("{} with their containers", counted(overview.networks.len(), "network"));
    let attributes = [
        ("class", size.class()),
        ("viewBox", view.as_str()),
        ("role", "group"),
        ("aria-label", &label),
    ];
    html.el("svg", &attributes, |html| {
        host(html, overview, size);
        let last = drawn.last().map_or(HOST, |(_, top, _)| top + 24);
        let spine = format!("M{} {HOST}V{last}", size.spine());
        shape(html, "path", &[("class", "wire"), ("d", &spine)]);
        for (lane, top, height) in drawn {
            draw(html, lane, (top, height), size);
            match is_small {
                true => chips::draw(html, lane, top + size.head(), size),
                false => rows::draw(html, lane, top + size.head(), (size, is_named)),
            }
        }
    });
    if overview.networks.len() > LANES && size == Size::Wide {
        let more = overview.networks.len() - LANES;
        html.leaf("p", &[("class", "note")], &format!("{more} more networks are not drawn."));
    }
}

/// The networks with the most containers come first.
fn lanes<'a>(overview: &'a Overview) -> Vec<Lane<'a>> {
    let mut on: BTreeMap<&str, Vec<&Attachment>> = BTreeMap::new();
    for attachment in &overview.attachments {
        on.entry(attachment.network.as_str()).or_default().push(attachment);
    }
    let several = several(overview);
    let mut lane = |network: &'a Network| {
        let attachments = on.remove(network.name.as_str()).unwrap_or_default();
        let others = |one: &&Attachment| {
            let of = several.get(&key(one))?;
            let others = of.iter().filter(|(name, _)| *name != network.name);
            let words: Vec<&str> = others.map(|(_, called)| *called).collect();
            (!words.is_empty()).then(|| format!("also on {}", words.join(", ")))
        };
        let also = attachments.iter().filter_map(|one| Some((key(one), others(one)?))).collect();
        Lane { network, attachments, also }
    };
    let mut lanes: Vec<Lane<'_>> = overview.networks.iter().map(&mut lane).collect();
    lanes.sort_by_cached_key(|lane| {
        (std::cmp::Reverse(lane.attachments.len()), crate::in_order(lane.network.called()))
    });
    lanes.truncate(LANES);
    lanes
}

/// The containers that are on several networks: the names of these, and what they are called.
fn several(overview: &Overview) -> BTreeMap<Key<'_>, Vec<(&str, &str)>> {
    let mut networks: BTreeMap<Key<'_>, Vec<(&str, &str)>> = BTreeMap::new();
    for one in &overview.attachments {
        let called = one.title.as_ref().unwrap_or(&one.network);
        networks.entry(key(one)).or_default().push((&one.network, called));
    }
    networks.retain(|_, of| of.len() > 1);
    networks
}

fn host(html: &mut Html, overview: &Overview, size: Size) {
    let width = size.width().to_string();
    let height = HOST.to_string();
    let host = [("class", "host"), ("width", &width), ("height", &height), ("rx", "10")];
    shape(html, "rect", &host);
    text(html, (16, 31), "title", "This host");
    let uplink = match &overview.uplink {
        Some(device) => format!("default route through {}", short(device, 15)),
        None => "no default route".to_owned(),
    };
    text(html, (104, 31), "meta", &uplink);
    if overview.ports > 0 && size == Size::Wide {
        let right = (size.width() - PAD).to_string();
        let end = [("x", right.as_str()), ("y", "31"), ("class", "meta end")];
        html.leaf("text", &end, &counted(overview.ports, "published port"));
    }
}

fn draw(html: &mut Html, lane: &Lane<'_>, (top, height): (usize, usize), size: Size) {
    let network = lane.network;
    let middle = top + 24;
    let wire = format!("M{} {middle}H{}", size.spine(), size.left());
    let class = if network.internal { "wire cut" } else { "wire" };
    shape(html, "path", &[("class", class), ("d", &wire)]);
    let (x, y) = (size.left().to_string(), top.to_string());
    let (width, height) = ((size.width() - size.left()).to_string(), height.to_string());
    let place = [("x", x.as_str()), ("y", &y), ("width", &width), ("height", &height)];
    html.el("svg", &place, |html| {
        let all = [("class", "lane"), ("width", "100%"), ("height", "100%"), ("rx", "10")];
        shape(html, "rect", &all);
        html.el("a", &[("href", &link("containers", &[("network", &network.name)]))], |html| {
            // What has no room is cut, however wide its letters are.
            let room = match size {
                Size::Wide => rows::ASIDE - 10,
                Size::Narrow => size.width() - size.left() - PAD - 110,
            };
            let (x, room) = (PAD.to_string(), room.to_string());
            let place = [("x", x.as_str()), ("width", &room), ("height", "46")];
            html.el("svg", &place, |html| {
                text(html, (0, 28), "title", &short(network.called(), 28))
            });
        });
        let meta = meta(network);
        let count = counted(lane.attachments.len(), "container");
        let right = (size.width() - size.left() - PAD).to_string();
        let end = [("x", right.as_str()), ("y", "28"), ("class", "meta end")];
        html.leaf("text", &end, &count);
        match size {
            Size::Wide => text(html, (PAD + rows::ASIDE, 28), "meta", &short(&meta, 100)),
            Size::Narrow => text(html, (PAD, 47), "meta", &short(&meta, 50)),
        }
    });
}

/// What a network is, in a line.
fn meta(network: &Network) -> String {
    let mut words: Vec<String> = network.subnets.iter().take(3).cloned().collect();
    words.push(network.driver.clone());
    words.extend(network.device.iter().filter(|device| **device != network.driver).cloned());
    words.extend(network.parent.as_ref().map(|parent| format!("on the segment of {parent}")));
    if network.internal {
        words.push("internal".to_owned());
    }
    let others = network.titles.iter().filter(|title| network.called() != title.as_str());
    words.extend(others.take(2).map(|title| format!("“{}”", short(title, 20))));
    words.join(" · ")
}

pub(crate) fn legend(html: &mut Html) {
    html.el("p", &[("class", "legend")], |html| {
        html.text("A dashed line leads to an internal network: nothing is forwarded there. ");
        html.text("Containers with published ports are larger squares, or say their ports, in the accent colour.");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::Attachment;

    fn overview(containers: usize, networks: usize) -> Overview {
        let network = |at: usize| Network {
            name: format!("net{at}"),
            driver: "bridge".into(),
            subnets: vec![format!("10.70.{at}.0/24")],
            ..Network::default()
        };
        let attachment = |at: usize| Attachment {
            name: format!("service-{at}"),
            runtime: "docker".into(),
            network: format!("net{}", at % networks),
            addresses: vec![format!("10.70.{}.{}/24", at % networks, at / networks + 2)],
            ports: if at.is_multiple_of(7) {
                vec![format!("{}->80/tcp", 8000 + at)]
            } else {
                vec![]
            },
            state: "attached".into(),
            ..Attachment::default()
        };
        Overview {
            networks: (0..networks).map(network).collect(),
            attachments: (0..containers).map(attachment).collect(),
            ..Overview::default()
        }
    }

    fn drawn(overview: &Overview, size: Size) -> String {
        let mut html = Html::default();
        write(&mut html, overview, size);
        html.into_string()
    }

    #[test]
    fn few_are_named_and_many_are_squares() {
        let few = drawn(&overview(9, 2), Size::Wide);
        assert!(few.contains("service-3") && few.contains("10.70.1.3") && few.contains("8007"));
        let many = drawn(&overview(500, 4), Size::Wide);
        assert!(many.contains("service ×125") && !many.contains("service-3"), "{many}");
        for (containers, networks) in [(500, 1), (500, 60), (80, 60)] {
            let overview = overview(containers, networks);
            let both = drawn(&overview, Size::Wide).len() + drawn(&overview, Size::Narrow).len();
            assert!(both < 130_000, "{containers} on {networks}: {both}");
        }
    }
}
