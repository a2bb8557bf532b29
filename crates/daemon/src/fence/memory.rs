//! What names have opened, as the daemon knows it: to open it again after a loss.

mod room;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ::names::Holder;
use linux::filter::fence::Opening;
use model::{ContainerId, DomainName};

pub(super) use room::FRESH;

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
    /// How many each container has, on all of its networks, by all of its addresses.
    of_one: HashMap<ContainerId, usize>,
    led: HashMap<(IpAddr, IpAddr), DomainName>,
    order: VecDeque<(IpAddr, IpAddr)>,
}

impl Memory {
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
        let until = Instant::now() + limit;
        if let Some(holder) = &holder {
            *self.of_one.entry(holder.id.container.clone()).or_default() += 1;
        }
        if let Some(before) = self.known.insert(opening, Known { names, until, holder }) {
            self.count_out(&before);
        }
    }

    /// Forgets these, which are gone from the kernel.
    pub(super) fn remove(&mut self, gone: &[Opening]) {
        for opening in gone {
            if let Some(known) = self.known.remove(opening) {
                self.count_out(&known);
            }
        }
    }

    fn count_out(&mut self, known: &Known) {
        let Some(container) = known.container() else { return };
        match self.of_one.get_mut(container) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(self.of_one.remove(container)),
        }
    }

    /// It is open for so long from now on: it was opened again.
    pub(super) fn extend(&mut self, opening: &Opening, limit: Duration) {
        if let Some(known) = self.known.get_mut(opening) {
            known.until = Instant::now() + limit;
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

    /// What is open.
    pub(super) fn open(&self) -> Vec<Opening> {
        let now = Instant::now();
        let open = self.known.iter().filter(|(_, known)| known.until > now);
        open.map(|(opening, _)| opening.clone()).collect()
    }

    /// Those of these that are open, by which names, and for whom.
    pub(super) fn still_open(&self, some: &[Opening]) -> Vec<(Opening, Vec<DomainName>, Holder)> {
        let now = Instant::now();
        let of = |opening: &Opening| {
            let known = self.known.get(opening).filter(|known| known.until > now)?;
            Some((opening.clone(), known.names.clone(), known.holder.clone()?))
        };
        some.iter().filter_map(of).collect()
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
        for container in self.known.values().filter_map(Known::container) {
            match self.of_one.get_mut(container) {
                Some(count) => *count += 1,
                None => drop(self.of_one.insert(container.clone(), 1)),
            }
        }
    }
}

impl Known {
    fn container(&self) -> Option<&ContainerId> {
        self.holder.as_ref().map(|holder| &holder.id.container)
    }
}
