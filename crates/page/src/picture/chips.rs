//! Containers with their names and addresses.

use super::{Lane, PAD, Size, key, shape, text};
use crate::html::{Html, short};
use crate::shown::Attachment;

const GAP: usize = 10;
/// Between the edge of a chip and its text.
const EDGE: usize = 10;
/// The width of two letters of most names.
const TWO_LETTERS: usize = 15;
/// The width of a letter of a runtime's tag.
const TAG_LETTER: usize = 7;

fn columns(size: Size) -> usize {
    match size {
        Size::Wide => 5,
        Size::Narrow => 2,
    }
}

fn width(size: Size) -> usize {
    (size.inner() + GAP) / columns(size) - GAP
}

/// Where a container publishes, chips have a line for that.
fn tall(lane: &Lane<'_>) -> usize {
    let is_tall = |one: &&Attachment| !one.ports.is_empty() || lane.also.contains_key(&key(one));
    if lane.attachments.iter().any(is_tall) { 64 } else { 46 }
}

pub(super) fn height(lane: &Lane<'_>, size: Size) -> usize {
    match lane.attachments.len() {
        0 => 0,
        count => count.div_ceil(columns(size)) * (tall(lane) + GAP) - GAP + PAD,
    }
}

pub(super) fn draw(html: &mut Html, lane: &Lane<'_>, top: usize, size: Size) {
    let (width, tall) = (width(size), tall(lane));
    for (at, attachment) in lane.attachments.iter().enumerate() {
        let x = size.left() + PAD + at % columns(size) * (width + GAP);
        let y = top + at / columns(size) * (tall + GAP);
        let also = lane.also.get(&key(attachment)).map(String::as_str);
        chip(html, attachment, also, (x, y), (width, tall));
    }
}

fn chip(
    html: &mut Html,
    one: &Attachment,
    also: Option<&str>,
    (x, y): (usize, usize),
    size: (usize, usize),
) {
    let url = crate::container_link(&one.name, &one.runtime);
    let (x, y) = (x.to_string(), y.to_string());
    let (width, height) = (size.0.to_string(), size.1.to_string());
    let address = one.addresses.first().map_or("", |address| {
        address.split_once('/').map_or(address.as_str(), |(address, _)| address)
    });
    // Of 7.2 units each at most.
    let letters = (size.0 - 20) / 7;
    let class = match (one.state.as_str(), one.ports.is_empty()) {
        ("attached", true) => "chip",
        ("attached", false) => "chip open",
        _ => "chip faint",
    };
    html.el("a", &[("href", &url), ("class", class)], |html| {
        let place = [("x", x.as_str()), ("y", &y), ("width", &width), ("height", &height)];
        html.el("svg", &place, |html| {
            let label = format!("{} ({}) {}", one.name, one.runtime, one.addresses.join(", "));
            html.leaf("title", &[], &short(&label, 160));
            let all = [("x", "1"), ("y", "1"), ("rx", "7")];
            let (width, height) = ((size.0 - 2).to_string(), (size.1 - 2).to_string());
            let all = [all[0], all[1], all[2], ("width", &width), ("height", &height)];
            shape(html, "rect", &all);
            name(html, one, size.0);
            let right = (size.0 - 10).to_string();
            let end = [("x", right.as_str()), ("y", "19"), ("class", "small end")];
            html.leaf("text", &end, &short(&one.runtime, 9));
            text(html, (10, 36), "mono", &short(address, letters));
            match (one.ports.is_empty(), also) {
                (false, _) => {
                    text(html, (10, 53), "mono port", &short(&ports(&one.ports), letters))
                }
                (true, Some(also)) => text(html, (10, 53), "small", &short(also, letters)),
                (true, None) => {}
            }
        });
    });
}

/// Beside the runtime's tag, which says what a name may begin with: `podman/mail` is `mail`.
fn name(html: &mut Html, one: &Attachment, width: usize) {
    let own = one.name.strip_prefix(&one.runtime).and_then(|rest| rest.strip_prefix('/'));
    let name = own.filter(|own| !own.is_empty()).unwrap_or(&one.name);
    let tag = one.runtime.chars().count().min(9) * TAG_LETTER;
    let room = (width - 2 * EDGE).saturating_sub(tag + GAP);
    // What has no room is cut, however wide its letters are.
    let (x, cut) = (EDGE.to_string(), room.to_string());
    html.el("svg", &[("x", x.as_str()), ("width", &cut), ("height", "26")], |html| {
        text(html, (0, 19), "label", &short(name, 2 * room / TWO_LETTERS));
    });
}

/// An engine publishes a port at all addresses of each family by itself: that is one port, and the addresses would
/// take all of the room.
fn ports(ports: &[String]) -> String {
    let mut shown: Vec<&str> = Vec::new();
    for port in ports {
        let port = ANY.iter().find_map(|any| port.strip_prefix(any)).unwrap_or(port);
        if !shown.contains(&port) {
            shown.push(port);
        }
    }
    shown.join(" ").replace("->", "→").replace("/tcp", "")
}

/// In front of a port at all addresses of a family.
const ANY: [&str; 2] = ["0.0.0.0:", "[::]:"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_both_families_is_one() {
        let dockers = ["0.0.0.0:8080->80/tcp", "[::]:8080->80/tcp", "127.0.0.1:9->9/udp"];
        assert_eq!(ports(&dockers.map(str::to_owned)), "8080→80 127.0.0.1:9→9/udp");
    }
}
