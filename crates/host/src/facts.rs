//! The facts about this host's network that commands need.

mod read;

use std::collections::{BTreeMap, BTreeSet};

use linux::{Exposed, RuleTable};
use model::IpNet;

pub use self::read::read;

/// A network device of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is a bridge.
    pub is_bridge: bool,
}

/// A unicast route of the host's main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// Where to; the default route is `0.0.0.0/0` or `::/0`.
    pub dst: IpNet,
    /// The device that packets leave through.
    pub device: String,
}

/// The treatment of forwarded packets that no rule decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward {
    /// They pass.
    Accepted,
    /// They are dropped by the policy of these chains.
    Dropped(Vec<DroppingChain>),
    /// It could not be read; the sentence says why.
    Unknown(String),
}

/// A chain that drops forwarded packets by policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppingChain {
    /// Which, written `ip filter FORWARD`.
    pub chain: String,
    /// The bridges whose packets Spoke lets pass there.
    pub passing: BTreeSet<String>,
}

/// This host, as its kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Every device.
    pub links: Vec<HostLink>,
    /// Every route of both families.
    pub routes: Vec<HostRoute>,
    /// The fate of forwarded packets.
    pub forward: Forward,
    /// What is open because Spoke has the host forward; `None` where it does not.
    pub exposed: Option<Vec<Exposed>>,
    /// The tables with rules about containers that are there; `None` where the packet filter cannot be read.
    pub tables: Option<BTreeSet<RuleTable>>,
}

impl HostFacts {
    /// The device of the default route.
    pub fn uplink(&self) -> Option<&HostLink> {
        let default = self.routes.iter().find(|route| route.dst.prefix_len() == 0)?;
        self.link(&default.device)
    }

    /// The devices by name, for several look-ups.
    pub fn by_name(&self) -> BTreeMap<&str, &HostLink> {
        self.links.iter().map(|link| (link.name.as_str(), link)).collect()
    }

    /// The link of a name.
    pub fn link(&self, name: &str) -> Option<&HostLink> {
        self.links.iter().find(|link| link.name == name)
    }
}
