//! The ports that were requested with an address, from there until they are released.
//!
//! A memory only: what it lacks, because another process had it or it was full, is found in Neutron.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Mac, Ownership, ResourceId};

use crate::api::PortResource;

/// The limit of the list. Beyond it, those are dropped that have had a container the longest.
const MOST: usize = 16_384;

/// The allocated addresses and ports.
#[derive(Debug, Default)]
pub(crate) struct Allocated(Mutex<AllocatedPorts>);

#[derive(Debug, Default)]
struct AllocatedPorts {
    ports: BTreeMap<ResourceId, Entry>,
    addresses: BTreeMap<(ResourceId, IpAddr), ResourceId>,
}

#[derive(Debug)]
struct Entry {
    network: ResourceId,
    /// Passed to the attachment that uses it, and dropped then.
    port: Option<Box<PortResource>>,
    /// The hardware address that it was requested for.
    asked: Option<Mac>,
    ownership: Ownership,
    /// Whether the attachment that had it has ended.
    is_ended: bool,
    /// The addresses that were returned; the port may have more.
    out: Vec<IpAddr>,
    since: Instant,
}

/// An allocated port.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AllocatedPort {
    pub(crate) id: ResourceId,
    pub(crate) ownership: Ownership,
    pub(crate) asked: Option<Mac>,
    /// Whether the attachment that had it has ended.
    pub(crate) is_ended: bool,
    /// The port, while no attachment has it.
    pub(crate) waiting: Option<PortResource>,
}

impl Allocated {
    /// Remembers that the port was allocated with this address.
    pub(crate) fn add(
        &self,
        port: PortResource,
        address: IpAddr,
        asked: Option<Mac>,
        ownership: Ownership,
    ) {
        let mut book = self.book();
        book.make_room();
        let (id, network) = (port.id.clone(), port.network_id.clone());
        book.addresses.insert((network.clone(), address), id.clone());
        let entry = book.ports.entry(id).or_insert_with(|| Entry {
            network,
            port: None,
            asked,
            ownership,
            is_ended: false,
            out: Vec::new(),
            since: Instant::now(),
        });
        entry.asked = entry.asked.or(asked);
        if !entry.out.contains(&address) {
            entry.out.push(address);
        }
        entry.port = Some(Box::new(port));
    }

    /// The port that was allocated with the address.
    pub(crate) fn port(&self, network: &ResourceId, address: IpAddr) -> Option<AllocatedPort> {
        let book = self.book();
        let id = book.addresses.get(&(network.clone(), address))?;
        book.ports.get(id).map(|entry| entry.reported(id))
    }

    /// The port that waits for an attachment and was requested for the hardware address.
    pub(crate) fn of_mac(&self, network: &ResourceId, mac: Mac) -> Option<AllocatedPort> {
        let book = self.book();
        let mut of = book.waiting(network).filter(|(_, entry)| entry.asked == Some(mac));
        of.next().map(|(id, entry)| entry.reported(id))
    }

    /// The only port that waits for an attachment and was allocated with no address that passes the
    /// test. Where several wait, the right one is unknown.
    pub(crate) fn only_without(
        &self,
        network: &ResourceId,
        test: impl Fn(IpAddr) -> bool,
    ) -> Option<AllocatedPort> {
        let book = self.book();
        let lacks = |entry: &Entry| entry.asked.is_none() && !entry.out.iter().any(|ip| test(*ip));
        let mut of = book.waiting(network).filter(|(_, entry)| lacks(entry));
        let (id, entry) = of.next()?;
        of.next().is_none().then(|| entry.reported(id))
    }

    /// Takes the port for an attachment; none where one has it already, or where Neutron must be asked.
    pub(crate) fn take(&self, network: &ResourceId, address: IpAddr) -> Option<PortResource> {
        let mut book = self.book();
        let id = book.addresses.get(&(network.clone(), address))?.clone();
        let entry = book.ports.get_mut(&id)?;
        entry.is_ended = false;
        entry.port.take().map(|port| *port)
    }

    /// The ports that were allocated no longer than this ago, and wait for an attachment.
    pub(crate) fn recent(&self, limit: Duration) -> BTreeSet<ResourceId> {
        let book = self.book();
        let is_recent = |entry: &Entry| entry.port.is_some() && entry.since.elapsed() < limit;
        let recent = book.ports.iter().filter(|(_, entry)| is_recent(entry));
        recent.map(|(id, _)| id.clone()).collect()
    }

    /// The attachment that had the port has ended; its address is not released yet.
    pub(crate) fn end(&self, id: &ResourceId) {
        if let Some(entry) = self.book().ports.get_mut(id) {
            entry.is_ended = true;
        }
    }

    /// Whether the port was allocated, and its address is not released.
    pub(crate) fn has(&self, id: &ResourceId) -> bool {
        self.book().ports.contains_key(id)
    }

    /// The addresses that were allocated with the port, besides these.
    pub(crate) fn others(&self, id: &ResourceId, these: &[IpAddr]) -> Vec<IpAddr> {
        let book = self.book();
        let out = book.ports.get(id).map(|entry| entry.out.as_slice()).unwrap_or_default();
        out.iter().filter(|address| !these.contains(address)).copied().collect()
    }

