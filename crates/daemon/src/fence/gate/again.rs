//! Puts back what others have changed in the packet filter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use linux::filter::fence::{self, BoundPort, InSet, Opening, Own};
use model::{Error, IfName, Moment, Result};
use netlink::{Socket, nft};

use super::{ATTEMPTS, FenceGate, attempts, locked};
use crate::fence::memory::Memory;
use crate::fence::records::Ports;

/// An element may stay so much longer than memory says: it is read at another moment.
const MARGIN: Duration = Duration::from_secs(1);
/// Nothing is opened for less.
const LEAST: Duration = Duration::from_secs(1);
/// So many strays are removed, and so many ways are opened again, by one change of the ruleset: names open nothing
/// meanwhile, and something between two changes.
const AT_ONCE: usize = 256;

impl FenceGate {
    /// Opens again what is open and not there, as far as its container is there and its rules allow it. Behind these
    /// bridges a container may send in another one's name, and use what is open for it: nothing is opened there.
    pub(in crate::fence) fn open_again(
        &self,
        socket: &mut Socket,
        unbound: &[IfName],
    ) -> Result<()> {
        // What is there need not be opened again. Where it cannot be read all of it is.
        let there = fence::opened(socket).unwrap_or_default();
        let mut lost = {
            let memory = self.memory();
            let mut open = memory.open();
            open.retain(|opening| {
                let remaining = there.get(opening).map(|(_, remaining)| *remaining);
                let is_lost = remaining.is_none_or(|it| it + MARGIN < memory.remaining(opening));
                is_lost && !unbound.contains(&opening.bridge)
            });
            open
        };
        // Those of one container go together: its record is read once.
        lost.sort_unstable();
        lost.chunks(AT_ONCE).try_for_each(|some| self.open_some_again(socket, some))
    }

    /// For the time that they have now: others were opened again before these.
    fn open_some_again(&self, socket: &mut Socket, some: &[Opening]) -> Result<()> {
        let mut memory = self.memory();
        for _ in attempts() {
            let generation = nft::generation(socket)?;
            let mut open = memory.still_open(some);
            locked(&self.records).retain(&mut open)?;
            let bridges: BTreeSet<IfName> = open.iter().map(|(it, ..)| it.bridge.clone()).collect();
            let mut are_checked = true;
            for bridge in &bridges {
                are_checked &= self.is_checked(socket, bridge)?;
            }
            if !are_checked {
                continue;
            }
            let timed = open.into_iter().map(|(opening, names, _)| {
                let remaining = memory.remaining(&opening).max(LEAST);
                (opening, names, remaining)
            });
            let timed: Vec<_> = timed.collect();
            if timed.is_empty() {
                return Ok(());
            }
            if fence::open_each(socket, generation, &timed)? {
                // The kernel counts from a moment before this one.
                timed.iter().for_each(|(opening, _, limit)| memory.extend(opening, *limit));
                return Ok(());
            }
        }
        Err(Error::try_again("opening again what names led to: others keep changing the rules"))
    }

    /// Removes what others have opened. Whether there was any. What is in the sets is read while names open more,
    /// which memory knows by the time at which it is asked.
    pub(in crate::fence) fn remove_strays(&self, socket: &mut Socket) -> Result<bool> {
        let began = Instant::now();
        let mut strays = fence::in_sets(socket)?;
        let is_stray = |memory: &Memory, there: &InSet| {
            there.is_stray(&|opening, remaining| {
                let longest = memory.remaining(opening) + began.elapsed() + MARGIN;
                memory.knows(opening) && remaining.is_none_or(|it| it <= longest)
            })
        };
        {
            let memory = self.memory();
            strays.retain(|there| is_stray(&memory, there));
        }
        let mut is_any = false;
        for some in strays.chunks(AT_ONCE) {
            let memory = self.memory();
            let some: Vec<&InSet> = some.iter().filter(|it| is_stray(&memory, it)).collect();
            is_any |= !some.is_empty();
            fence::remove_strays(socket, &some)?;
        }
        Ok(is_any)
    }

    /// Makes the own rules of a container hold, when the ports of its neighbours are checked.
    pub(in crate::fence) fn keep_own(
        &self,
        socket: &mut Socket,
        own: &Own,
        now: &Moment,
    ) -> Result<()> {
        let is_checked = |socket: &mut Socket| self.is_checked(socket, &own.bridge);
        fence::keep_own_checked(socket, own, Some(now), is_checked)
    }

    /// Has the ports of containers behind fences checked, whatever is known of them: by them they send from their own
    /// addresses only. Returns the bridges with ports that could not be, each with the reason.
    pub(in crate::fence) fn bind(&self, socket: &mut Socket) -> Result<Vec<(IfName, Error)>> {
        let mut checked = locked(&self.checked);
        let Ports { all: ports, failed: mut unbound } = locked(&self.records).ports()?;
        let bridges: BTreeSet<&IfName> = ports.iter().map(BoundPort::bridge).collect();
        let mut check = |bridge: &IfName| {
            checked.check(socket, bridge, &ports)?;
            // Where the first port made the table they are looked at again.
            if checked.has(socket, bridge)? {
                Ok(())
            } else {
                checked.check(socket, bridge, &ports)
            }
        };
        let failed = bridges.into_iter().filter_map(|it| Some((it.clone(), check(it).err()?)));
        unbound.extend(failed);
        Ok(unbound)
    }

    /// The ports of containers behind fences.
    pub(in crate::fence) fn ports(&self) -> Result<Ports> {
        locked(&self.records).ports()
    }

    /// The bridges that stay shut until a record can be read again, and which.
    pub(in crate::fence) fn shut(&self) -> BTreeMap<IfName, String> {
        locked(&self.shut).clone()
    }

    /// These stay shut from now on, and no others.
    pub(in crate::fence) fn set_shut(&self, shut: BTreeMap<IfName, String>) {
        *locked(&self.shut) = shut;
    }

    /// Removes the own rules of containers that have none by now, as the records say. Records come before the
    /// ruleset: what is there at a generation has a record that is read after it. Behind a bridge where one is damaged
    /// nothing is removed: it would open that container. Of the bridges of all, and of networks, only what their records
    /// need stays known: what a network needed a moment ago would let through what it does not by now.
    pub(in crate::fence) fn settle_own(&self, socket: &mut Socket) -> Result<()> {
        // Nothing is opened meanwhile.
        let _memory = self.memory();
        for _ in 0..ATTEMPTS {
            let generation = nft::generation(socket)?;
            let (all, unread) = locked(&self.records).own()?;
            let networks = locked(&self.records).networks()?;
            let may_have_others = |it: &IfName| unread.has(it);
            // The one changes the ruleset for which the other has looked: it is done again.
            if fence::forget_other_own(socket, generation, (&all, &may_have_others))?
                && fence::settle_behind(socket, generation, (&networks, &all, &may_have_others))?
            {
                return Ok(());
            }
        }
        Err(Error::try_again("removing egress rules of containers: others keep changing the rules"))
    }
}
