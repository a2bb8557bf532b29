//! What names have opened, as the daemon knows it: to open it again after a loss.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ::names::Holder;
use linux::filter::fence::Opening;
use model::DomainName;

/// What is known of one container, and of all.
const MOST_OF_ONE: usize = 8192;
const MOST: usize = 65536;
/// Names that have led to one address.
const NAMES: usize = 8;
/// Which name led to an address is known of so many.
const LED: usize = 8192;

/// One that was opened.
#[derive(Debug)]
struct Known {
    names: Vec<DomainName>,
    until: Instant,
    /// Whose it is; not known of what an earlier life of the daemon opened for a container that is gone.
    holder: Option<Holder>,
}

/// Everything that was opened.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: HashMap<Opening, Known>,
    of_one: HashMap<IpAddr, usize>,
    led: HashMap<(IpAddr, IpAddr), DomainName>,
    order: VecDeque<(IpAddr, IpAddr)>,
}

impl Memory {
    /// Makes room for so many more ways of a container: those that are shut give theirs, and are returned.
    /// `None` where there is none.
    pub(super) fn make_room(&mut self, source: IpAddr, more: usize) -> Option<Vec<Opening>> {
        if self.has_room(source, more) {
            return Some(Vec::new());
        }
        let now = Instant::now();
        let is_full = self.known.len() + more > MOST;
        let is_shut = |(opening, known): &(&Opening, &Known)| {
            known.until <= now && (opening.source == source || is_full)
        };
        let shut: Vec<Opening> =
            self.known.iter().filter(is_shut).map(|(opening, _)| opening.clone()).collect();
        shut.iter().for_each(|opening| drop(self.known.remove(opening)));
        self.retain(|_, _| true);
        self.has_room(source, more).then_some(shut)
    }

    fn has_room(&self, source: IpAddr, more: usize) -> bool {
        let of_one = self.of_one.get(&source).copied().unwrap_or_default();
        of_one + more <= MOST_OF_ONE && self.known.len() + more <= MOST
    }

    /// The names that lead there with this one, the latest first.
    pub(super) fn names(&self, opening: &Opening, name: &DomainName) -> Vec<DomainName> {
        let before = self.known.get(opening).map(|known| known.names.as_slice());
        let others = before.unwrap_or_default().iter().filter(|other| *other != name);
        std::iter::once(name).chain(others).take(NAMES).cloned().collect()
    }

    /// Remembers what was opened.
    pub(super) fn add(
        &mut self,
        opening: Opening,
        (names, limit): (Vec<DomainName>, Duration),
        holder: Option<Holder>,
    ) {
        let (source, until) = (opening.source, Instant::now() + limit);
        if self.known.insert(opening, Known { names, until, holder }).is_none() {
            *self.of_one.entry(source).or_default() += 1;
        }
    }

    /// Remembers that a name led a container to an address, whatever was opened.
    pub(super) fn led(&mut self, source: IpAddr, address: IpAddr, name: &DomainName) {
        if self.led.insert((source, address), name.clone()).is_none() {
            self.order.push_back((source, address));
        }
        while self.order.len() > LED {
            if let Some(oldest) = self.order.pop_front() {
                self.led.remove(&oldest);
            }
        }
    }

    /// The name that led a container to an address.
    pub(super) fn name_of(&self, source: IpAddr, address: IpAddr) -> Option<&DomainName> {
        self.led.get(&(source, address))
    }

    /// Whether it was opened.
    pub(super) fn knows(&self, opening: &Opening) -> bool {
        self.known.contains_key(opening)
    }

    /// Whether it was opened for this attachment, and this name led there.
    pub(super) fn is_led(&self, opening: &Opening, name: &DomainName, holder: &Holder) -> bool {
        let known = self.known.get(opening);
        known.is_some_and(|it| it.names.contains(name) && it.holder.as_ref() == Some(holder))
    }

    /// What is open, and for whom.
    pub(super) fn open(&self) -> Vec<(Opening, Vec<DomainName>, Holder)> {
        let now = Instant::now();
        let open = self.known.iter().filter(|(_, known)| known.until > now);
        let of = |(opening, known): (&Opening, &Known)| {
            Some((opening.clone(), known.names.clone(), known.holder.clone()?))
        };
        open.filter_map(of).collect()
    }

