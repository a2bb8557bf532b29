//! Floating IP addresses of ports.

use model::{ResourceId, ResourceRef, Result};

use crate::Neutron;
use crate::api::NewFloatingIp;
use crate::contract::Mark;

impl Neutron {
    /// Gives the port a floating IP address of this network.
    pub(crate) fn float(&self, port: &ResourceId, network: &ResourceRef) -> Result<()> {
        let network = self.id_of(network, "networks", "networks")?;
        let there = self.api().floating_ips(&[("port_id", port.to_string())])?;
        if !there.is_empty() {
            return Ok(());
        }
        let wanted = NewFloatingIp {
            floating_network_id: network,
            port_id: port.clone(),
            description: self.floating_mark(port),
        };
        match self.api().create_floating_ip(&wanted) {
            Ok(_) => Ok(()),
            // It may have been made all the same: then its answer was lost.
            Err(error) => match self.api().floating_ips(&[("port_id", port.to_string())]) {
                Ok(there) if !there.is_empty() => Ok(()),
                Ok(_) | Err(_) => Err(error),
            },
        }
    }

    /// Removes those that were made for the port; others only lose it with the port.
    pub(crate) fn drop_floating_ips(&self, port: &ResourceId) -> Result<()> {
        let mark = self.floating_mark(port);
        for floating in self.api().floating_ips(&[("port_id", port.to_string())])? {
            if floating.description == mark {
                self.api().delete_floating_ip(&floating.id)?;
            }
        }
        Ok(())
    }

    /// Whether a floating IP address leads to the port. Without routers there are none.
    pub(crate) fn has_floating_ip(&self, port: &ResourceId) -> Result<bool> {
        match self.api().floating_ips(&[("port_id", port.to_string())]) {
            Err(error) if error.status() == Some(404) => Ok(false),
            there => there.map(|there| !there.is_empty()),
        }
    }

    fn floating_mark(&self, port: &ResourceId) -> String {
        Mark::new(&self.settings.host, format!("floating-{port}")).to_string()
    }
}
