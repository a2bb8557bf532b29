//! The holders of addresses: containers of every runtime on Spoke's networks, Docker's on its own, and this
//! host.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use docker::api::Container;
use model::{Result, Runtime};
use netlink::Socket;
use traffic::{Addresses, Party};

use super::known::Known;
use crate::commands::ps::shortened;
use crate::context::CommandContext;

/// How often Docker is asked again at most.
const AGAIN: Duration = Duration::from_secs(5);

/// The addresses, which are read again when records change, and when an unknown one is seen.
pub(super) struct Directory {
    addresses: Addresses,
    dockers: Vec<Container>,
    asked: Instant,
}

impl Directory {
    pub(super) fn new(known: &Known, context: &CommandContext) -> Result<Self> {
        let dockers = running(context);
        let addresses = of(known, &dockers)?;
        Ok(Self { addresses, dockers, asked: Instant::now() })
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Takes in what the records say now.
    pub(super) fn refresh(&mut self, known: &Known) -> Result<()> {
        self.addresses = of(known, &self.dockers)?;
        Ok(())
    }

    /// Asks Docker whose an address is that nothing here knows.
    pub(super) fn miss(&mut self, known: &Known, context: &CommandContext) -> Result<()> {
        if self.asked.elapsed() < AGAIN {
            return Ok(());
        }
        self.dockers = running(context);
        self.asked = Instant::now();
        self.refresh(known)
    }
}

/// Where Docker does not answer, its containers are addresses and no more.
fn running(context: &CommandContext) -> Vec<Container> {
    (context.running)().into_iter().flatten().flatten().collect()
}

fn of(known: &Known, dockers: &[Container]) -> Result<Addresses> {
    let host = Socket::route()?.addresses(None)?.into_iter();
    let host = host.map(|held| held.address.addr());
    let ours = known.records().map(|record| (record, known.titles().of_record(record)));
    let mut addresses = Addresses::of(ours, host.collect::<Vec<IpAddr>>());
    let endpoints = dockers.iter().flat_map(|it| it.endpoints.iter().map(move |of| (it, of)));
    for (container, (network, endpoint)) in endpoints {
        let id = endpoint.id.to_string();
        let title = network.as_ref().and_then(|id| container.networks.get(id));
        let title = title.map(ToString::to_string);
        let network = network.as_ref().map(ToString::to_string).unwrap_or_default();
        let party = Party::Container {
            name: endpoint.name.as_ref().map_or_else(|| id.clone(), ToString::to_string),
            container: id,
            network: shortened(&network, false),
            title,
            runtime: Runtime::Docker.to_string(),
        };
        endpoint.addresses.iter().for_each(|address| addresses.add(*address, party.clone()));
    }
    Ok(addresses)
}
