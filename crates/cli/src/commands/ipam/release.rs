//! `spoke ipam release`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni::reference::HeldFile;
use engine::Engine;
use model::{Error, Holder, Network, NetworkName, Reservation, Result, Space};

use super::space;
use crate::context::CommandContext;
use crate::reference;

/// Everything that keeps an address.
struct Keeping {
    address: IpAddr,
    reservations: Vec<Reservation>,
    holders: Vec<Holder>,
    /// Files of the reference plugins, with the address space of the network that they name.
    files: Vec<(Space, HeldFile)>,
}

/// Ends what keeps the address in one address space; taking it from its holder must be forced.
pub(super) fn release(
    address: IpAddr,
    network: Option<&NetworkName>,
    force: bool,
    context: &CommandContext,
) -> Result<Vec<String>> {
    let engine = (context.engine)()?;
    let networks = engine.records.networks()?;
    let mut keeping = Keeping::of(address, &engine, &networks, context)?;
    let space = match network {
        Some(name) => Some(match held_in(name.as_str(), &keeping.holders) {
            Some(space) => space.clone(),
            None => named(address, &engine.records.network(name)?)?,
        }),
        None => space::only(address, &keeping.spaces(), &networks)?,
    };
    keeping.retain(space.as_ref());
    keeping.end(&engine, force)
}

/// The address space of what is held in the network of this name: under a plugin that Spoke is not, no record of
/// the network need say it.
fn held_in<'a>(network: &str, holders: &'a [Holder]) -> Option<&'a Space> {
    let is_of = |holder: &&Holder| {
        let attached = holder.attachment().map(|id| &id.network);
        let pool = holder.lease.pool.as_ref().map(|pool| &pool.network);
        attached.into_iter().chain(pool).any(|name| name.as_str() == network)
    };
    holders.iter().find(is_of).map(|holder| &holder.lease.space)
}

fn named(address: IpAddr, network: &Network) -> Result<Space> {
    space::of_network(network, address).ok_or_else(|| {
        Error::invalid(format!("{address} is in no range of network {}", network.name))
    })
}

impl Keeping {
    fn of(
        address: IpAddr,
        engine: &Engine,
        networks: &[Network],
        context: &CommandContext,
    ) -> Result<Self> {
        let (mut reservations, mut holders) =
            (engine.records.reservations()?, engine.records.holders()?);
        reservations.retain(|reserved| reserved.address == address);
        holders.retain(|holder| holder.lease.address.addr() == address);
        let space_of = |file: &HeldFile| {
            if let Some(space) = held_in(&file.network, &holders) {
                return space.clone();
            }
            let network = networks.iter().find(|network| network.name.as_str() == file.network);
            network.and_then(|network| space::of_network(network, address)).unwrap_or(Space::Host)
        };
        let files = reference::files(context, networks).into_iter();
        let files = files.filter(|file| file.address == address);
        let files: Vec<_> = files.map(|file| (space_of(&file), file)).collect();
        Ok(Self { address, reservations, holders, files })
    }

    fn spaces(&self) -> BTreeSet<Space> {
        let reserved = self.reservations.iter().map(|it| &it.space);
        let held = self.holders.iter().map(|it| &it.lease.space);
        reserved.chain(held).chain(self.files.iter().map(|(space, _)| space)).cloned().collect()
    }

    fn retain(&mut self, space: Option<&Space>) {
        self.reservations.retain(|it| Some(&it.space) == space);
        self.holders.retain(|it| Some(&it.lease.space) == space);
        self.files.retain(|(it, _)| Some(it) == space);
    }

    fn end(&self, engine: &Engine, force: bool) -> Result<Vec<String>> {
        let address = self.address;
        let mut done = !self.reservations.is_empty();
        for reserved in &self.reservations {
            engine.addresses.unreserve_address(&reserved.space, address)?;
        }
        let mut notes = Vec::new();
        for holder in &self.holders {
            if force {
                engine.repair.evict(holder)?;
                done = true;
            } else if done {
                notes.push(format!("{address} stays with {}", engine.records.tenant(holder)));
            } else {
                return Err(in_use(address, &engine.records.tenant(holder)));
            }
        }
        for (_, file) in self.files.iter().filter(|_| force) {
            done |= file.remove()?;
        }
        match (done, self.files.first()) {
            (true, _) => Ok(notes),
            (false, Some((_, file))) => {
                let holder = format!("container {} ({})", file.container, file.path.display());
                Err(in_use(address, &holder))
            }
            (false, None) => Err(Error::not_found(format!(
                "no container holds {address}, and it is not reserved"
            ))),
        }
    }
}

fn in_use(address: IpAddr, holder: &dyn std::fmt::Display) -> Error {
    Error::conflict(format!("{address} is held by {holder}; --force takes it away"))
}
