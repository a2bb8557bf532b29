//! What is around each view.

use crate::Content;
use crate::html::Html;
use crate::shown::ListPart;
use crate::target::link;

/// What every view has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// What this host is called.
    pub host: String,
    /// Spoke's version.
    pub version: String,
    /// The time, in UTC.
    pub time: String,
    /// Whether this host is a member of a cluster.
    pub is_member: bool,
    /// Whether the browser asks again by itself.
    pub asks_again: bool,
    /// What may be missing, and why.
    pub notes: Vec<String>,
}

/// Whether a content belongs to an entry of the navigation.
type IsThis = fn(&Content) -> bool;

/// The views in the navigation: a URL, a name, whether it is this one.
const VIEWS: [(&str, &str, IsThis); 9] = [
    ("./", "Overview", |content| matches!(content, Content::Overview(_))),
    ("addresses", "Addresses", |content| matches!(content, Content::Pools(_))),
    ("containers", "Containers", |content| {
        matches!(content, Content::Containers(_) | Content::Container(_))
    }),
    ("ports", "Ports", |content| matches!(content, Content::Ports(_))),
    ("events", "Events", |content| matches!(content, Content::Events(_))),
    ("denied", "Refused", |content| matches!(content, Content::Refusals(_))),
    ("explain", "Explain", |content| matches!(content, Content::Explained(_))),
    ("checks", "Checks", |content| matches!(content, Content::Checks(_))),
    ("hosts", "Hosts", |content| matches!(content, Content::Hosts(_))),
];

/// The whole document.
pub fn document(frame: &Frame, content: &Content) -> String {
    around(frame, &content.title(), Some(content), |html| content.write(html))
}

/// A document that says what did not work.
pub fn failure(frame: &Frame, sentence: &str) -> String {
    around(frame, "Not shown", None, |html| html.leaf("p", &[("class", "lead")], sentence))
}

fn around(
    frame: &Frame,
    title: &str,
    content: Option<&Content>,
    inner: impl FnOnce(&mut Html),
) -> String {
    let mut html = Html::document();
    html.el("html", &[("lang", "en")], |html| {
        html.el("head", &[], |html| head(html, frame, title));
        html.el("body", &[], |html| {
            html.leaf("a", &[("class", "skip"), ("href", "#content")], "Skip to the content");
            html.el("header", &[("class", "top")], |html| top(html, frame, content));
            let mut main = vec![("id", "content"), ("tabindex", "-1")];
            // Checks are slow, and hold for a while; a form is being filled in.
            let is_still = matches!(content, Some(Content::Checks(_) | Content::Explained(_)));
            main.extend(is_still.then_some(("data-still", "")));
            html.el("main", &main, |html| {
                html.el("div", &[("class", "heading")], |html| {
                    html.leaf("h1", &[], &crate::html::short(title, 80));
                });
                for note in &frame.notes {
                    html.leaf("p", &[("class", "note")], note);
                }
                inner(html);
            });
            html.el("footer", &[], |html| foot(html, frame));
        });
    });
    html.into_string()
}

fn head(html: &mut Html, frame: &Frame, title: &str) {
    html.void("meta", &[("charset", "utf-8")]);
    html.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    html.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    if frame.asks_again {
        html.void("meta", &[("http-equiv", "refresh"), ("content", "2")]);
    }
    html.leaf("title", &[], &format!("{} · {} · Spoke", crate::html::short(title, 80), frame.host));
    html.void("link", &[("rel", "stylesheet"), ("href", "style.css")]);
    html.void("link", &[("rel", "icon"), ("type", "image/svg+xml"), ("href", "icon.svg")]);
    html.el("script", &[("src", "page.js"), ("defer", "")], |_| {});
}

fn top(html: &mut Html, frame: &Frame, content: Option<&Content>) {
    html.el("div", &[("class", "name")], |html| {
        html.leaf("a", &[("class", "brand"), ("href", "./")], "Spoke");
        html.leaf("span", &[("class", "host")], &frame.host);
        html.el("span", &[("id", "live"), ("role", "status"), ("hidden", "")], |_| {});
    });
    html.el("nav", &[("aria-label", "Views")], |html| {
        html.el("ul", &[], |html| {
            let views = VIEWS.iter().filter(|(url, ..)| *url != "hosts" || frame.is_member);
            for (url, name, is_this) in views {
                html.el("li", &[], |html| match content.is_some_and(is_this) {
                    true => html.leaf("a", &[("href", url), ("aria-current", "page")], name),
                    false => html.leaf("a", &[("href", url)], name),
                });
            }
        });
    });
}

fn foot(html: &mut Html, frame: &Frame) {
    if frame.time.is_empty() {
        return;
    }
    html.el("p", &[], |html| {
        html.text(&format!("Spoke {} on {}, as of ", frame.version, frame.host));
        html.leaf("time", &[("id", "asof"), ("datetime", &frame.time)], &clock(&frame.time));
        html.text(". This page reads and changes nothing.");
    });
}

/// `2026-11-18 12:00:00 UTC` of an RFC 3339 time.
pub(crate) fn clock(time: &str) -> String {
    match time.strip_suffix('Z').and_then(|time| time.split_once('T')) {
        Some((day, clock)) => format!("{day} {clock} UTC"),
        None => time.to_owned(),
    }
}

/// Links to the other parts of a list.
pub(crate) fn parts(html: &mut Html, part: ListPart, url: &dyn Fn(usize) -> String) {
    if part.of < 2 {
        return;
    }
    html.el("nav", &[("class", "parts"), ("aria-label", "Parts of this list")], |html| {
        let mut to = |number: usize, relation: &'static str, name: &str| match number {
            number if (1..=part.of).contains(&number) => {
                html.leaf("a", &[("href", &url(number)), ("rel", relation)], name);
            }
            _ => html.leaf("span", &[("class", "off")], name),
        };
        to(part.number.saturating_sub(1), "prev", "← Before");
        to(0, "", &format!("{} of {}", part.number, part.of));
        to(part.number + 1, "next", "After →");
    });
}

/// The tag of a runtime.
pub(crate) fn tag(html: &mut Html, runtime: &str) {
    if !runtime.is_empty() {
        html.leaf("span", &[("class", "tag")], &crate::html::short(runtime, 24));
    }
}

/// A link to a container, cut to a readable length.
pub(crate) fn to_container(html: &mut Html, name: &str, runtime: &str) {
    let url = crate::container_link(name, runtime);
    html.leaf("a", &[("href", &url)], &crate::html::short(name, 48));
}

/// A link to the containers of a network.
pub(crate) fn to_network(html: &mut Html, name: &str, title: Option<&str>) {
    let url = link("containers", &[("network", name)]);
    html.leaf("a", &[("href", &url)], title.unwrap_or(name));
}

/// The head of a table.
pub(crate) fn columns(html: &mut Html, names: &[&str]) {
    html.el("thead", &[], |html| {
        html.el("tr", &[], |html| {
            names.iter().for_each(|name| html.leaf("th", &[("scope", "col")], name));
        });
    });
}

/// A cell. Its column's name stands before it where the screen is narrow.
pub(crate) fn cell(html: &mut Html, column: &'static str, inner: impl FnOnce(&mut Html)) {
    html.el("td", &[("data-of", column)], inner);
}
