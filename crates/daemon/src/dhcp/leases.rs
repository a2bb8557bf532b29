//! Leases of DHCP servers, for the remote calls that ask for them: of `spoke serve` and of `dhcp daemon`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::dhcp::{DhcpAnswer, Service, client_id};
use config::Config;
use dhcp::{Keeper, Terms};
use engine::Members;
use linux::identity::{GROUP, Identity};
use model::{AttachmentId, Dns, Error, InterfaceAddress, IpNet, NetworkName, Result, Route};

/// Leases, as the remote calls want them.
pub(super) struct Leases {
    pub(super) keeper: Keeper,
    /// The prefix of the path of every namespace.
    pub(super) prefix: String,
}

/// Where the leases of the daemon at `socket` are kept: whichever process listens there, it
/// continues with them.
pub(super) fn lease_store_of(config: &Config, socket: &Path) -> PathBuf {
    let name = socket.to_string_lossy().trim_matches('/').replace('/', "-");
    config.store.runtime.join("dhcp").join(name)
}

impl Service for Leases {
    fn allocate(&self, subject: &cni::dhcp::Subject) -> Result<DhcpAnswer> {
        self.keeper.allocate(self.asked(subject)).map(given)
    }

    fn release(&self, subject: &cni::dhcp::Subject) -> Result<()> {
        self.keeper.release(&subject.id)
    }

    fn check(&self, subject: &cni::dhcp::Subject) -> Result<DhcpAnswer> {
        let terms = self.keeper.check(&subject.id)?;
        let none =
            || Error::new(model::Kind::NotFound, format!("there is no lease for {}", subject.id));
        terms.map(given).ok_or_else(none)
    }

    fn collect(&self, network: &NetworkName, valid: &Members) -> Result<()> {
        let valid = valid.clone();
        let keep =
            move |id: &AttachmentId| valid.contains(&(id.container.clone(), id.ifname.clone()));
        self.keeper.collect(network.clone(), Box::new(keep))
    }
}

impl Leases {
    fn asked(&self, subject: &cni::dhcp::Subject) -> dhcp::Subject {
        let netns = match subject.netns.as_os_str().is_empty() {
            true => PathBuf::new(),
            false => PathBuf::from(format!("{}{}", self.prefix, subject.netns.display())),
        };
        dhcp::Subject {
            client: client_id(&subject.id),
            id: subject.id.clone(),
            netns,
            mac: subject.mac,
            dhcp: subject.dhcp.clone(),
        }
    }
}

fn given(terms: Terms) -> DhcpAnswer {
    let route = |(dst, via): &(model::Ipv4Net, std::net::Ipv4Addr)| Route {
        mtu: terms.mtu.map(u32::from),
        // As the reference says it: without one the route is of the link.
        scope: via.is_unspecified().then_some(Route::ON_LINK),
        ..Route::new(IpNet::V4(*dst), Some(IpAddr::V4(*via)))
    };
    DhcpAnswer {
        addresses: vec![InterfaceAddress {
            address: IpNet::V4(terms.address),
            gateway: terms.routers.first().copied().map(IpAddr::V4),
            interface: None,
        }],
        routes: terms.routes.iter().map(route).collect(),
        dns: Dns {
            nameservers: terms.dns.iter().map(ToString::to_string).collect(),
            domain: terms.domain,
            search: terms.search,
            options: Vec::new(),
        },
    }
}

/// Whether Spoke marks links that it makes for the attachment with this group.
pub(super) fn is_link_of(id: &AttachmentId, group: u32) -> bool {
    group == GROUP || group == Identity::of(id).group()
}
