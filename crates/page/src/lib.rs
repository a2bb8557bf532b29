//! The page that shows a host's networks.
//!
//! Pure: from what is shown (`shown`) to bytes, without input or output. The binary fills in what is
//! shown, by the functions that answer `spoke ps`, `spoke ipam show` and the others.
//!
//! | file | has |
//! |---|---|
//! | `html` | the only way to write HTML: text is always cleaned and escaped |
//! | `target` | which view a URL means, and the URLs of views |
//! | `shown` | what the views show |
//! | `frame` | what is around each view: navigation, notes |
//! | `picture` | networks and containers as SVG |
//! | the others | one view each |
//!
//! A new view is a variant of [`View`], a file with its function, and a line in `frame`'s navigation.

mod checks;
mod container;
mod containers;
mod days;
mod denied;
mod events;
mod explain;
mod frame;
mod grid;
mod hosts;
mod html;
mod overview;
mod picture;
mod pools;
mod ports;
pub mod shown;
mod target;

pub use frame::{Frame, document, failure};
pub use html::Html;
pub use target::{Asked, Filter, Numbered, View, container_link, view};

/// The style sheet.
pub const STYLE: &str = include_str!("../assets/style.css");
/// The script: live changes, and the filter's text field. All can be read without it.
pub const SCRIPT: &str = include_str!("../assets/page.js");
/// The icon of the page.
pub const ICON: &str = include_str!("../assets/icon.svg");

/// What a browser may do with the page: nothing from elsewhere, nothing inline, no frame, no form but its own
/// (Content Security Policy Level 3).
pub const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// What a view is filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The picture, and the state of the host.
    Overview(shown::Overview),
    /// Pools of addresses.
    Pools(shown::Pools),
    /// Containers in a table.
    Containers(shown::Containers),
    /// One container.
    Container(shown::Container),
    /// Published ports.
    Ports(shown::Ports),
    /// Events.
    Events(shown::Events),
    /// The hosts of a cluster.
    Hosts(shown::Hosts),
    /// What `spoke doctor` found.
    Checks(Vec<shown::Check>),
    /// Why one does not reach another.
    Explained(shown::Explained),
    /// What egress rules refused.
    Refusals(shown::Refusals),
}

/// A name as people order it: `svc2` before `svc10`, and whatever its case.
pub fn in_order(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = name.get(stem.len()..).and_then(|digits| digits.parse().ok());
    (stem.to_lowercase(), number.unwrap_or(0))
}

impl Content {
    fn title(&self) -> String {
        match self {
            Content::Overview(_) => "Overview".to_owned(),
            Content::Pools(_) => "Addresses".to_owned(),
            Content::Containers(_) => "Containers".to_owned(),
            Content::Container(container) => container.name.clone(),
            Content::Ports(_) => "Ports".to_owned(),
            Content::Events(_) => "Events".to_owned(),
            Content::Hosts(_) => "Hosts".to_owned(),
            Content::Checks(_) => "Checks".to_owned(),
            Content::Explained(_) => "Explain".to_owned(),
            Content::Refusals(_) => "Refused".to_owned(),
        }
    }

    fn write(&self, html: &mut Html) {
        match self {
            Content::Overview(overview) => overview::write(html, overview),
            Content::Pools(pools) => pools::write(html, pools),
            Content::Containers(containers) => containers::write(html, containers),
            Content::Container(container) => container::write(html, container),
            Content::Ports(ports) => ports::write(html, ports),
            Content::Events(events) => events::write(html, events),
            Content::Hosts(hosts) => hosts::write(html, hosts),
            Content::Checks(checks) => checks::write(html, checks),
            Content::Explained(explained) => explain::write(html, explained),
            Content::Refusals(refusals) => denied::write(html, refusals),
        }
    }
}
