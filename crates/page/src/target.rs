//! Which view a URL means. URLs are relative and have no directories, so that they hold below any
//! path: `spoke web` puts its token before them.

use std::fmt::Write;

/// No value in a URL is longer, in bytes; a longer one is cut.
const LONGEST: usize = 512;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// The picture.
    Overview,
    /// Pools; of this network where one is named.
    Addresses(Numbered<Option<String>>),
    /// Containers.
    Containers(Numbered<Filter>),
    /// One container, by what its runtime calls it.
    Container {
        /// Its name.
        name: String,
        /// Its runtime.
        runtime: String,
    },
    /// Published ports.
    Ports(Numbered<()>),
    /// Events; of this day (`2026-11-18`) where one is named.
    Events(Numbered<Option<String>>),
    /// The hosts of a cluster.
    Hosts,
    /// What `spoke doctor` finds.
    Checks,
    /// Why one does not reach another.
    Explain(Asked),
    /// What egress rules refused; of this network where one is named.
    Denied(Numbered<Option<String>>),
    /// The style sheet.
    Style,
    /// The script.
    Script,
    /// The icon.
    Icon,
    /// A line for each change, as it comes (Server-Sent Events).
    Live,
}

/// A list with a part of it: 1 is the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbered<T> {
    /// What is listed.
    pub of: T,
    /// Which part.
    pub number: usize,
}

/// Which containers are listed; empty fields are no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A part of a name, an address, a port or a label.
    pub text: String,
    /// A runtime.
    pub runtime: String,
    /// A network.
    pub network: String,
}

/// Who is to reach whom, in the words of `spoke explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Who begins; empty where no container is chosen yet.
    pub from: String,
    /// Who is called; the same.
    pub to: String,
    /// The port, as `80` or `80/udp`; empty for an echo request.
    pub port: String,
}

/// The view that the target of a request means (RFC 9112, 3.2.1); `None` where there is none.
pub fn view(target: &str) -> Option<View> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = Query(query);
    Some(match path.strip_prefix('/')? {
        "" => View::Overview,
        "addresses" => View::Addresses(query.numbered(query.named("network"))),
        "containers" => View::Containers(query.numbered(Filter {
            text: query.value("q"),
            runtime: query.value("runtime"),
            network: query.value("network"),
        })),
        "container" => {
            View::Container { name: query.value("name"), runtime: query.value("runtime") }
        }
        "ports" => View::Ports(query.numbered(())),
        "events" => View::Events(query.numbered(query.named("day").filter(|day| is_day(day)))),
        "hosts" => View::Hosts,
        "checks" => View::Checks,
        "explain" => View::Explain(Asked {
            from: query.value("from"),
            to: query.value("to"),
            port: query.value("port"),
        }),
        "denied" => View::Denied(query.numbered(query.named("network"))),
        "style.css" => View::Style,
        "page.js" => View::Script,
        "icon.svg" => View::Icon,
        "live" => View::Live,
        _ => return None,
    })
}

/// Whether it has the form of a day, `2026-11-18`.
fn is_day(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// What follows the question mark.
struct Query<'a>(&'a str);

impl Query<'_> {
    /// The first value of a key; empty where there is none.
    fn value(&self, key: &str) -> String {
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| unescape(value))
            .next()
            .unwrap_or_default()
    }

    fn named(&self, key: &str) -> Option<String> {
        Some(self.value(key)).filter(|value| !value.is_empty())
    }

    fn numbered<T>(&self, of: T) -> Numbered<T> {
        Numbered { of, number: self.value("page").parse().unwrap_or(1).max(1) }
    }
}

/// Without the escapes of a query (URL Standard, `application/x-www-form-urlencoded`).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if bytes.len() >= LONGEST {
            break;
        }
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A relative URL, with those values that are not empty.
pub(crate) fn link(path: &'static str, values: &[(&'static str, &str)]) -> String {
    let mut url = path.to_owned();
    let given = values.iter().filter(|(_, value)| !value.is_empty());
    for (at, (key, value)) in given.enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.push_str(key);
        url.push('=');
        for byte in value.bytes() {
            match byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
                true => url.push(char::from(byte)),
                // Writing to a string succeeds.
                false => drop(write!(url, "%{byte:02X}")),
            }
        }
    }
    url
}

/// The URL of the question whom a container reaches.
pub(crate) fn explain_link(from: &str) -> String {
    link("explain", &[("from", from)])
}

/// The URL of a container.
pub fn container_link(name: &str, runtime: &str) -> String {
    link("container", &[("name", name), ("runtime", runtime)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn views_have_urls() {
        assert_eq!(view("/"), Some(View::Overview));
        assert_eq!(view("/events?page=3"), Some(View::Events(Numbered { of: None, number: 3 })));
        assert_eq!(
            view("/events?page=0&day=2026-11-18").unwrap(),
            View::Events(Numbered { of: Some("2026-11-18".to_owned()), number: 1 })
        );
        assert_eq!(view("/events?day=of+reckoning"), view("/events"));
        for none in ["", "x", "/x", "//", "/events/", "http://h/", "/../etc/passwd"] {
            assert_eq!(view(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn every_container_has_a_url(name in ".{0,100}", runtime in "[a-z]+") {
            let url = format!("/{}", container_link(&name, &runtime));
            prop_assert!(url.is_ascii() && !url.contains(['"', '<', '\'', ' ']));
            prop_assert_eq!(view(&url), Some(View::Container { name, runtime }));
        }

        #[test]
        fn no_target_is_too_much(target in "/containers\\?.{0,300}") {
            view(&target);
        }
    }
}
