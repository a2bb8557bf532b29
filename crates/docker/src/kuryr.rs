//! The plugin `kuryr`: libnetwork's calls as kuryr-libnetwork 18 answers them, so that containers
//! are ports of an OpenStack Neutron network (kuryr's `doc/source/devref/libnetwork_remote_driver_design.rst`).
//!
//! Pools, addresses and networks are the cloud's ([`engine::port::Cloud`]); endpoints are
//! attachments like any other, whose link is a port of the cloud. A network that the store does not
//! have is searched in the cloud: kuryr-libnetwork made it, or an earlier boot of this host.
//!
//! The options of `docker network create -d kuryr --ipam-driver kuryr`, in `-o` or, for subnets and
//! pools, also in `--ipam-opt`; one place is enough:
//!
//! | key | value | otherwise |
//! |---|---|---|
//! | `neutron.net.uuid`, `neutron.net.name` | an existing network | a new one |
//! | `neutron.net.shared` | whether other projects see it | they do not |
//! | `neutron.subnet[.v6].uuid`, `….name` | an existing subnet | that of the same prefix, or a new one |
//! | `neutron.pool[.v6].uuid`, `….name` | an existing subnet pool | a new one |
//! | `neutron.address_scope` | the scope of a new pool | none |
//! | `neutron.security_groups` | of containers' ports, between commas; `none` | the project's `default` |
//! | `neutron.port_security` | `true`, `false` | the network's |
//! | `neutron.qos_policy` | of containers' ports | the network's |
//! | `neutron.allowed_address_pairs` | `ADDRESS[/LENGTH][@MAC]`, between commas | none |
//! | `neutron.floating_ip` | the network from which each container gets a floating IP address | none |
//! | `neutron.publish` | whether `-p` makes ports of this host, which must have a route to the containers: `host`, `none` | as configured |
//! | `neutron.nesting`, `neutron.parent`, `neutron.mode`, `neutron.trunk` | `macvlan`, `ipvlan`, `trunk` in an instance | as configured |
//!
//! With `--driver-opt` of an endpoint: those of ports, and `neutron.port.uuid` (an existing port) and
//! `neutron.dns_name`.

mod endpoint;
mod expose;
mod hidden;
mod join;
mod network;
mod option;
mod pending;
mod pool;

use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use engine::Engine;
use engine::port::Cloud;
use model::{Backend, Error, IfName, Kind, Result};

use crate::driver;
use crate::server::{Manner, Plugin};
use hidden::Hidden;
use libnetwork::{
    AddressSpaces, Answer, Call, IpamCapabilities, NetworkCapabilities, Profile, Scope,
};
pub use network::{remove as remove_network, remove_given_up};
use pending::Pending;

/// The content type of errors, and that of other answers (kuryr's `utils.py`, Flask).
const FAILED: &str = "application/vnd.docker.plugins.v1+json; charset=utf-8";
const DONE: &str = "application/json";

/// The host's configuration for the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The scope of networks (`capability_scope`).
    pub scope: Scope,
    /// Whether the engine must send a hardware address with each request for an address.
    pub requires_mac: bool,
    /// The names of the address spaces (`local_default_address_space`,
    /// `global_default_address_space`).
    pub spaces: AddressSpaces,
    /// The prefix of containers' interface names, before a number (`veth_dst_prefix`); `eth` where
    /// none is given.
    pub prefix: Option<IfName>,
    /// Whether exposed ports are let in by a security group (`process_external_connectivity`).
    pub exposes: bool,
    /// Whether published ports are ports of this host, where a network does not say. It must reach
    /// the containers.
    pub publishes: bool,
    /// Which packet filter published ports use.
    pub backend: Backend,
    /// Which ports of the host are allocated where any will do.
    pub ephemeral: RangeInclusive<NonZeroU16>,
}

/// The back end of this plugin, in addition to the common one.
pub trait Backstage: driver::Backstage {
    /// Lends the cloud. Fails where this host has no configuration for one.
    fn with_cloud<T>(&self, work: impl FnOnce(&dyn Cloud) -> Result<T>) -> Result<T>;
}

