//! What gives way so that a container may open more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linux::filter::fence::{Opening, Sent};
use model::ContainerId;

use super::{Known, Memory};

/// What is known of one container, and of all.
pub(super) const MOST_OF_ONE: usize = 8192;
pub(super) const MOST: usize = 65536;
/// Which flows go on is known as of so long ago at most.
pub(in crate::fence) const FRESH: Duration = Duration::from_secs(1);

/// What gives way.
struct Gone<'a> {
    all: Vec<&'a Opening>,
    are_in: HashSet<&'a Opening>,
}

impl Memory {
    /// What has to go so that a container may open all of `wanted`; `None` where it may not. Closed ones go first: those
    /// whose flow has ended, and of the others the oldest. Where everybody's are too many those who have most give
    /// theirs. Nothing is forgotten yet: the kernel forgets it first.
    pub(in crate::fence) fn room(
        &self,
        container: &ContainerId,
        wanted: &HashSet<&Opening>,
        flows: impl FnOnce() -> Arc<HashSet<Sent>>,
    ) -> Option<Vec<Opening>> {
        let more = wanted.iter().filter(|it| !self.known.contains_key(**it)).count();
        let own = self.of_one.get(container).copied().unwrap_or_default() + more;
        let over = own.saturating_sub(MOST_OF_ONE);
        let over_all = (self.known.len() + more).saturating_sub(MOST);
        let mut gone = Gone { all: Vec::new(), are_in: wanted.clone() };
        if over == 0 && over_all == 0 {
            return Some(Vec::new());
        }
        let flows = flows();
        if over > 0 {
            gone.take(self.shut(&flows, |known| known.container() == Some(container)), over);
        }
        if gone.all.len() < over {
            return None;
        }
        if gone.all.len() < over_all {
            gone.take(self.shut(&flows, |_| true), over_all - gone.all.len());
        }
        if gone.all.len() < over_all {
            self.displace(container, own, &mut gone, over_all);
        }
        let is_enough = gone.all.len() >= over_all;
        is_enough.then(|| gone.all.into_iter().cloned().collect())
    }

    /// What is shut and known of these, with whether its flow goes on.
    fn shut<'a>(
        &'a self,
        flows: &HashSet<Sent>,
        is_meant: impl Fn(&Known) -> bool,
    ) -> Vec<(bool, Instant, &'a Opening)> {
        let now = Instant::now();
        let shut = self.known.iter().filter(|(_, it)| it.until <= now && is_meant(it));
        let of = |(opening, known): (&'a Opening, &Known)| {
            let Opening { source, destination, protocol, port, .. } = *opening;
            let is_living =
                known.until + FRESH > now || flows.contains(&(source, destination, protocol, port));
            (is_living, known.until, opening)
        };
        shut.map(of).collect()
    }

    /// Others who have more than `own` give what is over first, as far as that leaves them no less.
    fn displace<'a>(
        &'a self,
        container: &ContainerId,
        own: usize,
        gone: &mut Gone<'a>,
        wanted: usize,
    ) {
        let others =
            self.of_one.iter().filter(|(other, count)| *other != container && **count > own);
        let mut others: Vec<(usize, &ContainerId)> =
            others.map(|(it, count)| (*count, it)).collect();
        others.sort_unstable_by(|one, other| other.cmp(one));
        for (count, other) in others {
            let all = self.known.iter().filter(|(_, known)| known.container() == Some(other));
            let mut all: Vec<(Instant, &Opening)> =
                all.map(|(opening, known)| (known.until, opening)).collect();
            all.sort_unstable();
            let missing = wanted.saturating_sub(gone.all.len()).min(count - own);
            let new: Vec<&Opening> = all.into_iter().map(|(_, opening)| opening).collect();
            let new = new.into_iter().filter(|it| !gone.are_in.contains(it)).take(missing);
            new.collect::<Vec<_>>().into_iter().for_each(|opening| gone.add(opening));
            if gone.all.len() >= wanted {
                return;
            }
        }
    }
}

impl<'a> Gone<'a> {
    /// All whose flow has ended, and as many of the others as it takes.
    fn take(&mut self, mut shut: Vec<(bool, Instant, &'a Opening)>, wanted: usize) {
        shut.sort_unstable();
        shut.retain(|(_, _, opening)| !self.are_in.contains(opening));
        for (at, (is_living, _, opening)) in shut.into_iter().enumerate() {
            if is_living && at >= wanted {
                return;
            }
            self.add(opening);
        }
    }

    fn add(&mut self, opening: &'a Opening) {
        if self.are_in.insert(opening) {
            self.all.push(opening);
        }
    }
}
