//! The network driver: libnetwork's calls as verbs of the engine.
//!
//! Nothing here does input or output or remembers anything: what a call needs is in the store, so
//! that it can be repeated, by another thread or after a restart.
//!
//! `docker network create -d spoke -o KEY=VALUE`; in parentheses what Docker's bridge driver calls it:
//!
//! | key | value | otherwise |
//! |---|---|---|
//! | `bridge` (`com.docker.network.bridge.name`) | a device; one that exists is used and stays | named after the network |
//! | `mtu` (`com.docker.network.driver.mtu`) | bytes | the kernel's |
//! | `isolation` | `none`, `network` (not reached from other networks), `container` (nor from its own; `….bridge.enable_icc=false`) | `network` |
//! | `publish` | from where ports are reached: `any`, `lan`, `local` | `any` |
//! | `ports` | who publishes them: `spoke`, or `docker` through `docker_gwbridge` | `spoke` |
//! | `interfaces` | who completes interfaces: `docker`, or `spoke` inside the container (28 and later) | `docker`, except those with `com.docker.network.endpoint.ifname` |
//! | `network` | the network to join or make, by its name in Spoke | named after its subnet |
//! | `gateway` | the bridge is the `default` route, only has the `address`, or `none` | `default`; `address` with `--internal` |
//! | `masquerade` (`….bridge.enable_ip_masquerade`) | `true`, `false` | `true` if it is the default route |
//! | `direct` | others reach containers by routes, without published ports, though this host forwards because of Spoke: `true`, `false` (`….bridge.gateway_mode_ipv4` or `_ipv6` `nat-unprotected`: in that family) | `false` |
//! | `trusted_host_interfaces` (`….bridge.…`) | interfaces between colons from which others reach published ports at containers' own addresses by routes, and nothing else | |
//! | `host_ipv4`, `host_ipv6` (`com.docker.network.…`) | the host's address that packets leave with | that of the interface that they leave by |
//! | `hairpin`, `promiscuous` | `true`, `false` | `true`, `false` |
//! | `driver` | `bridge`, `macvlan`, `ipvlan` | what the other keys imply |
//! | `parent`, `vlan` | the device below, or one VLAN of it (`eth0.100`) | the default route's device |
//! | `macvlan_mode`, `ipvlan_mode`, `mode` | as in Docker's own drivers; `mode=dhcp`: addresses of the LAN's server | `bridge`, `l2` |
//! | `host_access`, `probe` | of a macvlan: `true`, `false` | `false` |
//! | `cni` | a configuration list of CNI plugins | |
//! | `hosts`, `in` | on which hosts of the cluster the network is to be, and in which engines there | this one |
//!
//! Docker numbers interfaces without regard to those that Spoke completed: on a network with
//! `interfaces=spoke` whose containers are on Docker's own networks too, give them another
//! `com.docker.network.container_iface_prefix` than Docker's `eth`.
//!
//! Of Docker's own there are also `….bridge.gateway_mode_ipv4` and `_ipv6` (`nat`, `nat-unprotected`,
//! `routed`, `isolated`), `….bridge.inhibit_ipv4`, `….bridge.host_binding_ipv4` and
//! `com.docker.network.container_iface_prefix`.
//!
//! `--ipam-opt`: `network` (whose subnet to share, or under which name to make one), `sticky` (`mac`,
//! `name`), `order` (`lowest`, `serial`), `overlap` (`allow`).

mod agree;
mod block;
pub(crate) mod endpoint;
pub(crate) mod join;
pub(crate) mod many;
pub(crate) mod network;
mod option;
pub(crate) mod publish;
mod template;

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::Path;

use engine::Engine;
use model::{AliasId, Backend, Error, IfName, PluginChain, Result, SubnetId, Timestamp};

use crate::api::Network;
use crate::ipam;
use crate::server::Plugin;
use libnetwork::{
    AddressSpaces, Answer, Call, IpamCapabilities, NetworkCapabilities, NetworkId, Profile,
    Purpose, Scope,
};
pub use many::UnnamedManyHosts;
use template::Circumstances;

