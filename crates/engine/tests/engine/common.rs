//! A host in memory: the store's own memory implementation, and a dataplane that remembers its
//! calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use doubles::Memory;
use engine::port::{Described, Driver, Granted, Host, Ipam as IpamPort, Offer, Presence};
use engine::{Engine, Members, Request};
use model::*;

pub(crate) use doubles::{network, pool, request};

#[derive(Default)]
pub(crate) struct Dataplane {
    pub(crate) made: RefCell<BTreeSet<AttachmentId>>,
    pub(crate) gone: RefCell<BTreeSet<AttachmentId>>,
    pub(crate) fails: Cell<bool>,
    /// Whether nothing can be undone.
    pub(crate) undo_fails: Cell<bool>,
    /// The networks of which nothing is there any more.
    pub(crate) removed: RefCell<BTreeSet<NetworkName>>,
    /// The sandbox in which the last detached interface was to be removed.
    pub(crate) detached_in: RefCell<Option<Sandbox>>,
    /// Addresses that another device of the segment has.
    pub(crate) answering: RefCell<BTreeSet<IpAddr>>,
}

impl Driver for Dataplane {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.made.borrow_mut().insert(attachment.id.clone());
        match self.fails.get() {
            true => Err(Error::new(Kind::Kernel, "the dataplane fails")),
            false => {
                let (addresses, routes) = (attachment.addresses.clone(), attachment.routes.clone());
                Ok(Attached { addresses, routes, ..Attached::default() })
            }
        }
    }

    fn connect(&self, attachment: &Attachment) -> Result<()> {
        self.made.borrow_mut().insert(attachment.id.clone());
        Ok(())
    }

    fn answers(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        assert!(self.made.borrow().contains(&attachment.id), "asked over no link");
        let answering = self.answering.borrow();
        let held = attachment.addresses.iter().map(|held| held.address.addr());
        Ok(held.filter(|address| answering.contains(address)).collect())
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        if self.undo_fails.get() {
            return Err(Error::new(Kind::Kernel, "nothing can be undone"));
        }
        self.made.borrow_mut().remove(&attachment.id);
        self.detached_in.borrow_mut().clone_from(&attachment.sandbox);
        Ok(())
    }

    fn check(&self, attachment: &Attachment, _: &Attached) -> Result<()> {
        match self.made.borrow().contains(&attachment.id) {
            true => Ok(()),
            false => Err(Error::not_found(format!("{} is missing", attachment.id))),
        }
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        match self.gone.borrow().contains(&attachment.id) {
            true => Presence::Gone,
            false => Presence::Alive,
        }
    }

    fn restore(&self, _: &Attachment) -> model::Result<bool> {
        Ok(false)
    }

    fn hardware_address(&self, _: &Attachment) -> Option<model::Mac> {
        None
    }

    fn up(&self, network: &Network) -> model::Result<()> {
        self.removed.borrow_mut().remove(&network.name);
        Ok(())
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.removed.borrow_mut().insert(network.name.clone());
        Ok(())
    }
}

doubles::no_strays!(Dataplane);

/// A directory in which another program holds some addresses.
#[derive(Default)]
pub(crate) struct Directory {
    pub(crate) held: RefCell<BTreeSet<IpAddr>>,
    /// What attachments and requests have in it.
    pub(crate) claimed: RefCell<BTreeSet<IpAddr>>,
    pub(crate) kept: RefCell<Members>,
    /// What a DHCP server gives next is the last one.
    pub(crate) server: RefCell<Vec<IpNet>>,
}

impl IpamPort for Directory {
    fn lease(&self, attachment: &Attachment) -> Result<Granted> {
        if matches!(attachment.ipam, Ipam::Dhcp(_)) {
            let address = self.server.borrow_mut().pop().unwrap();
            let held = InterfaceAddress { address, gateway: None, interface: None };
            return Ok(Granted::Offered(Box::new(Offer {
                addresses: vec![held],
                ..Offer::default()
            })));
        }
        let held = self.held.borrow();
        let mut leased = attachment.leases.iter().map(|lease| lease.address.addr());
        Ok(match leased.find(|address| held.contains(address)) {
            Some(address) => {
                Granted::Held { address, by: "another program".into(), all: held.clone() }
            }
            None => {
                self.claimed.borrow_mut().extend(addresses(attachment));
                Granted::Chosen
            }
        })
    }

    fn release(&self, attachment: &Attachment) -> Result<()> {
        let mut claimed = self.claimed.borrow_mut();
        claimed.retain(|address| !addresses(attachment).contains(address));
        Ok(())
    }

    fn check(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn gc(&self, _: &Network, valid: &Members) -> Result<()> {
        self.kept.borrow_mut().extend(valid.iter().cloned());
        Ok(())
    }

    fn status(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }
}

fn addresses(attachment: &Attachment) -> BTreeSet<IpAddr> {
    attachment.leases.iter().map(|lease| lease.address.addr()).collect()
}

pub(crate) struct Machine {
    pub(crate) me: Cell<Process>,
    pub(crate) dead: RefCell<BTreeSet<u32>>,
    /// Seconds since the epoch.
    pub(crate) at: Cell<u64>,
    /// What runtimes' files describe, and how often they were read.
    pub(crate) files: RefCell<Vec<Described>>,
    pub(crate) read: Cell<usize>,
}

impl Host for Machine {
    fn me(&self) -> Process {
        self.me.get()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.at.get())
    }

    fn is_running(&self, process: &Process) -> bool {
        *process != Process::NONE && !self.dead.borrow().contains(&process.pid)
    }

    fn occupied(&self) -> model::Result<Vec<engine::port::Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, process: &Process, _: Duration) -> bool {
        !self.is_running(process)
    }

    fn described(&self) -> Vec<Described> {
        self.read.set(self.read.get() + 1);
        self.files.borrow().clone()
    }
}

pub(crate) struct World {
    pub(crate) store: Memory,
    pub(crate) dataplane: Dataplane,
    pub(crate) directory: Directory,
    pub(crate) machine: Machine,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            store: Memory::new(),
            dataplane: Dataplane::default(),
            directory: Directory::default(),
            machine: Machine {
                me: Cell::new(Process { pid: 1, start: 1 }),
                dead: RefCell::default(),
                at: Cell::new(1_000),
                files: RefCell::default(),
                read: Cell::default(),
            },
        }
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.dataplane, &self.directory, &self.machine)
    }
}

pub(crate) fn book(subnet: &str) -> Network {
    network("front", Ipam::Book { pools: vec![pool("front", subnet, Order::NextAfterLast)] })
}

pub(crate) fn ip(attachment: &Attachment) -> String {
    attachment.leases[0].address.addr().to_string()
}

pub(crate) fn endpoint(network: &Network, container: &str, addresses: &[&str]) -> Request {
    let mut asked = request(network, container);
    asked.ifname = "eth".parse().unwrap();
    let lease = |address: &&str| Lease {
        space: Space::Host,
        pool: None,
        address: address.parse().unwrap(),
        gateway: None,
    };
    asked.ipam = Ipam::Requested { leases: addresses.iter().map(lease).collect() };
    asked
}
