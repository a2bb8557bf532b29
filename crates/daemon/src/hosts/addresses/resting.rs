//! Later blocks of this host that are to be given back: no container gets an address of them meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::View;
use model::{HostName, IpNet, NetworkName};

/// A process that chose an address of a block has its lease by then.
const REST: Duration = Duration::from_secs(5);

/// A block, and of which network.
pub(in crate::hosts) type Block = (NetworkName, IpNet);

/// How far it has come with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockRest {
    /// It is given back once it has rested since then, unless it is needed.
    Since(Instant),
    /// The same; containers still got addresses of it then, and that was reported.
    Deferred(Instant),
    /// The return of it was sent to etcd, which has not answered: that may reach it later.
    Unanswered,
}

/// The blocks that rest.
#[derive(Debug, Default)]
pub(in crate::hosts) struct Resting(BTreeMap<Block, BlockRest>);

impl Resting {
    /// Whether a block rests.
    pub(in crate::hosts) fn has(&self, block: &Block) -> bool {
        self.0.contains_key(block)
    }

    /// Lets a block rest from now on.
    pub(in crate::hosts) fn begin(&mut self, block: Block) {
        self.0.insert(block, BlockRest::Since(Instant::now()));
    }

    /// Forgets those of a network that the host has no more: what it gave back without an answer may be another one's.
    pub(in crate::hosts) fn keep_own(
        &mut self,
        view: &View,
        (name, host): (&NetworkName, &HostName),
    ) {
        let is_own = |block: &Block| view.blocks.get(block).is_some_and(|(of, _)| of == host);
        self.0.retain(|block, _| block.0 != *name || is_own(block));
    }

    /// Forgets those of some networks.
    pub(in crate::hosts) fn forget(&mut self, is_over: impl Fn(&NetworkName) -> bool) {
        self.0.retain(|(name, _), _| !is_over(name));
    }

    /// Takes one of a network into use again, but for those whose return was sent to etcd; whether there was one.
    pub(in crate::hosts) fn resume(&mut self, name: &NetworkName) -> bool {
        let mut own = self.0.iter().filter(|((of, _), rest)| {
            of == name && matches!(rest, BlockRest::Since(_) | BlockRest::Deferred(_))
        });
        let block = own.next().map(|(block, _)| block.clone());
        block.is_some_and(|block| self.0.remove(&block).is_some())
    }

    /// One of a network that has rested.
    pub(in crate::hosts) fn due(&self, name: &NetworkName) -> Option<IpNet> {
        let is_due = |rest: &BlockRest| match rest {
            BlockRest::Since(since) | BlockRest::Deferred(since) => since.elapsed() >= REST,
            BlockRest::Unanswered => true,
        };
        let mut due = self.0.iter().filter(|((of, _), rest)| of == name && is_due(rest));
        due.next().map(|((_, block), _)| *block)
    }

    /// Lets a block rest on, of which containers still get addresses; whether that is new.
    pub(in crate::hosts) fn defer(&mut self, block: &Block) -> bool {
        let Some(rest) = self.0.get_mut(block) else { return false };
        let before = *rest;
        if before != BlockRest::Unanswered {
            *rest = BlockRest::Deferred(Instant::now());
        }
        matches!(before, BlockRest::Since(_))
    }

    /// The return of a block is sent to etcd.
    pub(in crate::hosts) fn begin_return(&mut self, block: &Block) {
        self.0.insert(block.clone(), BlockRest::Unanswered);
    }

    /// Whether that was not answered.
    pub(in crate::hosts) fn is_unanswered(&self, block: &Block) -> bool {
        self.0.get(block) == Some(&BlockRest::Unanswered)
    }

    /// A block is given back, or in use again.
    pub(in crate::hosts) fn end(&mut self, block: &Block) {
        self.0.remove(block);
    }
}

#[cfg(test)]
mod tests {
    use cluster::Revision;

    use super::*;

    fn block(third: u8) -> Block {
        ("front".parse().unwrap(), format!("10.8.{third}.0/24").parse().unwrap())
    }

    fn view(blocks: &[(u8, &str)]) -> View {
        let of = |(third, host): &(u8, &str)| (block(*third), (host.parse().unwrap(), Revision(3)));
        View { blocks: blocks.iter().map(of).collect(), ..View::default() }
    }

    #[test]
    fn a_block_that_another_host_has_by_now_does_not_rest() {
        let (mut resting, host) = (Resting::default(), "a".parse().unwrap());
        (1..=3).for_each(|third| resting.begin(block(third)));
        resting.begin_return(&block(2));
        let other: Block = ("back".parse().unwrap(), block(1).1);
        resting.begin(other.clone());
        // The second one was given back after all, and no host has the third.
        resting.keep_own(&view(&[(1, "a"), (2, "b")]), (&block(1).0, &host));
        assert_eq!([1, 2, 3].map(|third| resting.has(&block(third))), [true, false, false]);
        assert!(resting.has(&other));
    }

    #[test]
    fn a_block_that_may_be_given_back_is_not_taken_into_use() {
        let (mut resting, name) = (Resting::default(), block(1).0);
        resting.begin(block(1));
        assert_eq!(resting.due(&name), None);
        resting.begin_return(&block(1));
        assert!(resting.is_unanswered(&block(1)) && !resting.resume(&name));
        assert!(!resting.defer(&block(1)) && resting.is_unanswered(&block(1)));
        assert_eq!(resting.due(&name), Some(block(1).1));
        // The return of the other one was not sent.
        resting.begin(block(2));
        assert!(resting.defer(&block(2)) && !resting.defer(&block(2)));
        assert!(resting.resume(&name) && !resting.has(&block(2)) && resting.has(&block(1)));
        resting.end(&block(1));
        assert_eq!(resting.due(&name), None);
    }
}