/// The host's configuration for Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The scope of networks. Swarm needs [`Scope::Global`].
    pub scope: Scope,
    /// Whether addresses are only allocated with a hardware address: needed for `--ipam-opt
    /// sticky=mac`.
    pub requires_mac: bool,
    /// Which packet filter new networks use.
    pub backend: Backend,
    /// Which ports of the host are allocated where any will do.
    pub ephemeral: RangeInclusive<NonZeroU16>,
}

/// The interfaces in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Its inode in the kernel's namespace file system.
    pub inode: u64,
    /// The names of its interfaces.
    pub links: BTreeSet<IfName>,
}

/// Reads the namespaces of containers.
pub trait Sandboxes {
    /// The interfaces in the namespace at `path`; `None` if there is no namespace there.
    fn inspect(&self, path: &Path) -> Result<Option<Within>>;

    /// Whether an engine may restore containers that went on without it (`live-restore`), as far as is known.
    fn may_restore(&self) -> bool {
        false
    }
}

/// The back end of this front end, which the binary wires.
pub trait Backstage: Sandboxes + Send + Sync + 'static {
    /// Lends an engine for some work. Calls come on several threads at once.
    fn with_engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> Result<T>) -> Result<T>;

    /// The time, for showing only.
    fn now(&self) -> Timestamp;

    /// The network that the list of CNI plugins in `file` describes.
    ///
    /// # Errors
    /// Where the file is missing, or is no such list.
    fn plugins(&self, file: &Path) -> Result<PluginChain> {
        let file = file.display();
        Err(Error::unsupported(format!("{file}: lists of plugins are not read here")))
    }

    /// Asks the cloud to delete a network that no engine lists any more. Repeating it is no error,
    /// and neither is a network that is not a cloud's.
    fn abandon(&self, network: &AliasId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// Takes note that a network is to be one of many hosts, once the engine says what it is called.
    ///
    /// # Errors
    /// What can be known to be impossible by now: this host is in no cluster, or the subnet is taken there.
    fn share(&self, wanted: &UnnamedManyHosts) -> Result<()> {
        let _ = wanted;
        Err(Error::unsupported("-o hosts: there is no cluster of hosts here"))
    }

    /// Whether a subnet is of a network that is to become one of many hosts, and is not there yet.
    fn is_awaited(&self, subnet: &SubnetId) -> bool {
        let _ = subnet;
        false
    }

    /// Waits until the network of a subnet is there, where it is to become one of many hosts.
    ///
    /// # Errors
    /// Why it did not become one.
    fn await_shared(&self, subnet: &SubnetId) -> Result<()> {
        let _ = subnet;
        Ok(())
    }

    /// Takes the networks of other drivers that the engines list, instead of those before. None are
    /// listed by engines that have been out of reach for long.
    fn see(&self, networks: &[Network]) {
        let _ = networks;
    }
}

/// The plugin: a network driver and an IPAM driver of libnetwork.
pub struct Docker<B> {
    backstage: B,
    settings: Settings,
    profile: Profile,
}

impl<B: Backstage> Docker<B> {
    /// A plugin over this.
    pub fn new(backstage: B, settings: Settings) -> Result<Self> {
        let space = |name: &str| {
            name.parse().map_err(|why| Error::bug(format!("address space {name} {why}")))
        };
        let profile = Profile {
            network: Some(NetworkCapabilities {
                scope: settings.scope,
                connectivity: settings.scope,
                checks_gateways: true,
            }),
            ipam: Some(IpamCapabilities {
                requires_mac: settings.requires_mac,
                // The store has everything; and a repetition cannot be distinguished from a second
                // request.
                requires_replay: false,
            }),
            spaces: Some(AddressSpaces {
                local: space(ipam::key::LOCAL)?,
                global: space(ipam::key::GLOBAL)?,
            }),
        };
        Ok(Self { backstage, settings, profile })
    }