    /// For how long it is open.
    pub(super) fn remaining(&self, opening: &Opening) -> Duration {
        let until = self.known.get(opening).map(|known| known.until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Forgets what is not meant to stay.
    pub(super) fn forget(&mut self, is_kept: impl Fn(&Opening, &[DomainName]) -> bool) {
        self.retain(|opening, known| is_kept(opening, &known.names));
    }

    /// Forgets where names led a container that is gone.
    pub(super) fn forget_led(&mut self, sources: &[IpAddr]) {
        self.led.retain(|(source, _), _| !sources.contains(source));
        self.order.retain(|(source, _)| !sources.contains(source));
    }

    fn retain(&mut self, is_kept: impl Fn(&Opening, &Known) -> bool) {
        self.known.retain(|opening, known| is_kept(opening, known));
        self.of_one.clear();
        for opening in self.known.keys() {
            *self.of_one.entry(opening.source).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Protocol;

    use super::*;

    fn opening(source: u8, number: u16) -> Opening {
        let [high, low] = number.to_be_bytes();
        Opening {
            bridge: "br0".parse().unwrap(),
            source: [10, 0, 0, source].into(),
            destination: [203, 0, high, low].into(),
            protocol: Protocol::Tcp,
            port: 443,
        }
    }

    #[test]
    fn one_container_cannot_take_all_room() {
        let mut memory = Memory::default();
        let name: DomainName = "a.example".parse().unwrap();
        for number in 0..8192 {
            let one = opening(2, number);
            assert_eq!(memory.make_room(one.source, 1), Some(Vec::new()));
            memory.add(one, (vec![name.clone()], Duration::from_secs(60)), None);
        }
        assert_eq!(memory.make_room([10, 0, 0, 2].into(), 1), None);
        assert_eq!(memory.make_room([10, 0, 0, 3].into(), 512), Some(Vec::new()));
        memory.forget(|it, _| it.destination != opening(2, 7).destination);
        assert_eq!(memory.make_room([10, 0, 0, 2].into(), 1), Some(Vec::new()));
        assert!(!memory.knows(&opening(2, 7)) && memory.knows(&opening(2, 8)));
    }

    #[test]
    fn what_is_shut_gives_its_room() {
        let mut memory = Memory::default();
        let name: DomainName = "a.example".parse().unwrap();
        for number in 0..8192 {
            memory.add(opening(2, number), (vec![name.clone()], Duration::ZERO), None);
        }
        assert_eq!(memory.make_room([10, 0, 0, 2].into(), 1).map(|shut| shut.len()), Some(8192));
        assert!(memory.open().is_empty());
    }

    #[test]
    fn the_latest_name_is_first() {
        let mut memory = Memory::default();
        let (a, b): (DomainName, DomainName) =
            ("a.example".parse().unwrap(), "b.example".parse().unwrap());
        memory.add(opening(2, 1), (vec![a.clone()], Duration::from_secs(9)), None);
        let holder = |since| Holder {
            id: model::AttachmentId {
                network: "net".parse().unwrap(),
                container: "web".parse().unwrap(),
                ifname: "eth0".parse().unwrap(),
            },
            since: model::Timestamp(since),
        };
        memory.add(opening(2, 2), (vec![a.clone()], Duration::from_secs(9)), Some(holder(1)));
        assert!(memory.is_led(&opening(2, 2), &a, &holder(1)));
        assert!(!memory.is_led(&opening(2, 2), &b, &holder(1)), "another name");
        assert!(!memory.is_led(&opening(2, 2), &a, &holder(2)), "another container");
        assert_eq!(memory.names(&opening(2, 1), &b), [b, a.clone()]);
        memory.led([10, 0, 0, 2].into(), [203, 0, 0, 1].into(), &a);
        assert_eq!(memory.name_of([10, 0, 0, 2].into(), [203, 0, 0, 1].into()), Some(&a));
        memory.forget_led(&[[10, 0, 0, 2].into()]);
        assert_eq!(memory.name_of([10, 0, 0, 2].into(), [203, 0, 0, 1].into()), None);
    }
}
