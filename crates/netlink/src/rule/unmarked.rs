//! Interfaces from which nothing is routed that has no mark.

use model::{Family, IfName, Result};

use super::{DELETE, HEADER, INPUT, MARK, MASK, NEW, PRIORITY, family_of};
use crate::Socket;
use crate::address::family;
use crate::wire::{Batch, CREATE, EXCLUSIVE, Message, array};

/// `FR_ACT_BLACKHOLE`: drop without an answer.
const DROP: u8 = 6;
/// `RT_TABLE_MAIN`, as ip(8) writes where no table is used.
const MAIN: u8 = 254;

/// A rule that drops what came in by an interface and has no mark, instead of routing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmarked {
    /// Of which packets.
    pub family: Family,
    /// The interface, which need not be there.
    pub input: IfName,
    /// Lower is asked earlier.
    pub priority: u32,
}

impl Batch {
    /// Adds a rule; returns the message's index. EEXIST if it is there, EAFNOSUPPORT without the family.
    pub fn drop_unmarked(&mut self, rule: &Unmarked) -> usize {
        self.unmarked(NEW, CREATE | EXCLUSIVE, rule, "adding")
    }

    /// Deletes a rule; returns the message's index. ENOENT if there is none.
    pub fn route_unmarked(&mut self, rule: &Unmarked) -> usize {
        self.unmarked(DELETE, 0, rule, "deleting")
    }

    fn unmarked(&mut self, kind: u16, flags: u16, rule: &Unmarked, doing: &str) -> usize {
        let about = format!("{doing} the rule that drops what {} sends unmarked", rule.input);
        let mut request = self.request(kind, flags, about);
        request.bytes(&[family(rule.family), 0, 0, 0, MAIN, 0, 0, DROP, 0, 0, 0, 0]);
        request.text(INPUT, rule.input.as_str()).u32(PRIORITY, rule.priority);
        request.u32(MARK, 0).u32(MASK, u32::MAX);
        self.count() - 1
    }
}

impl Socket {
    /// Every such rule of a family; none where this host has no IPv6.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn unmarked(&mut self, of: Family) -> Result<Vec<Unmarked>> {
        self.rules_of(family(of), read)
    }
}

pub(crate) fn read(message: &Message<'_>) -> Option<Unmarked> {
    let [family, _, prefix, _, _, _, _, action] = array(message.payload, 0)?;
    if message.kind != NEW || action != DROP || prefix != 0 {
        return None;
    }
    let family = family_of(family)?;
    let attributes = message.attributes(HEADER);
    let number = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.u32());
    // The kernel leaves out a mark of 0.
    if number(MARK).unwrap_or(0) != 0 || number(MASK) != Some(u32::MAX) {
        return None;
    }
    let input = attributes.find_kind(INPUT)?.text()?.parse().ok()?;
    Some(Unmarked { family, input, priority: number(PRIORITY)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn what_is_written_is_read() {
        for family in [Family::V4, Family::V6] {
            let rule = Unmarked { family, input: "br0".parse().unwrap(), priority: 5 };
            let mut batch = Batch::new();
            batch.drop_unmarked(&rule);
            let bytes = batch.seal(1).to_vec();
            assert_eq!(read(&Messages::new(&bytes).next().unwrap()), Some(rule));
        }
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