    fn carry_out(&self, engine: &Engine<'_>, call: &Call) -> Result<Answer> {
        let plugins = |file: &Path| self.backstage.plugins(file);
        let circumstances = || Circumstances {
            backend: self.settings.backend,
            now: self.backstage.now(),
            plugins: &plugins,
        };
        match call {
            Call::GwAllocCheck(options) => network::gateway_check(options),
            Call::CreateNetwork(call) if many::is_asked(&call.options) => {
                many::create(engine, call, |wanted| self.backstage.share(wanted))
            }
            Call::CreateNetwork(call) => network::create(engine, call, &circumstances()),
            Call::DeleteNetwork(id) => network::delete(engine, id),
            Call::AllocateNetwork(call) => network::allocate(call),
            Call::CreateEndpoint(call) => endpoint::create(engine, call),
            Call::EndpointOperInfo(at) => endpoint::info(engine, at),
            Call::DeleteEndpoint(at) => endpoint::delete(engine, at),
            Call::Join(call) => join::join(engine, call, &self.backstage),
            Call::Leave(at) => join::leave(engine, at),
            Call::ProgramConnectivity(call) => {
                let settings = (self.settings.backend, &self.settings.ephemeral);
                publish::program(engine, call, settings)
            }
            Call::RevokeConnectivity(at) => publish::revoke(engine, at),
            Call::RequestPool(call) => ipam::request_pool(engine, call, self.settings.scope),
            Call::ReleasePool(key) => ipam::release_pool(engine, key),
            Call::RequestAddress(call) => {
                if call.purpose != Purpose::Gateway {
                    self.backstage.await_shared(&ipam::key::subnet_of(&call.pool)?)?;
                }
                ipam::request_address(engine, call, self.settings.scope)
            }
            Call::ReleaseAddress(call) => ipam::release_address(engine, call),
            // A bridge needs to know of no other node, and holds nothing for a cluster.
            Call::FreeNetwork(_) | Call::DiscoverNew(_) | Call::DiscoverDelete(_) => {
                Ok(Answer::Done {})
            }
        }
    }
}

/// The network that is there, and that the call works on.
fn network_of(call: &Call) -> Option<&NetworkId> {
    match call {
        Call::DeleteNetwork(id) => Some(id),
        Call::CreateEndpoint(call) => Some(&call.at.network),
        Call::Join(call) => Some(&call.at.network),
        Call::ProgramConnectivity(call) => Some(&call.at.network),
        Call::EndpointOperInfo(at)
        | Call::DeleteEndpoint(at)
        | Call::Leave(at)
        | Call::RevokeConnectivity(at) => Some(&at.network),
        Call::GwAllocCheck(_)
        | Call::CreateNetwork(_)
        | Call::AllocateNetwork(_)
        | Call::FreeNetwork(_)
        | Call::RequestPool(_)
        | Call::ReleasePool(_)
        | Call::RequestAddress(_)
        | Call::ReleaseAddress(_)
        | Call::DiscoverNew(_)
        | Call::DiscoverDelete(_) => None,
    }
}

impl<B: Backstage> Plugin for Docker<B> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn call(&self, call: Call) -> Result<Answer> {
        self.backstage.with_engine(|engine| self.carry_out(engine, &call))
    }

    fn asks_others(&self, call: &Call) -> bool {
        match call {
            // The cluster is asked.
            Call::CreateNetwork(call) => return many::is_asked(&call.options),
            Call::RequestAddress(call) => {
                let Ok(subnet) = ipam::key::subnet_of(&call.pool) else { return false };
                let Some(address) = call.address.filter(|_| call.purpose != Purpose::Gateway)
                else {
                    return self.backstage.is_awaited(&subnet);
                };
                let asks =
                    |engine: &Engine<'_>| engine.addresses.address_asks_hosts(&subnet, address);
                return self.backstage.is_awaited(&subnet)
                    || self.backstage.with_engine(asks).unwrap_or(false);
            }
            // What its container has left is undone with it.
            Call::ReleaseAddress(call) => {
                let Ok(subnet) = ipam::key::subnet_of(&call.pool) else { return false };
                let asks = |engine: &Engine<'_>| network::of_subnet_asks_others(engine, &subnet);
                return self.backstage.with_engine(asks).unwrap_or(false);
            }
            _ => {}
        }
        let Some(id) = network_of(call) else { return false };
        // Where it cannot be read, the call says so.
        self.backstage.with_engine(|engine| network::asks_others(engine, id)).unwrap_or(false)
    }
}
