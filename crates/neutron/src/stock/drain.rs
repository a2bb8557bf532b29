//! Emptying the stock of a network, which could not be deleted otherwise.

use std::collections::BTreeSet;

use model::{ResourceId, Result};

use super::StockDemand;
use super::make::is_away;
use crate::Neutron;
use crate::api::PortResource;
use crate::stock_key::KeyDigest;

impl Neutron {
    /// Deletes every port of the network that this host keeps ready, and makes no more of them
    /// until one is wanted; returns how many there were. Call it before the network, or one of its
    /// subnets, is deleted. Repeating it is no error.
    pub fn drain_stock(&self, network: &ResourceId) -> Result<usize> {
        let stock_files = self.stock_files();
        let (own, others): (Vec<StockDemand>, Vec<StockDemand>) =
            stock_files.wanted()?.into_iter().partition(|wanted| wanted.key.network == *network);
        own.iter().try_for_each(|wanted| stock_files.forget(&wanted.digest))?;
        let others: BTreeSet<KeyDigest> = others.into_iter().map(|wanted| wanted.digest).collect();
        // A process that is making a port stores it afterwards, and sees that it is the last one.
        // Ports of other networks may be made without end meanwhile.
        for digest in stock_files.kinds()?.iter().filter(|digest| !others.contains(*digest)) {
            stock_files.made(digest)?;
        }
        let mut gone = 0;
        for digest in stock_files.kinds()? {
            gone += self.drain_kind(&digest, network)?;
        }
        for stored in
            stock_files.returned()?.into_iter().filter(|of| of.port.network_id == *network)
        {
            self.abandon(&stored.port.id)?;
            stock_files.settle(&stored.port.id)?;
            gone += 1;
        }
        Ok(gone + self.drain_unknown(network)?)
    }

    /// The same for one kind of port.
    pub(crate) fn drain_key(&self, digest: &KeyDigest) -> Result<usize> {
        self.stock_files().forget(digest)?;
        self.drain_ready(digest)
    }

    /// The kinds that have ready ports although none are wanted: draining them has failed before.
    pub(super) fn undrained(&self) -> Result<Vec<KeyDigest>> {
        let stock_files = self.stock_files();
        let mut undrained = Vec::new();
        for digest in stock_files.kinds()?.into_iter().filter(|it| !stock_files.is_wanted(it)) {
            if !stock_files.ready_ports(&digest)?.is_empty() {
                undrained.push(digest);
            }
        }
        Ok(undrained)
    }

    /// Deletes every ready port of this kind. One that Neutron does not delete now goes the way of
    /// those that come back, and keeps no other.
    pub(super) fn drain_ready(&self, digest: &KeyDigest) -> Result<usize> {
        let stock_files = self.stock_files();
        stock_files.made(digest)?;
        let (mut gone, mut failure) = (0, None);
        while let Some(port) = stock_files.claim(digest)? {
            match self.api().delete_port(&port.id) {
                Ok(()) => {
                    stock_files.drop_lent(&port.id)?;
                    gone += 1;
                }
                Err(error) => {
                    stock_files.give_back(&port.id)?;
                    let is_away = is_away(&error);
                    failure = failure.or(Some(error));
                    if is_away {
                        break;
                    }
                }
            }
        }
        stock_files.tidy(digest);
        failure.map_or(Ok(gone), Err)
    }

    fn drain_kind(&self, digest: &KeyDigest, network: &ResourceId) -> Result<usize> {
        // All of a kind are of one network.
        match self.stock_files().first(digest)? {
            Some(stored) if stored.port.network_id == *network => {}
            Some(_) | None => return Ok(0),
        }
        self.drain_key(digest)
    }

    /// Those whose files went with the boot, also of a stock that is not kept any more.
    fn drain_unknown(&self, network: &ResourceId) -> Result<usize> {
        let filter = [("network_id", network.to_string())];
        let ports = self.api().ports(&filter)?;
        let mut lent: BTreeSet<ResourceId> = self.stock_files().lent_ports()?.into_iter().collect();
        // Neutron does not know yet whose these are.
        lent.extend(self.port_updates().pending_ports()?);
        let is_stray = |port: &PortResource| {
            self.is_of_stock(port) && port.device_id.is_empty() && !lent.contains(&port.id)
        };
        let strays: Vec<PortResource> = ports.into_iter().filter(is_stray).collect();
        for port in &strays {
            self.unnest_lost(port, &[])?;
            self.api().delete_port(&port.id)?;
        }
        Ok(strays.len())
    }
}