/// The plugin.
pub struct Kuryr<B> {
    backstage: B,
    settings: Settings,
    profile: Profile,
    pending: Pending,
    hidden: Hidden,
}

/// The context of a call.
struct Stage<'a, B> {
    engine: &'a Engine<'a>,
    cloud: &'a dyn Cloud,
    backstage: &'a B,
    settings: &'a Settings,
    pending: &'a Pending,
    hidden: &'a Hidden,
}

impl<B: Backstage> Kuryr<B> {
    /// A plugin over this.
    pub fn new(backstage: B, settings: Settings) -> Self {
        let profile = Profile {
            network: Some(NetworkCapabilities {
                scope: settings.scope,
                connectivity: settings.scope,
                checks_gateways: true,
            }),
            ipam: Some(IpamCapabilities {
                requires_mac: settings.requires_mac,
                requires_replay: false,
            }),
            spaces: Some(settings.spaces.clone()),
        };
        let (pending, hidden) = (Pending::default(), Hidden::default());
        Self { backstage, settings, profile, pending, hidden }
    }

    /// The same; what engines say before they make a network is in `file`, which does not outlive the boot, and
    /// known again after this process.
    #[must_use]
    pub fn keeping(self, file: PathBuf) -> Self {
        Self { pending: Pending::kept_in(file), ..self }
    }

    fn carry_out(&self, stage: &Stage<'_, B>, call: &Call) -> Result<Answer> {
        let Stage { cloud, pending, .. } = *stage;
        match call {
            Call::CreateNetwork(call) => network::create(stage, call),
            Call::DeleteNetwork(id) => network::delete(stage, id),
            Call::CreateEndpoint(call) => endpoint::create(stage, call),
            Call::EndpointOperInfo(at) => endpoint::info(stage, at),
            Call::DeleteEndpoint(at) => endpoint::delete(stage, at),
            Call::Join(call) => join::join(stage, call),
            Call::Leave(at) => driver::join::leave(stage.engine, at),
            Call::ProgramConnectivity(call) => expose::program(stage, call),
            Call::RevokeConnectivity(at) => expose::revoke(stage, at),
            Call::RequestPool(call) => pool::request(cloud, pending, call),
            Call::ReleasePool(key) => pool::release(stage, key),
            Call::RequestAddress(call) => pool::request_address(cloud, call),
            Call::ReleaseAddress(call) => pool::release_address(stage, call),
            Call::GwAllocCheck(_)
            | Call::AllocateNetwork(_)
            | Call::FreeNetwork(_)
            | Call::DiscoverNew(_)
            | Call::DiscoverDelete(_) => Err(Error::bug("this call needs no cloud")),
        }
    }
}

impl<B: Backstage> Plugin for Kuryr<B> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn call(&self, call: Call) -> Result<Answer> {
        match &call {
            Call::GwAllocCheck(options) => return network::gateway_check(options),
            Call::AllocateNetwork(call) => return network::allocate(call),
            // Neutron knows of the nodes by itself.
            Call::FreeNetwork(_) | Call::DiscoverNew(_) | Call::DiscoverDelete(_) => {
                return Ok(Answer::Done {});
            }
            _ => {}
        }
        let Self { backstage, settings, pending, hidden, .. } = self;
        backstage.with_engine(|engine| {
            backstage.with_cloud(|cloud| {
                let stage = Stage { engine, cloud, backstage, settings, pending, hidden };
                self.carry_out(&stage, &call)
            })
        })
    }

    fn manner(&self) -> Manner {
        Manner { done: DONE, failed: FAILED, status }
    }
}

/// Neutron's refusal keeps its status; a wrong request is 400, and everything else 500.
fn status(error: &Error) -> u16 {
    match (error.status(), error.kind()) {
        (Some(status @ 400..=599), _) => status,
        (_, Kind::Invalid | Kind::Unsupported) => 400,
        (
            _,
            Kind::NotFound
            | Kind::Conflict
            | Kind::Exhausted
            | Kind::TryAgain
            | Kind::Denied
            | Kind::Kernel
            | Kind::Bug,
        ) => 500,
    }
}

#[cfg(test)]
mod tests;
