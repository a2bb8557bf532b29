//! What was carried between two looks at the counters.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use netlink::{Count, Counters};

/// Counters at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot<K> {
    /// When, since any fixed moment.
    pub at: Duration,
    /// The counters of each interface.
    pub counters: HashMap<K, Counters>,
}

impl<K: Eq + Hash> Snapshot<K> {
    /// The rates since `before`; `None` for what was not there, was made anew meanwhile, or where no time
    /// has passed.
    pub fn rate(&self, before: &Self, key: &K) -> Option<Rates> {
        let passed = self.at.checked_sub(before.at).filter(|passed| !passed.is_zero())?;
        let (then, now) = (before.counters.get(key)?, self.counters.get(key)?);
        Some(Rates {
            receive: rate(then.receive, now.receive, passed)?,
            transmit: rate(then.transmit, now.transmit, passed)?,
        })
    }
}

/// Rates in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// What was received.
    pub receive: Rate,
    /// What was sent.
    pub transmit: Rate,
}

/// The rate of one direction, in units a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Dropped packets.
    pub drops: u64,
}

impl Rates {
    /// Of several interfaces.
    pub fn plus(self, other: Self) -> Self {
        let add = |one: Rate, other: Rate| Rate {
            bytes: one.bytes.saturating_add(other.bytes),
            packets: one.packets.saturating_add(other.packets),
            drops: one.drops.saturating_add(other.drops),
        };
        Self {
            receive: add(self.receive, other.receive),
            transmit: add(self.transmit, other.transmit),
        }
    }
}

/// The counters of several interfaces.
pub fn sum(one: Counters, other: Counters) -> Counters {
    let add = |one: Count, other: Count| Count {
        bytes: one.bytes.saturating_add(other.bytes),
        packets: one.packets.saturating_add(other.packets),
        drops: one.drops.saturating_add(other.drops),
    };
    Counters {
        receive: add(one.receive, other.receive),
        transmit: add(one.transmit, other.transmit),
    }
}

/// A counter never goes back, unless it is another link's.
fn rate(then: Count, now: Count, passed: Duration) -> Option<Rate> {
    let part = |then: u64, now: u64| {
        let more = u128::from(now.checked_sub(then)?);
        u64::try_from(more * 1_000_000_000 / passed.as_nanos()).ok()
    };
    Some(Rate {
        bytes: part(then.bytes, now.bytes)?,
        packets: part(then.packets, now.packets)?,
        drops: part(then.drops, now.drops)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64, bytes: u64) -> Snapshot<u8> {
        let receive = Count { bytes, packets: bytes / 100, drops: 0 };
        let counters = Counters { receive, transmit: Count::default() };
        Snapshot { at: Duration::from_millis(milliseconds), counters: [(1, counters)].into() }
    }

    #[test]
    fn two_looks_make_a_rate() {
        let rates = at(3_000, 10_000).rate(&at(1_000, 4_000), &1).unwrap();
        assert_eq!((rates.receive.bytes, rates.receive.packets), (3_000, 30));
        assert_eq!(rates.transmit, Rate::default());
        let fast = at(1, u64::MAX / 2).rate(&at(0, 0), &1);
        assert_eq!(fast, None, "no link is as fast as that");
    }

    #[test]
    fn what_is_new_has_no_rate() {
        assert_eq!(at(2_000, 5).rate(&at(1_000, 6), &1), None, "made anew");
        assert_eq!(at(1_000, 5).rate(&at(1_000, 4), &1), None, "no time");
        assert_eq!(at(1_000, 5).rate(&at(2_000, 4), &1), None, "backwards");
        assert_eq!(at(2_000, 5).rate(&at(1_000, 4), &2), None, "unknown");
    }
}
