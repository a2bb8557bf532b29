//! What a network's record of a backup must be, as one that a command makes: the file may come from anywhere.

use model::{Error, Network, Range, Result, Stage};

use crate::Repair;
use crate::addresses::free::check_subnet;
use crate::port::Record;
use crate::repair::backup::describe;

impl Repair<'_> {
    /// Refuses networks that no command would make: with subnets that none can have, ranges outside of these, or a bridge
    /// that is another program's device.
    pub(super) fn refuse_impossible(&self, missing: &[(&crate::port::Key, &Record)]) -> Result<()> {
        for (key, record) in missing {
            let Record::Network(network) = record else { continue };
            if network.stage == Stage::Template {
                continue;
            }
            let checked = ranges(network).and_then(|()| self.driver.refuse_bridge(network));
            checked
                .map_err(|error| error.context(format!("{} cannot be restored", describe(key))))?;
        }
        Ok(())
    }
}

fn ranges(network: &Network) -> Result<()> {
    for pool in network.ipam.pools() {
        let Some(first) = pool.ranges.first() else {
            return Err(Error::invalid("a pool of it has no range of addresses".to_owned()));
        };
        for range in &pool.ranges {
            check_subnet(&range.subnet.trunc())?;
            Range::new(range.subnet, range.first, range.last, range.gateway)?.for_containers()?;
            let gateway = range.gateway.filter(|gateway| !range.subnet.contains(gateway));
            if let Some(gateway) = gateway {
                return Err(Error::invalid(format!(
                    "gateway {gateway} is not in subnet {}",
                    range.subnet
                )));
            }
            if range.first.is_ipv4() != first.first.is_ipv4() {
                return Err(Error::invalid("a pool of it has ranges of both families".to_owned()));
            }
        }
    }
    Ok(())
}