    /// Drops these addresses of the port, which lost them.
    pub(crate) fn part(&self, port: &PortResource, these: &[IpAddr]) {
        let mut book = self.book();
        for address in these {
            let key = (port.network_id.clone(), *address);
            if book.addresses.get(&key) == Some(&port.id) {
                book.addresses.remove(&key);
            }
        }
        if let Some(entry) = book.ports.get_mut(&port.id) {
            entry.out.retain(|address| !these.contains(address));
            if let Some(waiting) = &mut entry.port {
                **waiting = port.clone();
            }
        }
    }

    /// Drops a port, with all its addresses.
    pub(crate) fn remove(&self, id: &ResourceId) {
        let mut book = self.book();
        book.remove(id);
    }

    /// How many are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.book().ports.len()
    }

    fn book(&self) -> MutexGuard<'_, AllocatedPorts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AllocatedPorts {
    fn waiting(&self, network: &ResourceId) -> impl Iterator<Item = (&ResourceId, &Entry)> {
        self.ports
            .iter()
            .filter(move |(_, entry)| entry.network == *network && entry.port.is_some())
    }

    fn remove(&mut self, id: &ResourceId) {
        if let Some(entry) = self.ports.remove(id) {
            for address in entry.out {
                self.addresses.remove(&(entry.network.clone(), address));
            }
        }
    }

    fn make_room(&mut self) {
        if self.ports.len() < MOST {
            return;
        }
        let mut by_age: Vec<(bool, Instant, ResourceId)> = Vec::with_capacity(self.ports.len());
        let all = self.ports.iter();
        by_age.extend(all.map(|(id, entry)| (entry.port.is_some(), entry.since, id.clone())));
        by_age.sort();
        for (_, _, id) in by_age.into_iter().take(MOST / 8) {
            self.remove(&id);
        }
    }
}

impl Entry {
    fn reported(&self, id: &ResourceId) -> AllocatedPort {
        AllocatedPort {
            id: id.clone(),
            ownership: self.ownership,
            asked: self.asked,
            is_ended: self.is_ended,
            waiting: self.port.as_deref().cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(number: usize) -> PortResource {
        let mac = format!("02:00:00:00:{:02x}:{:02x}", number / 256, number % 256);
        serde_json::from_value(json!({
            "id": format!("{number:08x}"), "network_id": "n", "mac_address": mac
        }))
        .unwrap()
    }

    fn network() -> ResourceId {
        "n".parse().unwrap()
    }

    #[test]
    fn a_port_is_taken_once_and_forgotten_with_all_its_addresses() {
        let allocated = Allocated::default();
        let (four, six) = ("10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap());
        let mac = port(1).mac_address;
        allocated.add(port(1), four, Some(mac), Ownership::Requested);
        assert_eq!(allocated.of_mac(&network(), mac).unwrap().waiting, Some(port(1)));
        allocated.add(port(1), six, Some(mac), Ownership::Requested);
        assert_eq!(allocated.take(&network(), six), Some(port(1)));
        assert_eq!(allocated.take(&network(), four), None, "an attachment has it");
        assert_eq!(allocated.of_mac(&network(), mac), None);
        assert_eq!(allocated.port(&network(), four).unwrap().waiting, None);
        allocated.remove(&port(1).id);
        assert_eq!(allocated.port(&network(), six), None);
    }

    #[test]
    fn a_port_that_loses_an_address_waits_with_the_others() {
        let allocated = Allocated::default();
        let (six, four) = ("fd00::5".parse().unwrap(), "10.0.0.6".parse().unwrap());
        allocated.add(port(1), six, None, Ownership::Requested);
        allocated.add(port(1), four, None, Ownership::Requested);
        assert_eq!(allocated.others(&port(1).id, &[six]), [four]);
        allocated.part(&port(1), &[six]);
        assert_eq!(allocated.port(&network(), six), None);
        assert_eq!(allocated.others(&port(1).id, &[four]), Vec::<IpAddr>::new());
        assert_eq!(allocated.take(&network(), four), Some(port(1)));
    }

    #[test]
    fn the_other_family_is_of_the_only_port_that_waits_for_it() {
        let allocated = Allocated::default();
        let four = |number: u8| IpAddr::from([10, 0, 0, number]);
        allocated.add(port(1), four(1), None, Ownership::Requested);
        let without_six = || allocated.only_without(&network(), |ip| ip.is_ipv6());
        assert_eq!(without_six().unwrap().id, port(1).id);
        allocated.add(port(2), four(2), None, Ownership::Requested);
        assert_eq!(without_six(), None, "two wait");
        allocated.add(port(1), "fd00::1".parse().unwrap(), None, Ownership::Requested);
        assert_eq!(without_six().unwrap().id, port(2).id);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let allocated = Allocated::default();
        for number in 0..MOST + 10 {
            let [_, .., c, d] = u32::try_from(number).unwrap().to_be_bytes();
            allocated.add(port(number), IpAddr::from([10, 0, c, d]), None, Ownership::Requested);
        }
        assert!(allocated.len() <= MOST);
        let last = u32::try_from(MOST + 9).unwrap().to_be_bytes();
        assert!(allocated.take(&network(), IpAddr::from([10, 0, last[2], last[3]])).is_some());
    }
}
