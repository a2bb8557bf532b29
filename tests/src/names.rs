//! Names that are each implementation's own affair, replaced by what they stand for.

use std::collections::BTreeSet;

use crate::Snapshot;

/// Random or hashed link names and hardware addresses, and what they stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pairs: Vec<(String, String)>,
}

impl Names {
    /// The names in `snapshot`; what `given` (the test's own configuration) contains stays.
    pub fn of(snapshot: &Snapshot, given: &str) -> Self {
        let mut names = Self::default();
        let links = &snapshot.links;
        for inner in links.iter().filter(|link| link.space != "host") {
            let outer = links.iter().find(|link| link.space == "host" && Some(link.index) == inner.peer);
            if let Some(outer) = outer.filter(|outer| outer.peer == Some(inner.index)) {
                names.add(&outer.name, format!("PEER({}/{})", inner.space, inner.name), given);
            }
        }
        let mut order: Vec<_> = links.iter().map(|link| (&link.space, names.apply(&link.name), &link.mac)).collect();
        order.sort();
        for (space, name, mac) in order {
            let null = mac.is_empty() || mac == "00:00:00:00:00:00";
            if !null {
                names.add(mac, format!("MAC({space}/{name})"), given);
            }
        }
        names
    }

    /// `text` with every name replaced.
    pub fn apply(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(String, String)| text.replace(from.as_str(), to);
        self.pairs.iter().fold(text.to_owned(), replace)
    }

    /// The lines of `snapshot` that two implementations can be compared by.
    pub fn comparable(&self, snapshot: &Snapshot) -> BTreeSet<String> {
        let own = |line: &&String| {
            let builtin = line.contains("tables ") && line.contains(" :") && !line.ends_with(" -");
            let records = line.starts_with("file /run/spoke/") || line.starts_with("file /var/lib/spoke/");
            !builtin && !records
        };
        snapshot.lines.iter().filter(own).map(|line| self.apply(line)).collect()
    }

    fn add(&mut self, name: &str, stands_for: String, given: &str) {
        let known = self.pairs.iter().any(|(from, _)| from == name);
        if !known && !given.contains(name) {
            self.pairs.push((name.to_owned(), stands_for));
        }
    }
}
