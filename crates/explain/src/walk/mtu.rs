//! The largest packet that passes.

use netlink::Link;

use super::{Hop, Walked, Walker};
use crate::packet::Carried;

/// A device that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    name: String,
    /// In bytes.
    mtu: u32,
    /// Whether it is the interface of one end.
    is_end: bool,
    /// Whether this host routed the packet before: it says so to the sender if one is too large.
    is_routed: bool,
}

impl Walker<'_> {
    /// Notes the MTU of a device; the answer takes the same way.
    pub(super) fn passes(&mut self, link: &Link, is_end: bool) {
        if !self.is_back {
            let (name, mtu, is_routed) = (link.name.to_string(), link.mtu, self.is_routed);
            self.mtus.push(Passed { name, mtu, is_end, is_routed });
        }
    }

    /// Whether what both ends may send fits through every device between them. What TCP sends is not
    /// larger than the interfaces of both ends.
    pub(super) fn fits(&mut self) -> Walked<()> {
        let all = std::mem::take(&mut self.mtus);
        let ends = all.iter().filter(|it| it.is_end).map(|it| it.mtu).min();
        for is_routed in [false, true] {
            let of = || all.iter().filter(|it| it.is_routed == is_routed);
            let both = of().min_by_key(|it| it.mtu).zip(of().max_by_key(|it| it.mtu));
            if let Some((smallest, largest)) = both
                && smallest.mtu < largest.mtu
            {
                self.is_narrow(smallest, largest, ends.unwrap_or(largest.mtu))?;
            }
        }
        if let Some(most) = all.iter().map(|it| it.mtu).min() {
            self.ok("mtu", format!("packets of up to {most} bytes pass"));
        }
        Ok(())
    }

    fn is_narrow(&mut self, smallest: &Passed, largest: &Passed, ends: u32) -> Walked<()> {
        let what = format!(
            "the MTU of {} is {}, that of {} is {}: larger packets than {} bytes are lost",
            smallest.name, smallest.mtu, largest.name, largest.mtu, smallest.mtu
        );
        if matches!(self.trip.carried, Carried::Tcp(_)) && smallest.mtu >= ends {
            self.note("mtu", what + ", but TCP sends none");
            return Ok(());
        }
        let fix = format!("ip link set {} mtu {}", smallest.name, largest.mtu);
        Err(self.fail(Hop::new("mtu", what).fixed(fix)))
    }
}
