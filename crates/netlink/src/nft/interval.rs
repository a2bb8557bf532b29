//! Sets that hold what lies between two addresses.

use std::net::IpAddr;

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::object::Table;
use crate::Socket;
use crate::wire::{Batch, DUMP, Message, Request};

/// Consecutive addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The first one.
    pub first: IpAddr,
    /// The last one.
    pub last: IpAddr,
}

impl Interval {
    /// The intervals that hold the same addresses, in ascending order and with a gap between each:
    /// the form in which the kernel takes them.
    pub fn merge(mut intervals: Vec<Self>) -> Vec<Self> {
        intervals.sort();
        let mut merged: Vec<Self> = Vec::new();
        for next in intervals {
            match merged.last_mut() {
                Some(last) if last.touches(&next) => last.last = last.last.max(next.last),
                Some(_) | None => merged.push(next),
            }
        }
        merged
    }

    /// Whether `next`, which does not begin earlier, leaves no gap.
    fn touches(&self, next: &Self) -> bool {
        let same_family = self.first.is_ipv4() == next.first.is_ipv4();
        same_family && model::next_address(self.last).is_none_or(|after| next.first <= after)
    }

    /// Writes the list that holds only this one: its first address, and the end that is behind it.
    pub(super) fn write(&self, request: &mut Request<'_>) {
        request.nest(abi::ELEMENTS_LIST, |list| {
            bound(list, self.first, false);
            if let Some(end) = model::next_address(self.last) {
                bound(list, end, true);
            }
        });
    }
}

fn bound(list: &mut Request<'_>, address: IpAddr, is_end: bool) {
    list.nest(abi::LIST_ELEMENT, |element| {
        element.nest(abi::ELEMENT_KEY, |key| {
            key.address(abi::DATA_VALUE, address);
        });
        if is_end {
            element.be32(abi::ELEMENT_FLAGS, abi::ELEMENT_IS_END);
        }
    });
}

/// The intervals of a set, in ascending order; none if it is not there.
///
/// # Errors
/// As [`Socket::dump`].
pub fn intervals(socket: &mut Socket, table: Table<'_>, set: &str) -> Result<Vec<Interval>> {
    let mut batch = Batch::new();
    let about = format!("listing the intervals of set {set} in {table}");
    let mut request = batch.request(kind(abi::GETSETELEM), DUMP, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
    let read = |message: &Message<'_>| Some(read(message));
    let mut bounds: Vec<(IpAddr, bool)> =
        socket.dump(&mut batch, &[crate::Errno::NOENT], read)?.into_iter().flatten().collect();
    bounds.sort();
    Ok(paired(&bounds))
}

/// The bounds of intervals in a message, each with whether it ends one.
pub(super) fn read(message: &Message<'_>) -> Vec<(IpAddr, bool)> {
    let list = message.attributes(HEADER).find_kind(abi::ELEMENTS_LIST);
    let elements = list.map(|list| list.nested()).into_iter().flatten();
    let bound = |element: crate::wire::Attribute<'_>| {
        let element = element.nested();
        let key = element.find_kind(abi::ELEMENT_KEY)?.nested();
        let flags = element.find_kind(abi::ELEMENT_FLAGS).and_then(|flags| flags.be32());
        let is_end = flags.unwrap_or(0) & abi::ELEMENT_IS_END != 0;
        Some((key.find_kind(abi::DATA_VALUE)?.address()?, is_end))
    };
    elements.filter_map(bound).collect()
}

/// Each beginning with the end that follows it. What follows no beginning ends nothing.
fn paired(bounds: &[(IpAddr, bool)]) -> Vec<Interval> {
    let mut found = Vec::new();
    for (place, (first, is_end)) in bounds.iter().enumerate() {
        if *is_end {
            continue;
        }
        let last = match bounds.get(place + 1) {
            Some((next, _)) => model::previous_address(*next),
            None if first.is_ipv4() => Some(IpAddr::from([255; 4])),
            None => Some(IpAddr::from([255; 16])),
        };
        found.extend(last.map(|last| Interval { first: *first, last }));
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    fn interval(first: &str, last: &str) -> Interval {
        Interval { first: first.parse().unwrap(), last: last.parse().unwrap() }
    }

    #[test]
    fn what_touches_becomes_one() {
        let merged = Interval::merge(vec![
            interval("10.0.2.0", "10.0.2.255"),
            interval("10.0.0.0", "10.0.0.255"),
            interval("10.0.1.0", "10.0.1.255"),
            interval("10.0.0.7", "10.0.0.7"),
            interval("10.0.4.0", "10.0.4.255"),
            interval("255.255.255.0", "255.255.255.255"),
            interval("255.255.255.255", "255.255.255.255"),
            interval("::", "::1"),
        ]);
        let wanted = [
            interval("10.0.0.0", "10.0.2.255"),
            interval("10.0.4.0", "10.0.4.255"),
            interval("255.255.255.0", "255.255.255.255"),
            interval("::", "::1"),
        ];
        assert_eq!(merged, wanted);
    }

    #[test]
    fn an_interval_may_have_no_end() {
        let bounds = [
            ("0.0.0.0".parse().unwrap(), true),
            ("10.0.0.0".parse().unwrap(), false),
            ("10.0.1.0".parse().unwrap(), true),
            ("255.0.0.0".parse().unwrap(), false),
        ];
        let wanted = [interval("10.0.0.0", "10.0.0.255"), interval("255.0.0.0", "255.255.255.255")];
        assert_eq!(paired(&bounds), wanted);
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            for message in Messages::new(&bytes) {
                let mut bounds = read(&message);
                bounds.sort();
                let _ = Interval::merge(paired(&bounds));
            }
        }

        #[test]
        fn merging_keeps_every_address(pairs in proptest::collection::vec((0u8..60, 0u8..9), 0..12)) {
            let at = |last: u8| IpAddr::from([10, 0, 0, last]);
            let given: Vec<_> = pairs
                .iter()
                .map(|(first, more)| Interval { first: at(*first), last: at(first + more) })
                .collect();
            let merged = Interval::merge(given.clone());
            let has = |of: &[Interval], address| {
                of.iter().any(|one| one.first <= address && address <= one.last)
            };
            for last in 0..80 {
                prop_assert_eq!(has(&given, at(last)), has(&merged, at(last)));
            }
        }
    }
}
