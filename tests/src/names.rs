//! Names that are each implementation's own affair, replaced by what they stand for.

use std::collections::BTreeSet;

use crate::Snapshot;

/// Random or hashed link names and hardware addresses, and what they stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pairs: Vec<(String, String)>,
    given: String,
}

impl Names {
    /// The names in `snapshot`; what `given` (the test's own configuration) contains stays.
    pub fn of(snapshot: &Snapshot, given: &str) -> Self {
        let mut names = Self { given: given.into(), ..Self::default() };
        let links = &snapshot.links;
        for inner in links.iter().filter(|link| link.space != "host") {
            let outer =
                links.iter().find(|link| link.space == "host" && Some(link.index) == inner.peer);
            if let Some(outer) = outer.filter(|outer| outer.peer == Some(inner.index)) {
                names.add(&outer.name, format!("PEER({}/{})", inner.space, inner.name));
            }
        }
        let mut order: Vec<_> =
            links.iter().map(|link| (&link.space, names.apply(&link.name), &link.mac)).collect();
        order.sort();
        for (space, name, mac) in order {
            let null = mac.is_empty() || mac == "00:00:00:00:00:00";
            if !null {
                names.add(mac, format!("MAC({space}/{name})"));
            }
        }
        names
    }

    /// `text` with every name replaced.
    pub fn apply(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(String, String)| text.replace(from.as_str(), to);
        let text = self.pairs.iter().fold(text.to_owned(), replace);
        let text = self.unknown(text, "02:42:ac:11:00:02".len(), is_mac, "MAC(unknown)");
        self.unknown(text, "veth01234567".len(), is_random_veth, "VETH(unknown)")
    }

    /// A name that was replaced, or that never came to be, is as random as any.
    fn unknown(
        &self,
        mut text: String,
        length: usize,
        is: fn(&str) -> bool,
        stands_for: &str,
    ) -> String {
        let mut at = 0;
        while at + length <= text.len() {
            let word = text.get(at..at + length).unwrap_or_default();
            if is(word) && !self.given.contains(word) {
                text.replace_range(at..at + length, stands_for);
            }
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        text
    }

    /// The lines of `snapshot` that two implementations can be compared by.
    pub fn comparable(&self, snapshot: &Snapshot) -> BTreeSet<String> {
        let own = |line: &&String| {
            let builtin = line.contains("tables ") && line.contains(" :") && !line.ends_with(" -");
            let records =
                line.starts_with("file /run/spoke/") || line.starts_with("file /var/lib/spoke/");
            !builtin && !records
        };
        snapshot.lines.iter().filter(own).map(|line| self.apply(line)).collect()
    }

    fn add(&mut self, name: &str, stands_for: String) {
        let known = self.pairs.iter().any(|(from, _)| from == name);
        if !known && !self.given.contains(name) {
            self.pairs.push((name.to_owned(), stands_for));
        }
    }
}

/// A unicast address that somebody made up: locally administered (IEEE 802-2014 §8.4).
fn is_mac(word: &str) -> bool {
    let octets: Option<Vec<u8>> =
        word.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets.is_some_and(|octets| octets.len() == 6 && octets[0] & 0x03 == 0x02)
}

/// What the reference calls the host's end.
fn is_random_veth(word: &str) -> bool {
    word.strip_prefix("veth").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
