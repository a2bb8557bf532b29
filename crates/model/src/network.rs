//! Networks: what containers are attached to.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    AliasId, Dns, EngineId, Handoff, IfName, Ipam, Labels, LinkKind, NetworkName, Process, Route,
    Runtime, Settings, Space, Timestamp, Wiring,
};

/// A network: the template from which its attachments are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Unique on this host.
    pub name: NetworkName,
    /// What a command called it while containers were on it. [`Network::name`] stays what records and the
    /// kernel's names are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<NetworkName>,
    /// What it was called before, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<FormerName>,
    /// The runtime that described it.
    pub runtime: Runtime,
    /// Since when it is known.
    pub since: Timestamp,
    /// What the dataplane makes for each attachment.
    pub wiring: Wiring,
    /// The source of its addresses.
    pub ipam: Ipam,
    /// The routes that each attachment gets.
    pub routes: Vec<Route>,
    /// The resolver configuration of its containers.
    pub dns: Dns,
    /// Whether an attachment whose owner has a lasting name gets the same addresses each time.
    pub sticky: bool,
    /// Its user's labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// What a command changed of it while it was in use.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// How far it is made.
    #[serde(default, skip_serializing_if = "Stage::is_made")]
    pub stage: Stage,
    /// Why it takes no more containers where it is [`Stage::Draining`]: this version does not know how its packets go to
    /// other hosts. It is no stage of its own, because Spoke 0.1.0 could not read that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
}

impl Network {
    /// A network that is made, with nothing beside these.
    pub fn new(
        name: NetworkName,
        runtime: Runtime,
        since: Timestamp,
        wiring: Wiring,
        ipam: Ipam,
    ) -> Self {
        Self {
            name,
            title: None,
            former: Vec::new(),
            runtime,
            since,
            wiring,
            ipam,
            routes: Vec::new(),
            dns: Dns::default(),
            sticky: false,
            labels: Labels::default(),
            settings: Settings::default(),
            stage: Stage::Made,
            unsupported: false,
        }
    }

    /// What users call it.
    pub fn called(&self) -> &NetworkName {
        self.title.as_ref().unwrap_or(&self.name)
    }

    /// Its name in commands of Spoke's that are advised. What a runtime calls it another runtime may call another one; what a
    /// command of Spoke's has called it is no other one's name, and its name in the book may be by now.
    pub fn in_commands(&self) -> &NetworkName {
        match self.runtime {
            Runtime::Spoke => self.called(),
            Runtime::Podman
            | Runtime::Cni
            | Runtime::Reference
            | Runtime::Docker
            | Runtime::Kurma => &self.name,
        }
    }

    /// Whether a third-party plugin makes its links or allocates its addresses. That plugin must
    /// learn of the network before the first attachment, and again after the last one.
    pub fn is_remote(&self) -> bool {
        let kind = self.wiring.link.as_ref().map(|link| &link.kind);
        self.ipam.remote().is_some() || matches!(kind, Some(LinkKind::Remote(_)))
    }

    /// Whether attaching to it waits for third parties that may not answer: a server, a cloud, a plugin.
    pub fn asks_others(&self) -> bool {
        let kind = self.wiring.link.as_ref().map(|link| &link.kind);
        self.is_remote()
            || matches!(self.ipam, Ipam::Dhcp(_) | Ipam::Foreign(_))
            || matches!(kind, Some(LinkKind::Chain(_) | LinkKind::Neutron(_) | LinkKind::Ovs(_)))
    }

    /// A network made from this one, which is usually a [`Stage::Template`] (libnetwork's
    /// `config-from`): all of it under another name. Its bridge, and what a remote driver calls it,
    /// are the caller's to name.
    pub fn instance(&self, name: NetworkName, runtime: Runtime, since: Timestamp) -> Self {
        let (stage, unsupported) = (Stage::Made, false);
        let former = Vec::new();
        let mut made =
            Self { title: None, former, runtime, since, stage, unsupported, ..self.clone() };
        if let Ipam::Book { pools } | Ipam::HostLocal { pools, .. } = &mut made.ipam {
            for pool in pools {
                pool.id.network = name.clone();
                if pool.space == Space::Network(self.name.clone()) {
                    pool.space = Space::Network(name.clone());
                }
            }
        }
        made.name = name;
        made
    }
}

/// A name that a network had before a command gave it another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FormerName {
    /// The name.
    pub name: NetworkName,
    /// Of several networks that had the name, the one with the greatest number had it last. At least 1.
    pub order: u32,
}

/// How far a network is made. Only a network with a third-party plugin is ever half made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Containers can be attached to it.
    #[default]
    Made,
    /// This process makes it. After that process's death it is half made and has no owner.
    Making {
        /// The process at work.
        by: Process,
    },
    /// This process removes it, or calls it otherwise. After that process's death any other one may continue.
    Unmaking {
        /// The process at work.
        by: Process,
        /// Why.
        #[serde(default, skip_serializing_if = "Unmaking::is_default")]
        why: Unmaking,
    },
    /// Half made or half removed, and no process works on it: a third-party plugin failed. Any
    /// process may remove the rest.
    #[serde(alias = "left")]
    Failed,
    /// As made, but no more containers are attached to it on this host, which is being drained, or has another reason
    /// ([`Network::unsupported`]).
    #[serde(alias = "unsupported")]
    Draining,
    /// Never made: only a configuration that other networks are made from (libnetwork's config-only
    /// networks).
    Template,
}

/// Why a network is closed to attachments ([`Stage::Unmaking`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmaking {
    /// It is removed.
    #[default]
    Removed,
    /// A command calls it otherwise; an earlier version of Spoke takes it for removed.
    Renamed,
}

impl Unmaking {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Stage {
    /// Whether containers can be attached to it.
    pub fn is_made(&self) -> bool {
        *self == Stage::Made
    }

    /// Whether all of it is there, whatever is attached to it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Stage::Made | Stage::Draining)
    }
}

/// A network under the id that a runtime gave to it (libnetwork's network id). Several runtimes, or
/// several networks of one runtime, may share one network of Spoke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// The runtime's id.
    pub id: AliasId,
    /// Which network it is.
    pub network: NetworkName,
    /// The runtime that gave the id.
    pub runtime: Runtime,
    /// Since when.
    pub since: Timestamp,
    /// The name that the runtime shows to people, once it is known.
    pub title: Option<NetworkName>,
    /// Which side publishes the ports of its containers.
    pub publisher: Publisher,
    /// Which side completes interfaces, where the runtime leaves a choice.
    pub handoff: Handoff,
    /// Where ports are published that name no address of the host; everywhere where none is given.
    #[serde(default)]
    pub publish_on: Option<IpAddr>,
    /// The prefix of interface names in this runtime's containers. Without one, the runtime's own
    /// choice.
    #[serde(default)]
    pub prefix: Option<IfName>,
    /// Which engine of the runtime has listed it under the title, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lister: Option<EngineId>,
}

/// Which side maps a container's published ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Publisher {
    /// We do.
    Spoke,
    /// The runtime does, through a network of its own (Docker's `docker_gwbridge`).
    Runtime,
    /// No program does: containers are reached at their own addresses.
    #[serde(rename = "nobody")]
    None,
}
