//! The blocks of this host: the first one, more of them while they are full, fewer when they are empty.
//!
//! | when | then |
//! |---|---|
//! | of all addresses of the blocks a sixteenth, or one, is left | the next free block is claimed |
//! | no container has an address of a later block, and the others have twice as many free | it rests: no container gets an address of it, and names keep theirs apart from it |
//! | it has rested, and no container has an address of it still, nor is one reserved | it is given back |

use cluster::{Cluster, Etcd, Revision, View, book};
use model::{AddressPin, Error, IpNet, Kind, NetworkName, PinState, Result, SharedNetwork};

use super::resting::Block;
use crate::hosts::State;
use crate::hosts::keep::Keeper;
use crate::hosts::local::{self, Local};
use crate::hosts::member::Member;

/// The part of its addresses with which a host claims another block.
const LOW: usize = 16;

/// A block, and in which transaction it was taken.
type Claimed = (IpNet, Revision);

impl Keeper<'_> {
    /// The network as this host should have it.
    pub(in crate::hosts) fn blocks(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        (name, network): (&NetworkName, &SharedNetwork),
    ) -> Result<Local> {
        self.resting.keep_own(view, (name, &member.name));
        let known = local::made(&self.hosts.place)?.remove(name);
        let known = known.filter(|known| known.network.is_same(network));
        if let Some(known) = &known {
            self.claim_again(etcd, view, member, (name, known))?;
        }
        let first = known.map(|known| known.block);
        self.leave_taken(view, member, (name, first))?;
        if view.block(name, &member.name).is_none() {
            let claimed = book::claim_block(etcd, view, name, &member.name, first)?;
            learn(etcd, view, member, (name, claimed))?;
        }
        let mut local = self.present(view, member, (name, network), first)?;
        self.use_first(etcd, view, member, (name, local.block))?;
        // Before the store was read it is unknown what is used.
        if self.hosts.lock().attached.is_none() {
            return Ok(local);
        }
        if self.is_low(&local, name) {
            self.grow(etcd, view, member, name)?;
            local = self.present(view, member, (name, network), Some(local.block))?;
        }
        self.give_back(etcd, view, member, (name, &local))?;
        self.present(view, member, (name, network), Some(local.block))
    }

    /// The blocks that this host has, without those that rest.
    fn present(
        &self,
        view: &View,
        member: &Member,
        (name, network): (&NetworkName, &SharedNetwork),
        first: Option<IpNet>,
    ) -> Result<Local> {
        let mut more: Vec<IpNet> = view.blocks_of(name, &member.name).collect();
        let rests = |net: &IpNet| self.resting.has(&(name.clone(), *net));
        let block = first_of(first, &more, rests);
        let gone = || Error::try_again(format!("network {name} has no block here any more"));
        let block = block.ok_or_else(gone)?;
        more.retain(|net| *net != block && !rests(net));
        Ok(Local { network: network.clone(), block, more })
    }

    /// etcd may have forgotten a block from which this host gives addresses: it is claimed again. A later one that
    /// another host has by now goes from the book, and that is said once; of the first see [`Self::leave_taken`].
    fn claim_again(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        (name, known): (&NetworkName, &Local),
    ) -> Result<()> {
        for block in known.blocks() {
            let key = (name.clone(), block);
            match view.blocks.get(&key) {
                None => {
                    let claimed = book::claim_block(etcd, view, name, &member.name, Some(block))?;
                    learn(etcd, view, member, (name, claimed))?;
                }
                Some((holder, _)) if *holder == member.name => drop(self.anothers.remove(&key)),
                Some((holder, _)) if block != known.block && self.anothers.insert(key) => {
                    let why = format!(
                        "the block {block} of network {name} is host {holder}'s in etcd: containers of this host \
                         with addresses of it are not reached by others; disconnect them"
                    );
                    self.daemon.journal.failed("the cluster of hosts", &Error::conflict(why));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Removes the network from this host where another one has the block with its gateway by now: etcd may have forgotten
    /// that block when it was restored from an older state. This host takes another one after that.
    fn leave_taken(
        &mut self,
        view: &View,
        member: &Member,
        (name, first): (&NetworkName, Option<IpNet>),
    ) -> Result<()> {
        let taken =
            first.and_then(|first| Some((first, &view.blocks.get(&(name.clone(), first))?.0)));
        let Some((first, holder)) = taken.filter(|(_, holder)| **holder != member.name) else {
            return Ok(());
        };
        let removed = self
            .daemon
            .context_pool
            .with(|host_context| local::remove(name, &self.hosts.place, host_context));
        self.ruled.remove(name);
        removed.map_err(|error| {
            Error::conflict(format!(
                "the block {first} of network {name} is host {holder}'s in etcd, and the network does not leave this host; \
                 disconnect what containers it has here, and this host takes another block"
            ))
            .because(error)
        })
    }

    /// Ends the rest of the block in which the bridge has its address: containers get addresses of it.
    fn use_first(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        (name, first): (&NetworkName, IpNet),
    ) -> Result<()> {
        let key = (name.clone(), first);
        if !self.resting.is_unanswered(&key) || self.keep(etcd, view, member, &key)? {
            self.resting.end(&key);
        }
        Ok(())
    }

    /// Has etcd keep a block whose return was sent to it: the return may still reach it, and finds another record then.
    /// Whether it does.
    fn keep(&mut self, etcd: &Etcd, view: &mut View, member: &Member, key: &Block) -> Result<bool> {
        let kept = book::keep_block(etcd, view, &key.0, &member.name, key.1);
        let Some(Some(at)) = self.unless_refused(kept)? else { return Ok(false) };
        view.blocks.insert(key.clone(), (member.name.clone(), at));
        Ok(true)
    }

    /// Takes one more block, or one that rests. Where there is none an attach says so.
    fn grow(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        name: &NetworkName,
    ) -> Result<()> {
        if self.resting.resume(name) {
            return Ok(());
        }
        match book::claim_block(etcd, view, name, &member.name, None) {
            Ok(claimed) => learn(etcd, view, member, (name, claimed)),
            // There is none, or etcd takes no write.
            Err(error) if error.kind() == Kind::Exhausted => Ok(()),
            refused => self.unless_refused(refused).map(drop),
        }
    }

    /// Lets an empty block rest, or ends the rest of one.
    fn give_back(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        (name, local): (&NetworkName, &Local),
    ) -> Result<()> {
        for block in &local.more {
            if self.is_used(local, name, *block) {
                continue;
            }
            let more = local.more.iter().copied().filter(|net| net != block).collect();
            let without = Local { more, ..local.clone() };
            let is_left = self.has_room(&without, name) && !self.is_reserved(local, *block)?;
            if is_left && self.part((view, member), (name, local), *block)? {
                self.resting.begin((name.clone(), *block));
                return Ok(());
            }
        }
        match self.resting.due(name) {
            Some(block) => self.end_rest(etcd, view, member, (name, local, block)),
            None => Ok(()),
        }
    }

    /// Gives a block back that has rested, or takes it into use again where it is needed by now.
    fn end_rest(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        (name, local, block): (&NetworkName, &Local, IpNet),
    ) -> Result<()> {
        let key = (name.clone(), block);
        if self.is_in_book(name, local, block)? {
            self.defer(&key);
            return Ok(());
        }
        let is_free = local.block != block
            && !self.is_used(local, name, block)
            && !self.is_reserved(local, block)?
            && self.part((view, member), (name, local), block)?;
        if is_free {
            // Without an answer it rests on, and is given back again.
            self.resting.begin_return(&key);
            let given_up = book::give_up_block(etcd, name, &member.name, block);
            if self.unless_refused(given_up)?.is_none() {
                self.resting.begin(key);
                return Ok(());
            }
            view.blocks.remove(&key);
        } else if self.resting.is_unanswered(&key) && !self.keep(etcd, view, member, &key)? {
            // No container gets an address of it before what was sent to etcd is in vain.
            return Ok(());
        }
        self.resting.end(&key);
        Ok(())
    }

    /// Has names keep their addresses of a block apart from it, as this host keeps those outside its blocks; whether they
    /// do. Not before the other hosts know whose they are: the next one that has the block leases all others.
    fn part(
        &self,
        (view, member): (&View, &Member),
        (name, local): (&NetworkName, &Local),
        block: IpNet,
    ) -> Result<bool> {
        if !local.network.sticky {
            return Ok(true);
        }
        let parted = self.daemon.context_pool.with(|host_context| {
            let engine = host_context.engine();
            let kept = engine.addresses.kept_for_names(std::iter::once(name))?.into_iter();
            let kept = kept.map(|(_, address, owner)| (address, owner));
            let kept: Vec<_> = kept
                .filter(|(address, _)| local.network.block_with(*address) == Some(block))
                .collect();
            let is_known = |address| view.pinned(name, address) == Some(&member.name);
            match kept.iter().all(|(address, _)| is_known(*address)) {
                true => engine.addresses.keep_apart(name, &kept),
                false => Ok(false),
            }
        });
        match parted {
            // A process of this host is faster: the block stays for now.
            Err(error) if error.kind() == Kind::TryAgain => Ok(false),
            parted => parted,
        }
    }

    /// Lets a block rest on, and says so once.
    fn defer(&mut self, key: &Block) {
        if self.resting.defer(key) {
            let (name, block) = key;
            let why = format!("containers still get addresses of block {block} of network {name}");
            self.daemon.journal.failed("giving a block back", &Error::try_again(why));
        }
    }

    /// Whether containers get addresses of a block still: to take it out of the book may have failed.
    fn is_in_book(&self, name: &NetworkName, local: &Local, block: IpNet) -> Result<bool> {
        let first = local.range(block).first;
        self.daemon.context_pool.with(|host_context| {
            let network = host_context.engine().records.declared(name)?;
            let pools = network.iter().flat_map(|network| network.ipam.pools());
            Ok(pools.flat_map(|pool| &pool.ranges).any(|range| range.first == first))
        })
    }

    /// Whether at most a sixteenth of its addresses, or one, is left to containers.
    fn is_low(&self, local: &Local, name: &NetworkName) -> bool {
        let state = self.hosts.lock();
        is_low(local, 1, |block| taken(&state, (&local.network, name, block)))
    }

    /// Whether twice as many are left beside what names keep: nothing of that is forgotten for want of a block.
    fn has_room(&self, local: &Local, name: &NetworkName) -> bool {
        let state = self.hosts.lock();
        !is_low(local, 2, |block| count(&state, (&local.network, name, block), |_| true))
    }

    /// Whether containers have addresses of a block, here or elsewhere.
    fn is_used(&self, local: &Local, name: &NetworkName, block: IpNet) -> bool {
        needed(&self.hosts.lock(), (&local.network, name, block)) > 0
    }

    /// Whether an operator reserved addresses of a block here: its next host would give them to containers.
    fn is_reserved(&self, local: &Local, block: IpNet) -> Result<bool> {
        let reserved = self
            .daemon
            .context_pool
            .with(|host_context| host_context.engine().addresses.kept_back())?;
        Ok(reserved.into_iter().any(|address| local.network.block_with(address) == Some(block)))
    }
}

/// Whether at most a sixteenth of its addresses, or one, is left, `times` over.
fn is_low(local: &Local, times: usize, used: impl Fn(IpNet) -> usize) -> bool {
    // A block of IPv6 has more addresses than can be counted.
    let all = local.blocks().map(|block| local.capacity(block));
    let all = all.fold(0, usize::saturating_add);
    let used: usize = local.blocks().map(used).sum();
    all.saturating_sub(used) <= (all / LOW).max(1) * times
}

/// The block of these in which the bridge has its address: the one in which it is, or else one that does not rest.
fn first_of(first: Option<IpNet>, own: &[IpNet], rests: impl Fn(&IpNet) -> bool) -> Option<IpNet> {
    let known = first.filter(|first| own.contains(first));
    known.or_else(|| own.iter().find(|net| !rests(net)).or(own.first()).copied())
}

/// What a name keeps is a host's by its pin: whose the block is makes no difference, unless it is asked for just now.
fn needed(state: &State, of: (&SharedNetwork, &NetworkName, IpNet)) -> usize {
    count(state, of, |pin| {
        pin.name.is_none() || pin.wanted.is_some() || pin.state != PinState::Granted
    })
}

/// How many addresses of a block containers have, here or elsewhere: of the family of which they have more. What names
/// keep here is no reason for another block: they are forgotten where this one is full.
fn taken(state: &State, of: (&SharedNetwork, &NetworkName, IpNet)) -> usize {
    let own = state.member.as_ref().map(|member| &member.name);
    count(state, of, |pin| pin.name.is_none() || Some(&pin.host) != own)
}

/// How many addresses of a block are leased, or pinned by some pin.
fn count(
    state: &State,
    (network, name, block): (&SharedNetwork, &NetworkName, IpNet),
    is_counted: impl Fn(&AddressPin) -> bool,
) -> usize {
    let leased = state.attached.iter().flat_map(|attached| &attached.leases);
    let pins = state.view.iter().flat_map(|view| &view.pins);
    let pins = pins.filter(|(_, (pin, _))| is_counted(pin)).map(|(place, _)| place);
    let all = leased
        .chain(pins)
        .filter(|(of, address)| of == name && network.block_with(*address) == Some(block));
    let (v4, v6): (Vec<_>, Vec<_>) = all.partition(|(_, address)| address.is_ipv4());
    v4.len().max(v6.len())
}

/// Learns of a block that was claimed, and of the addresses of it that others have by then.
fn learn(
    etcd: &Etcd,
    view: &mut View,
    member: &Member,
    (name, (block, at)): (&NetworkName, Claimed),
) -> Result<()> {
    if at == Revision(view.revision.0.saturating_add(1)) {
        // Nothing was written in between: all hosts that make a network at once would read everything.
        view.revision = at;
        view.blocks.insert((name.clone(), block), (member.name.clone(), at));
        return Ok(());
    }
    let now = etcd.read()?;
    view.pins = now.pins;
    let key = (name.clone(), block);
    match now.blocks.get(&key).filter(|(holder, _)| *holder == member.name) {
        Some(taken) => drop(view.blocks.insert(key, taken.clone())),
        None => {
            return Err(Error::try_again(format!("block {block} of network {name} went away")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::Attached;

    #[test]
    fn a_block_that_rests_becomes_the_first_where_there_is_no_other_one() {
        let nets = ["10.8.1.0/24", "10.8.2.0/24", "10.8.3.0/24"].map(|net| net.parse().unwrap());
        let [one, two, three] = nets;
        assert_eq!(first_of(Some(two), &nets, |net| *net == two), Some(two));
        assert_eq!(first_of(Some(one), &[two, three], |net| *net == two), Some(three));
        assert_eq!(first_of(Some(one), &[two, three], |_| true), Some(two));
        assert_eq!(first_of(None, &[], |_| false), None);
    }

    #[test]
    fn what_names_keep_here_is_no_reason_for_another_block() {
        let name: NetworkName = "front".parse().unwrap();
        let text =
            r#"{"vni":7,"subnet":"10.8.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}"#;
        let network: SharedNetwork = serde_json::from_str(text).unwrap();
        let text = r#"{"name":"a","address":"192.0.2.1","etcd":[]}"#;
        let mut view = View::default();
        for (last, pin) in [
            (2, r#"{"host":"a","by":"db","state":"granted","name":"db"}"#),
            (3, r#"{"host":"b","by":"db","state":"granted","name":"db"}"#),
            (4, r#"{"host":"a","by":"db","state":"granted"}"#),
            (5, r#"{"host":"b","by":"db","state":"asked"}"#),
        ] {
            let pin = (serde_json::from_str(pin).unwrap(), Revision(9));
            view.pins.insert((name.clone(), [10, 8, 9, last].into()), pin);
        }
        let leases = [(name.clone(), [10, 8, 9, 2].into())].into();
        let mut state = State {
            member: Some(serde_json::from_str(text).unwrap()),
            view: Some(view),
            attached: Some(Attached { leases, ..Attached::default() }),
            ..State::default()
        };
        let of = (&network, &name, "10.8.9.0/24".parse().unwrap());
        // The container's, both of b, and the one that no name keeps.
        assert_eq!(taken(&state, of), 4);
        state.attached = None;
        assert_eq!((taken(&state, of), count(&state, of, |_| true)), (3, 4));
        // The block goes without what names keep, also elsewhere, but not what is asked for.
        assert_eq!(needed(&state, of), 2);
        let other = (&network, &name, "10.8.10.0/24".parse().unwrap());
        assert_eq!(count(&state, other, |_| true), 0);
    }
}
