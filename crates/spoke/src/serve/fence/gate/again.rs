//! Puts back what others have changed in the packet filter.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ::names::Holder;
use linux::filter::fence::{self, InSet, Opening};
use model::{DomainName, Error, Result};
use netlink::{Socket, nft};

use super::{ATTEMPTS, FenceGate, attempts, locked};
use crate::serve::fence::memory::Memory;

/// An element may stay so much longer than memory says: it is read at another moment.
const MARGIN: Duration = Duration::from_secs(1);
/// So many strays are removed at once: names open nothing meanwhile.
const STRAYS: usize = 64;

impl FenceGate {
    /// Opens again what is open, as far as its containers are there and their rules allow it.
    pub(in crate::serve::fence) fn open_again(&self, socket: &mut Socket) -> Result<()> {
        let memory = self.memory();
        for _ in attempts() {
            let generation = nft::generation(socket)?;
            let mut open = memory.open();
            locked(&self.records).retain(&mut open)?;
            if open_all(socket, generation, &memory, open)? {
                return Ok(());
            }
        }
        Err(Error::try_again("opening again what names led to: others keep changing the rules"))
    }

    /// Removes what others have opened. Whether there was any. What is in the sets is read while names open more,
    /// which memory knows by the time at which it is asked.
    pub(in crate::serve::fence) fn remove_strays(&self, socket: &mut Socket) -> Result<bool> {
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
        for some in strays.chunks(STRAYS) {
            let memory = self.memory();
            for stray in some.iter().filter(|it| is_stray(&memory, it)) {
                is_any = true;
                fence::remove_stray(socket, stray)?;
            }
        }
        Ok(is_any)
    }

    /// Removes the own rules of containers that have none by now, as the records say. Records come before the
    /// ruleset: what is there at a generation has a record that is read after it. While one is damaged nothing is
    /// removed: it would open that container.
    pub(in crate::serve::fence) fn forget_other_own(&self, socket: &mut Socket) -> Result<()> {
        // Nothing is opened meanwhile.
        let _memory = self.memory();
        for _ in 0..ATTEMPTS {
            let generation = nft::generation(socket)?;
            let Some(all) = locked(&self.records).own()? else { return Ok(()) };
            if fence::forget_other_own(socket, generation, &all)? {
                return Ok(());
            }
        }
        Err(Error::try_again("removing egress rules of containers: others keep changing the rules"))
    }
}

/// Opens these for the time that they have; `false` where the ruleset is another one by now.
fn open_all(
    socket: &mut Socket,
    mut generation: u32,
    memory: &Memory,
    all: Vec<(Opening, Vec<DomainName>, Holder)>,
) -> Result<bool> {
    let mut by_time: HashMap<u64, Vec<(Opening, Vec<DomainName>)>> = HashMap::new();
    for (opening, names, _) in all {
        let seconds = memory.remaining(&opening).as_secs().max(1);
        by_time.entry(seconds).or_default().push((opening, names));
    }
    for (seconds, all) in by_time {
        if !fence::open(socket, generation, (&all, Duration::from_secs(seconds)), &[])? {
            return Ok(false);
        }
        // That was this change; another one in between has a later number.
        generation = generation.wrapping_add(1);
    }
    Ok(true)
}
