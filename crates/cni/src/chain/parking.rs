//! The parking place of a reserved attachment's interface: a namespace of Spoke's, found again by
//! the attachment's identity.

use std::path::{Path, PathBuf};

use model::{Attachment, AttachmentId, Error, Family, IfName, Mac, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Existing, Link, Netns, NewAddress, Route, Socket};
use sha2::{Digest, Sha256};

/// The place of one attachment.
pub(super) struct Parking<'a> {
    /// The path that keeps the namespace.
    pub(super) path: PathBuf,
    id: &'a AttachmentId,
}

impl<'a> Parking<'a> {
    /// Where all of them are, below the directory of what goes with the boot.
    pub(super) const DIRECTORY: &'static str = "parked";

    /// The place of `id` in `directory`, whether or not there is one.
    pub(super) fn of(directory: &Path, id: &'a AttachmentId) -> Self {
        Self { path: directory.join(name(id)), id }
    }

    pub(super) fn make(&self) -> Result<()> {
        let made = Netns::make(&self.path)?;
        made.enter(|| {
            let mut batch = Batch::new();
            batch.change_link(At::Name(&"lo".parse()?), &[Change::Up(true)]);
            Socket::route()?.send(&mut batch)?.into_result()
        })?
    }

    pub(super) fn is_there(&self) -> bool {
        Netns::open(&self.path).is_ok()
    }

    pub(super) fn remove(&self) -> Result<()> {
        Netns::unmake(&self.path)
    }

    /// The hardware address of the interface that is parked.
    pub(super) fn mac(&self) -> Option<Mac> {
        let there = Netns::open(&self.path).ok()?;
        find(&there, &self.id.ifname).ok()??.mac
    }

    /// Moves the interface into this thread's namespace under `name`, unless it exists.
    pub(super) fn hand_over(&self, name: &IfName) -> Result<()> {
        let here = Netns::current()?;
        match self.move_to(&here, name)? {
            true => Ok(()),
            false if find(&here, name)?.is_some() => Ok(()),
            false => Err(self.gone()),
        }
    }

    /// Moves the interface into a sandbox under `name`, with the addresses and routes that it had.
    pub(super) fn settle(
        &self,
        sandbox: &Netns,
        name: &IfName,
        attachment: &Attachment,
    ) -> Result<()> {
        if find(sandbox, name)?.is_some() {
            let what = format!("interface {name} already exists in the sandbox of {}", self.id);
            return Err(Error::conflict(what));
        }
        match self.move_to(sandbox, name)? {
            true => sandbox.enter(|| furnish(name, attachment))?,
            false => Err(self.gone()),
        }
    }

    /// Moves the interface called `name` in `from`, or else in this thread's namespace, back here
    /// under the name that its plugins know. One that is not there is not moved.
    pub(super) fn take_back(&self, from: Option<&Netns>, name: &IfName) -> Result<()> {
        let here = Netns::open(&self.path)?;
        let take = || {
            let mut socket = Socket::route()?;
            let Some(link) = socket.link(At::Name(name))? else { return Ok(()) };
            transfer(&mut socket, &link, &here, &self.id.ifname)
        };
        match from {
            Some(from) => from.enter(take)?,
            None => take(),
        }
    }

    /// Whether it was here to be moved.
    fn move_to(&self, to: &Netns, name: &IfName) -> Result<bool> {
        let Ok(here) = Netns::open(&self.path) else { return Ok(false) };
        here.enter(|| {
            let mut socket = Socket::route()?;
            let Some(link) = socket.link(At::Name(&self.id.ifname))? else { return Ok(false) };
            transfer(&mut socket, &link, to, name).map(|()| true)
        })?
    }

    fn gone(&self) -> Error {
        Error::not_found(format!(
            "the interface of {} is gone with an earlier sandbox; connect the container anew",
            self.id
        ))
    }
}

/// The name of the parking place of `id`, and of other files for it.
pub(crate) fn name(id: &AttachmentId) -> String {
    let mut hash = Sha256::new();
    for part in [id.network.as_str(), id.container.as_str(), id.ifname.as_str()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// An interface is there under its new name, or not at all.
fn transfer(socket: &mut Socket, link: &Link, to: &Netns, name: &IfName) -> Result<()> {
    use std::os::fd::AsFd;
    let mut batch = Batch::new();
    batch.move_link(link.index, to.as_fd(), name);
    socket.send(&mut batch)?.into_result()
}

fn find(netns: &Netns, name: &IfName) -> Result<Option<Link>> {
    netns.enter(|| Socket::route()?.link(At::Name(name)))?
}

/// Removes an interface of a sandbox; one that is gone is removed.
pub(super) fn delete(sandbox: &Netns, name: &IfName) -> Result<()> {
    sandbox.enter(|| {
        let mut batch = Batch::new();
        batch.delete_link(At::Name(name));
        Socket::route()?.send(&mut batch)?.except(Errno::NODEV).into_result()
    })?
}

/// Gives an interface that was moved the addresses and routes back that the kernel took from it.
fn furnish(name: &IfName, attachment: &Attachment) -> Result<()> {
    let mut socket = Socket::route()?;
    let index = socket.link_index(name)?;
    let index = index.ok_or_else(|| Error::not_found(format!("interface {name} is gone")))?;
    let mut batch = Batch::new();
    batch.change_link(At::Index(index), &[Change::Up(true)]);
    for held in &attachment.addresses {
        batch.add_address(&NewAddress::new(index, held.address));
    }
    for route in &attachment.routes {
        let family = Family::of(&route.dst);
        let mut held = attachment.addresses.iter();
        let gateway = held.find(|held| Family::of(&held.address) == family);
        let via = route.via.or_else(|| gateway.and_then(|held| held.gateway));
        let mut reported = Route::new(route.dst, via, Some(index));
        (reported.priority, reported.mtu, reported.advmss) =
            (route.priority, route.mtu, route.advmss);
        if let Some(table) = route.table {
            reported.table = table;
        }
        if let Some(scope) = route.scope {
            reported.scope = scope;
        }
        batch.add_route(&reported, Existing::Keep);
    }
    socket.send(&mut batch)?.except(Errno::EXIST).into_result()
}
