//! Routing rules: which table a packet is routed by (ip-rule(8), `linux/fib_rules.h`).

use std::net::IpAddr;

use model::{Family, IpNet, Result};

use crate::address::family;
use crate::wire::{Batch, CREATE, DUMP, EXCLUSIVE, Message, array};
use crate::{Errno, Socket};

mod unmarked;
mod way;

pub use unmarked::Unmarked;
pub(crate) use unmarked::read as read_unmarked;
pub(crate) use way::read as read_way;
pub use way::{Led, Then, WayRule};

const NEW: u16 = 32;
const DELETE: u16 = 33;
const GET: u16 = 34;

/// Length of `struct fib_rule_hdr`.
const HEADER: usize = 12;

/// `FRA_SRC`, `FRA_IIFNAME`, `FRA_PRIORITY`, `FRA_FWMARK`, `FRA_TABLE`, `FRA_FWMASK`.
const SOURCE: u16 = 2;
const INPUT: u16 = 3;
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const TABLE: u16 = 15;
const MASK: u16 = 16;

/// `FR_ACT_TO_TBL`: use a table.
const TO_TABLE: u8 = 1;

/// A rule that selects a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of which packets.
    pub family: Family,
    /// Only of those from this subnet.
    pub source: Option<IpNet>,
    /// Which table.
    pub table: u32,
    /// Lower is asked earlier; the kernel's choice if `None`: before all that were there.
    pub priority: Option<u32>,
}

impl Rule {
    /// Packets from this address are routed by this table.
    pub fn from(address: IpAddr, table: u32) -> Self {
        let source = IpNet::from(address);
        Self { family: Family::of(&source), source: Some(source), table, priority: None }
    }
}

impl Batch {
    /// Adds a rule; returns the message's index. EEXIST if the same one is there, where a priority
    /// is given.
    pub fn add_rule(&mut self, rule: &Rule) -> usize {
        self.rule(NEW, CREATE | EXCLUSIVE, rule, "adding")
    }

    /// Deletes a rule with this source and table, and priority if one is given; returns the
    /// message's index. ENOENT if there is none.
    pub fn delete_rule(&mut self, rule: &Rule) -> usize {
        self.rule(DELETE, 0, rule, "deleting")
    }

    fn rule(&mut self, kind: u16, flags: u16, rule: &Rule, doing: &str) -> usize {
        let source = rule.source.map_or_else(|| "all".to_owned(), |source| source.to_string());
        let about = format!("{doing} the rule from {source} to table {}", rule.table);
        let prefix = rule.source.map_or(0, |source| source.prefix_len());
        let table = u8::try_from(rule.table).unwrap_or(0);
        let mut request = self.request(kind, flags, about);
        request.bytes(&[family(rule.family), 0, prefix, 0, table, 0, 0, TO_TABLE, 0, 0, 0, 0]);
        if let Some(source) = rule.source {
            request.address(SOURCE, source.addr());
        }
        if let Some(priority) = rule.priority {
            request.u32(PRIORITY, priority);
        }
        request.u32(TABLE, rule.table);
        self.count() - 1
    }
}

impl Socket {
    /// Every rule of a family that selects a table; none where this host has no IPv6.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn rules(&mut self, of: Family) -> Result<Vec<Rule>> {
        self.rules_of(family(of), read)
    }

    /// Whether a rule of a family goes by the mark of a packet.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn routes_by_mark(&mut self, of: Family) -> Result<bool> {
        let all = self.rules_of(family(of), |message| {
            let mask = message.attributes(HEADER).find_kind(MASK)?.u32();
            mask.filter(|mask| message.kind == NEW && *mask != 0)
        })?;
        Ok(!all.is_empty())
    }

    /// The rules of a family (`AF_*`) that are read as something.
    fn rules_of<T>(
        &mut self,
        family: u8,
        read: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut batch = Batch::new();
        let mut head = [0; HEADER];
        head[0] = family;
        batch.request(GET, DUMP, "listing routing rules").bytes(&head);
        self.dump(&mut batch, &[Errno::AFNOSUPPORT], read)
    }
}

/// Of `AF_*`.
fn family_of(number: u8) -> Option<Family> {
    match number {
        2 => Some(Family::V4),
        10 => Some(Family::V6),
        _ => None,
    }
}

pub(crate) fn read(message: &Message<'_>) -> Option<Rule> {
    let [family, _, prefix, _, table, _, _, action] = array(message.payload, 0)?;
    if message.kind != NEW || action != TO_TABLE {
        return None;
    }
    let family = family_of(family)?;
    let attributes = message.attributes(HEADER);
    let number = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.u32());
    let source = attributes.find_kind(SOURCE).and_then(|source| source.address());
    Some(Rule {
        family,
        source: source.and_then(|source| IpNet::new(source, prefix).ok()),
        table: number(TABLE).unwrap_or(table.into()),
        priority: number(PRIORITY),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn what_is_written_is_read() {
        for address in ["10.0.0.2", "fd00::2"] {
            let rule = Rule { priority: Some(7), ..Rule::from(address.parse().unwrap(), 1000) };
            let mut batch = Batch::new();
            batch.add_rule(&rule);
            let bytes = batch.seal(1).to_vec();
            assert_eq!(read(&Messages::new(&bytes).next().unwrap()), Some(rule));
        }
    }

    /// As the kernel answers for IPv6 where it was booted without: DECnet is not there either.
    #[test]
    fn a_family_that_the_host_lacks_has_none() {
        const DECNET: u8 = 12;
        let mut socket = Socket::route().unwrap();
        assert_eq!(socket.rules_of(DECNET, read).unwrap(), []);
        assert_eq!(socket.rules_of(DECNET, read_way).unwrap(), []);
        assert_eq!(socket.rules_of(DECNET, read_unmarked).unwrap(), []);
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
