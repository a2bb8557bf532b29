//! Where queries of a network come in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{FormerName, IfName, IpNet, NetworkName, name_domain};

/// Where queries of a network come in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedGateway {
    /// The network.
    pub network: NetworkName,
    /// What it is called.
    pub called: NetworkName,
    /// What it was called before, the oldest first.
    pub former: Vec<FormerName>,
    /// Its bridge.
    pub bridge: IfName,
    /// The gateway at which it is asked, with the length of its subnet.
    pub gateway: IpNet,
}

impl ServedGateway {
    /// The domains of the network: of what it is called, and of what it was before it was renamed, unless one
    /// among these others is called so now, or was later.
    pub fn domains<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Vec<String> {
        let mut former: BTreeMap<&NetworkName, u32> =
            self.former.iter().map(|it| (&it.name, it.order)).collect();
        former.entry(&self.network).or_default();
        former.remove(&self.called);
        for other in others.into_iter().filter(|other| other.network != self.network) {
            former.remove(&other.called);
            for its in &other.former {
                if former.get(&its.name).is_some_and(|order| *order < its.order) {
                    former.remove(&its.name);
                }
            }
        }
        std::iter::once(&self.called).chain(former.into_keys()).map(name_domain).collect()
    }

    /// The same, whatever its network is called: its sockets stay when that changes.
    pub(crate) fn unnamed(&self) -> Self {
        let (called, former) = (self.network.clone(), Vec::new());
        Self { called, former, ..self.clone() }
    }

    /// The gateway alone.
    pub fn address(&self) -> IpAddr {
        self.gateway.addr()
    }
}
