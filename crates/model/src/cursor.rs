//! Where a pool's search for a free address continues.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Range;
use crate::address::{next_address, previous_address};

/// So many freed addresses of a range are remembered one by one.
const REMEMBERED: usize = 256;

/// The point from which a pool's search for a free address continues. It is a hint: leases are
/// recorded elsewhere, and a cursor that is lost or wrong costs time and order, never an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The address that was allocated last: [`crate::Order::NextAfterLast`] continues after it.
    pub at: IpAddr,
    /// What is known of each range, for [`crate::Order::LowestFree`]. Empty in pools with the other
    /// order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub floors: Vec<Floor>,
}

/// Which addresses of a range are free, from its beginning up to one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Of all addresses up to this one, only those in `freed` can be free.
    pub at: IpAddr,
    /// Released since they were allocated, ascending.
    pub freed: Vec<IpAddr>,
}

impl Cursor {
    /// After the first address that was allocated.
    pub fn new(at: IpAddr) -> Self {
        Self { at, floors: Vec::new() }
    }

    /// The floor of the range.
    pub fn floor(&self, range: &Range) -> Option<&Floor> {
        self.floors.iter().find(|floor| range.contains(floor.at))
    }

    /// `address` of `range` was allocated, after a search that found no free address from `from` up
    /// to it.
    pub fn note_taken(&mut self, range: &Range, from: IpAddr, address: IpAddr) {
        self.at = address;
        match self.floors.iter_mut().find(|floor| range.contains(floor.at)) {
            None if from <= range.first => {
                self.floors.push(Floor { at: address, freed: Vec::new() });
            }
            None => {}
            Some(floor) => {
                floor.freed.retain(|freed| *freed < from || *freed > address);
                let is_next = next_address(floor.at).is_some_and(|next| from <= next);
                if is_next && address > floor.at {
                    floor.at = address;
                }
            }
        }
    }

    /// `address` of `range` was released. Whether there is anything new in that.
    pub fn note_freed(&mut self, range: &Range, address: IpAddr) -> bool {
        let known = self.floors.iter_mut().find(|floor| range.contains(floor.at));
        let Some(floor) = known.filter(|floor| address <= floor.at) else { return false };
        let Err(place) = floor.freed.binary_search(&address) else { return false };
        floor.freed.insert(place, address);
        if floor.freed.len() > REMEMBERED
            && let Some(below) = floor.freed.pop().and_then(previous_address)
        {
            floor.at = below;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range() -> Range {
        let [first, last] = ["10.0.0.0", "10.0.3.255"].map(|end| end.parse().unwrap());
        Range::new("10.0.0.0/16".parse().unwrap(), first, last, None).unwrap()
    }

    fn ip(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    /// The lowest address that the cursor says may be free.
    fn lowest(cursor: &Cursor, range: &Range) -> Option<IpAddr> {
        match cursor.floor(range) {
            None => Some(range.first),
            Some(floor) => match floor.freed.first() {
                Some(freed) => Some(*freed),
                None => next_address(floor.at).filter(|next| range.contains(*next)),
            },
        }
    }

    #[test]
    fn a_long_memory_is_cut_and_nothing_is_forgotten() {
        let range = range();
        let mut cursor = Cursor::new(range.first);
        for number in 0..600 {
            cursor.note_taken(&range, range.first, ip(number));
        }
        for number in (0..600).rev() {
            assert!(cursor.note_freed(&range, ip(number)));
        }
        let floor = cursor.floor(&range).unwrap();
        assert_eq!(floor.freed.len(), REMEMBERED);
        assert_eq!((floor.freed[0], floor.at), (ip(0), ip(255)));
    }

    proptest! {
        /// Whatever is taken and freed, in whichever order: no free address lies below what the
        /// cursor proposes.
        #[test]
        fn nothing_free_lies_below(steps in prop::collection::vec((0u8..4, 0u32..40), 1..300)) {
            let range = range();
            let mut cursor = Cursor::new(range.first);
            let mut held = BTreeSet::new();
            for (what, number) in steps {
                let free = |address: &IpAddr| !held.contains(address);
                let place = (range.first, ip(number));
                match what {
                    0 | 1 => {
                        let first = (0..).map(ip).find(free).unwrap();
                        prop_assert!(lowest(&cursor, &range).is_some_and(|lowest| lowest <= first));
                        cursor.note_taken(&range, range.first, first);
                        held.insert(first);
                    }
                    2 if held.insert(place.1) => cursor.note_taken(&range, place.1, place.1),
                    _ => {
                        if held.remove(&place.1) {
                            cursor.note_freed(&range, place.1);
                        }
                    }
                }
            }
        }
    }
}
