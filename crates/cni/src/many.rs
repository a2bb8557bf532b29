//! What a configuration asks of the hosts of a cluster.

use model::{IpNet, NetworkName};
use spec::ManyHostsSpec;

/// A network of many hosts that a configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyHosts {
    /// Its name.
    pub name: NetworkName,
    /// Its subnets, where some are named.
    pub subnets: Vec<IpNet>,
    /// Where and how it is to be, in what reads CNI's lists among others.
    pub spec: ManyHostsSpec,
}
