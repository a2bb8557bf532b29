//! The plugins: each turns its configuration into what the engine understands.

mod bridge;
mod firewall;
mod ipam;
mod joined;
mod link;
mod loopback;
mod portmap;
mod ptp;
mod spoke;
mod tuning;

use std::path::PathBuf;

use model::{ContainerId, IfName, InterfaceAddress, Layer, NetworkName, Result, Sandbox, Wiring};

use crate::Context;
use crate::source::{self, Source};
use crate::wire::{Args, Command, Configuration, Environment, Success};

/// A plugin type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// A port of a bridge.
    Bridge,
    /// Packet filtering (chained).
    Firewall,
    /// Addresses from ranges (IPAM).
    HostLocal,
    /// The container's own loopback interface.
    Loopback,
    /// Published ports (chained).
    Portmap,
    /// A routed pair of interfaces.
    Ptp,
    /// Our own: everything in one.
    Spoke,
    /// Addresses from the configuration (IPAM).
    Static,
    /// Sysctls and attributes of the interface (chained).
    Tuning,
}

impl Plugin {
    /// Every plugin.
    pub const ALL: [Plugin; 9] = [
        Plugin::Bridge,
        Plugin::Firewall,
        Plugin::HostLocal,
        Plugin::Loopback,
        Plugin::Portmap,
        Plugin::Ptp,
        Plugin::Spoke,
        Plugin::Static,
        Plugin::Tuning,
    ];

    /// The `type` in a configuration, and the name of the executable.
    pub const fn name(self) -> &'static str {
        match self {
            Plugin::Bridge => "bridge",
            Plugin::Firewall => "firewall",
            Plugin::HostLocal => "host-local",
            Plugin::Loopback => "loopback",
            Plugin::Portmap => "portmap",
            Plugin::Ptp => "ptp",
            Plugin::Spoke => "spoke",
            Plugin::Static => "static",
            Plugin::Tuning => "tuning",
        }
    }

    /// The plugin of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// Which part of an attachment the plugin makes.
    pub const fn layer(self) -> Layer {
        match self {
            Plugin::Bridge | Plugin::Loopback | Plugin::Ptp | Plugin::Spoke => Layer::Link,
            Plugin::HostLocal | Plugin::Static => Layer::Address,
            Plugin::Portmap => Layer::Publish,
            Plugin::Firewall => Layer::Firewall,
            Plugin::Tuning => Layer::Tuning,
        }
    }

    /// What is wrong where the result of an earlier call is missing that `command` needs.
    pub(crate) const fn misses_previous(self, command: Command) -> Option<&'static str> {
        match (self, command) {
            (Plugin::Portmap, Command::Add) => Some("must be called as chained plugin"),
            (Plugin::Firewall, Command::Add | Command::Check) => {
                Some("missing prevResult from earlier plugin")
            }
            (Plugin::Ptp, Command::Check) => Some("ptp: Required prevResult missing"),
            (Plugin::Tuning, Command::Add)
            | (
                Plugin::Bridge | Plugin::Portmap | Plugin::Spoke | Plugin::Static | Plugin::Tuning,
                Command::Check,
            ) => Some("Required prevResult missing"),
            (_, _) => None,
        }
    }

    /// Reads the configuration.
    pub(crate) fn plan(self, call: &Call<'_>) -> Result<Plan> {
        match self {
            Plugin::Bridge => bridge::plan(call),
            Plugin::Firewall => firewall::plan(call),
            Plugin::HostLocal | Plugin::Static => ipam::plan(call),
            Plugin::Loopback => loopback::plan(call),
            Plugin::Portmap => portmap::plan(call),
            Plugin::Ptp => ptp::plan(call),
            Plugin::Spoke => spoke::plan(call),
            Plugin::Tuning => tuning::plan(call),
        }
    }

    /// What DEL goes by where the configuration is not understood: the identity, that this plugin
    /// made something for it, and whatever can be told of the address source.
    pub(crate) fn remnant(self, call: &Call<'_>) -> Plan {
        let wiring = match self {
            Plugin::Bridge | Plugin::Ptp | Plugin::Spoke => link::remnant(call),
            Plugin::Firewall => firewall::remnant(call),
            Plugin::Tuning => tuning::remnant(call),
            Plugin::HostLocal | Plugin::Static | Plugin::Loopback | Plugin::Portmap => {
                Wiring::default()
            }
        };
        Plan { wiring, source: source::remnant(call), ..Plan::default() }
    }
}

/// A call whose form is right.
pub(crate) struct Call<'a> {
    pub(crate) plugin: Plugin,
    pub(crate) command: Command,
    pub(crate) environment: &'a Environment,
    pub(crate) config: &'a Configuration,
    /// The container and its interface; none in GC and STATUS.
    pub(crate) subject: Option<(ContainerId, IfName)>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) previous: Option<Success>,
    pub(crate) context: &'a Context<'a>,
}

impl Call<'_> {
    /// `CNI_ARGS` without unknown keys.
    pub(crate) fn args(&self) -> Result<Args> {
        Args::parse(&self.environment.args)?.strict()
    }

    /// `CNI_PATH`.
    pub(crate) fn path(&self) -> Vec<PathBuf> {
        let directories = self.environment.path.split(':');
        directories.filter(|directory| !directory.is_empty()).map(PathBuf::from).collect()
    }
}

/// What a configuration means.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The network, where it is not called as the configuration is.
    pub(crate) network: Option<NetworkName>,
    /// The interface, where the configuration overrides the runtime.
    pub(crate) ifname: Option<IfName>,
    /// What the dataplane does for every container of the network.
    pub(crate) template: Wiring,
    /// What it does for this one.
    pub(crate) wiring: Wiring,
    /// Where addresses come from.
    pub(crate) source: Source,
    /// Addresses from earlier plugins.
    pub(crate) addresses: Vec<InterfaceAddress>,
    /// Whether containers with a lasting name keep their addresses.
    pub(crate) sticky: bool,
    /// Whether there is nothing to make.
    pub(crate) idle: bool,
    /// What a person should know about the configuration.
    pub(crate) note: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::named(plugin.name()), Some(plugin));
        }
        assert_eq!(Plugin::named("../bridge"), None);
    }
}
