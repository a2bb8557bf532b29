//! Networks that Docker made without Spoke. Its bridges are in the kernel, under names without
//! meaning; networks of its other drivers (macvlan, overlay) are not visible there.

use std::sync::{Mutex, PoisonError};

use docker::api::Network;
use engine::port::Occupied;

/// Docker's name of the driver whose networks are bridges of this host.
const BRIDGE: &str = "bridge";

/// How much of a network's id people need.
const SHORT: usize = 12;

/// Networks of others, as the reconciler saw them last.
#[derive(Debug, Default)]
pub struct Neighbours(Mutex<Vec<Network>>);

impl Neighbours {
    /// Replaces all networks.
    pub fn replace(&self, networks: &[Network]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = networks.to_vec();
    }

    /// Adds Docker's names to the subnets that the kernel has, in front of them, so that an error
    /// has a name. Of bridges only those that the kernel confirms: it knows at once when one is
    /// removed.
    pub(crate) fn name(&self, known: Vec<Occupied>) -> Vec<Occupied> {
        let networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = Vec::new();
        for network in networks.iter() {
            let nets = network.subnets.iter().map(|subnet| subnet.net);
            let confirmed = nets.filter(|net| {
                network.driver != BRIDGE || known.iter().any(|known| known.net == *net)
            });
            named.extend(confirmed.map(|net| Occupied { net, by: title(network) }));
        }
        named.extend(known);
        named
    }
}

fn title(network: &Network) -> String {
    let id = network.id.as_str();
    let name = network.name.as_ref().map_or(id.get(..SHORT).unwrap_or(id), |name| name.as_str());
    match network.driver.as_str() {
        BRIDGE => format!("Docker's network {name}"),
        driver => format!("Docker's {driver} network {name}"),
    }
}

#[cfg(test)]
mod tests {
    use docker::api::{Reach, Subnet};

    use super::*;

    fn network(driver: &str, name: Option<&str>, net: &str) -> Network {
        Network {
            id: "0123456789abcdef".parse().unwrap(),
            name: name.map(|name| name.parse().unwrap()),
            driver: driver.to_owned(),
            ipam: "default".to_owned(),
            reach: Reach::Local,
            subnets: vec![Subnet { net: net.parse().unwrap(), part: None }],
        }
    }

    #[test]
    fn bridges_are_named_and_others_added() {
        let neighbours = Neighbours::default();
        let kernels = || {
            let by = "Docker's bridge br-0123456789ab".to_owned();
            vec![Occupied { net: "10.1.0.0/24".parse().unwrap(), by }]
        };
        assert_eq!(neighbours.name(kernels()), kernels());
        neighbours.replace(&[
            network(BRIDGE, Some("shop"), "10.1.0.0/24"),
            network(BRIDGE, Some("gone"), "10.2.0.0/24"),
            network("macvlan", None, "10.3.0.0/24"),
        ]);
        let named = neighbours.name(kernels());
        let shown: Vec<String> =
            named.iter().map(|one| format!("{} {}", one.net, one.by)).collect();
        assert_eq!(
            shown,
            [
                "10.1.0.0/24 Docker's network shop",
                "10.3.0.0/24 Docker's macvlan network 0123456789ab",
                "10.1.0.0/24 Docker's bridge br-0123456789ab",
            ]
        );
        neighbours.replace(&[]);
        assert_eq!(neighbours.name(kernels()), kernels());
    }
}
