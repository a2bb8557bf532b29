//! A host for subnets and addresses: its store counts its calls, and another program may
//! have subnets.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::Duration;

use doubles::Memory;
use engine::port::{Host, Key, Occupied, Outcome, Prefix, Store, Txn, Versioned};
use engine::{AddressRequest, Engine, Purpose, SubnetRequest, SubnetSpec};
use model::*;

use super::common::{Dataplane, Directory};

/// A store that counts.
pub(crate) struct Counted<'s> {
    store: &'s Memory,
    pub(crate) gets: Cell<usize>,
    pub(crate) lists: Cell<usize>,
    pub(crate) commits: Cell<usize>,
}

impl Store for Counted<'_> {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        self.gets.set(self.gets.get() + 1);
        self.store.get(key)
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        self.lists.set(self.lists.get() + 1);
        self.store.list(prefix)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        self.commits.set(self.commits.get() + 1);
        self.store.commit(txn)
    }
}

/// A host on which another program may have subnets.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) occupied: RefCell<Vec<Occupied>>,
}

impl Host for Around {
    fn me(&self) -> Process {
        Process { pid: 1, start: 1 }
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn is_running(&self, process: &Process) -> bool {
        *process == self.me()
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(self.occupied.borrow().clone())
    }

    fn wait_for_end(&self, process: &Process, _: Duration) -> bool {
        !self.is_running(process)
    }
}

/// One thread's engine over a store that others may use too.
pub(crate) struct Rig<'s> {
    pub(crate) store: Counted<'s>,
    pub(crate) dataplane: Dataplane,
    pub(crate) directory: Directory,
    pub(crate) host: Around,
}

impl<'s> Rig<'s> {
    pub(crate) fn new(store: &'s Memory) -> Self {
        Self {
            store: Counted {
                store,
                gets: Cell::new(0),
                lists: Cell::new(0),
                commits: Cell::new(0),
            },
            dataplane: Dataplane::default(),
            directory: Directory::default(),
            host: Around::default(),
        }
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.dataplane, &self.directory, &self.host)
    }

    /// Hands out this subnet, written `10.1.0.0/16` or `10.1.0.0/16 10.1.4.0/24`.
    pub(crate) fn subnet(&self, text: &str) -> SubnetId {
        self.engine().subnets.request_subnet(&exactly(text)).unwrap().id
    }

    pub(crate) fn any(&self, subnet: &SubnetId) -> String {
        self.engine()
            .subnets
            .request_address(&container(subnet, None))
            .map_or_else(shown_error, shown)
    }

    pub(crate) fn serial(&self, subnet: &SubnetId) -> String {
        let order = Some(Order::NextAfterLast);
        let request = AddressRequest { order, ..container(subnet, None) };
        self.engine().subnets.request_address(&request).map_or_else(shown_error, shown)
    }

    pub(crate) fn exact(&self, subnet: &SubnetId, address: &str) -> String {
        let want = Want::Exactly(address.parse().unwrap());
        let request = AddressRequest { want, ..container(subnet, None) };
        self.engine().subnets.request_address(&request).map_or_else(shown_error, shown)
    }

    pub(crate) fn named(&self, subnet: &SubnetId, owner: &str) -> String {
        let request = container(subnet, Some(owner));
        self.engine().subnets.request_address(&request).map_or_else(shown_error, shown)
    }

    pub(crate) fn purpose(&self, subnet: &SubnetId, purpose: Purpose, want: &str) -> String {
        let want = want.parse().map_or(Want::Any, Want::Exactly);
        let request = AddressRequest { want, purpose, ..container(subnet, None) };
        self.engine().subnets.request_address(&request).map_or_else(shown_error, shown)
    }

    pub(crate) fn release(&self, subnet: &SubnetId, address: &str) {
        let address: IpAddr = address.parse().unwrap();
        self.engine().subnets.release_address(subnet, address).unwrap();
    }
}

fn shown(lease: Lease) -> String {
    lease.address.to_string()
}

fn shown_error(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}

pub(crate) fn container(subnet: &SubnetId, owner: Option<&str>) -> AddressRequest {
    AddressRequest {
        subnet: subnet.clone(),
        want: Want::Any,
        purpose: Purpose::Container(owner.map(|owner| owner.parse().unwrap())),
        order: None,
    }
}

pub(crate) fn wanting(spec: SubnetSpec) -> SubnetRequest {
    SubnetRequest {
        space: Space::Host,
        spec,
        network: None,
        runtime: Runtime::Docker,
        order: Order::LowestFree,
        sticky: Sticky::No,
        despite_others: false,
    }
}

/// Of `10.1.0.0/16` or `10.1.0.0/16 10.1.4.0/24`.
pub(crate) fn exactly(text: &str) -> SubnetRequest {
    let mut parts = text.split(' ');
    let mut next = || parts.next().map(|net| net.parse().unwrap());
    let (net, part) = (next().unwrap(), next());
    wanting(SubnetSpec::Exactly { net, part })
}

pub(crate) fn for_network(name: &str, request: SubnetRequest) -> SubnetRequest {
    SubnetRequest { network: Some(name.parse().unwrap()), ..request }
}
