//! Rules that lead what comes in by a device, or bears a mark, to a table or to its end.

use model::{Family, IfName, Result};

use super::{DELETE, HEADER, INPUT, MARK, MASK, NEW, PRIORITY, TABLE, TO_TABLE, family_of};
use crate::Socket;
use crate::address::family;
use crate::wire::{Batch, CREATE, EXCLUSIVE, Message, array};

/// `FR_ACT_UNREACHABLE`.
const UNREACHABLE: u8 = 7;

/// Which packets a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Led {
    /// Those that come in by this device, whether it is there or not.
    From(IfName),
    /// Those with this mark.
    Marked(u32),
}

/// What becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Then {
    /// They are routed by this table, and by later rules where that has no route.
    Table(u32),
    /// They are answered with ICMP: the destination is unreachable.
    Unreachable,
}

/// A rule for what comes in by a device, or bears a mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WayRule {
    /// Of which packets.
    pub family: Family,
    /// Lower is asked earlier.
    pub priority: u32,
    /// Which of them.
    pub led: Led,
    /// What becomes of them.
    pub then: Then,
}

impl Batch {
    /// Adds a rule; returns the message's index. EEXIST if the same one is there.
    pub fn add_way_rule(&mut self, rule: &WayRule) -> usize {
        self.way_rule(NEW, CREATE | EXCLUSIVE, rule, "adding")
    }

    /// Deletes a rule; returns the message's index. ENOENT if there is none.
    pub fn delete_way_rule(&mut self, rule: &WayRule) -> usize {
        self.way_rule(DELETE, 0, rule, "deleting")
    }

    fn way_rule(&mut self, kind: u16, flags: u16, rule: &WayRule, doing: &str) -> usize {
        let about = format!("{doing} the routing rule {} for {:?}", rule.priority, rule.led);
        let (action, table) = match rule.then {
            Then::Table(table) => (TO_TABLE, table),
            Then::Unreachable => (UNREACHABLE, 0),
        };
        let short = u8::try_from(table).unwrap_or(0);
        let mut request = self.request(kind, flags, about);
        request.bytes(&[family(rule.family), 0, 0, 0, short, 0, 0, action, 0, 0, 0, 0]);
        match &rule.led {
            Led::From(name) => drop(request.text(INPUT, name.as_str())),
            Led::Marked(mark) => drop(request.u32(MARK, *mark).u32(MASK, u32::MAX)),
        }
        request.u32(PRIORITY, rule.priority);
        if table > 0 {
            request.u32(TABLE, table);
        }
        self.count() - 1
    }
}

impl Socket {
    /// Every such rule of a family; none where this host has no IPv6.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn way_rules(&mut self, of: Family) -> Result<Vec<WayRule>> {
        self.rules_of(family(of), read)
    }
}

/// A rule with other conditions, or of another kind, is none.
pub(crate) fn read(message: &Message<'_>) -> Option<WayRule> {
    let [family, to, from, service, table, _, _, action] = array(message.payload, 0)?;
    let [a, b, c, d] = array(message.payload, 8)?;
    let flags = u32::from_ne_bytes([a, b, c, d]);
    /// `FIB_RULE_INVERT`.
    const INVERTED: u32 = 2;
    if message.kind != NEW || [to, from, service] != [0; 3] || flags & INVERTED != 0 {
        return None;
    }
    let family = family_of(family)?;
    let attributes = message.attributes(HEADER);
    let number = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.u32());
    let name = attributes.find_kind(INPUT).and_then(|name| name.text()?.parse().ok());
    let led = match (name, number(MARK).filter(|mark| *mark != 0)) {
        (Some(name), None) => Led::From(name),
        (None, Some(mark)) if number(MASK).is_none_or(|mask| mask == u32::MAX) => Led::Marked(mark),
        _ => return None,
    };
    let then = match action {
        TO_TABLE => Then::Table(number(TABLE).unwrap_or(table.into())),
        UNREACHABLE => Then::Unreachable,
        _ => return None,
    };
    Some(WayRule { family, priority: number(PRIORITY)?, led, then })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn what_is_written_is_read() {
        for (family, led, then) in [
            (Family::V4, Led::From("br0".parse().unwrap()), Then::Table(0x53_0001)),
            (Family::V6, Led::From("br0".parse().unwrap()), Then::Unreachable),
            (Family::V6, Led::Marked(0x53_0001), Then::Table(254)),
        ] {
            let rule = WayRule { family, priority: 5300, led, then };
            let mut batch = Batch::new();
            batch.add_way_rule(&rule);
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
