//! Names that are each implementation's own affair, replaced by what they stand for.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Snapshot;
use crate::snapshot::Link;

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
        let text = self.unknown(text, "veth0123456789a".len(), is_random_veth, "VETH(unknown)");
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

    /// A JSON array of a result's interfaces, with the hardware address of each host link that it
    /// really has replaced: whether a bridge takes a port's or its own is each one's own affair.
    pub fn interfaces(&self, snapshot: &Snapshot, mut interfaces: Value) -> Value {
        for interface in interfaces.as_array_mut().into_iter().flatten() {
            let has = |link: &&Link| {
                link.space == "host"
                    && interface["name"] == link.name
                    && interface["mac"] == link.mac
            };
            let outside = interface["sandbox"].as_str().is_none_or(str::is_empty);
            let real = snapshot.links.iter().any(|link| has(&link));
            if outside && real && !self.given.contains(interface["mac"].as_str().unwrap_or("?")) {
                interface["mac"] = "OWN".into();
            }
        }
        interfaces
    }

    /// The lines of `snapshot` that two implementations can be compared by.
    pub fn comparable(&self, snapshot: &Snapshot) -> BTreeSet<String> {
        let own = |line: &&String| {
            let builtin = line.contains("tables ") && line.contains(" :") && !line.ends_with(" -");
            let records =
                line.starts_with("file /run/spoke/") || line.starts_with("file /var/lib/spoke/");
            !builtin && !records
        };
        let replaced = snapshot.lines.iter().filter(own).map(|line| self.own_address(line));
        replaced.map(|line| self.apply(&line)).collect()
    }

    fn own_address(&self, line: &str) -> String {
        match line.split_once(" address \"") {
            Some((link, mac))
                if link.starts_with("host link ")
                    && !self.given.contains(mac.trim_end_matches('"')) =>
            {
                format!("{link} address OWN")
            }
            _ => line.to_owned(),
        }
    }

    fn add(&mut self, name: &str, stands_for: String) {
        let known = self.pairs.iter().any(|(from, _)| from == name);
        if !known && !self.given.contains(name) {
            self.pairs.push((name.to_owned(), stands_for));
        }
    }
}

/// A unicast address that software chose: locally administered (IEEE 802-2014 §8.4).
fn is_mac(word: &str) -> bool {
    // This is asked of each place in a text.
    if word.as_bytes().get(2) != Some(&b':') {
        return false;
    }
    let octets: Option<Vec<u8>> =
        word.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets.is_some_and(|octets| octets.len() == 6 && octets[0] & 0x03 == 0x02)
}

/// What the reference (eight digits) and we (eleven) call the host's end.
fn is_random_veth(word: &str) -> bool {
    word.strip_prefix("veth").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
