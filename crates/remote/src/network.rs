//! Networks of remote drivers.

use std::collections::BTreeMap;

use model::{DriverName, Error, Family, IpNet, Ipam, Link, LinkKind, Network, RemoteLink, Result};

use super::Remote;
use super::undo_log::{Subject, Undo};
use libnetwork::parameters::{NetworkParameters, ScopeParameter};
use libnetwork::{
    Answer, Call, CreateNetwork, NetworkCapabilities, NetworkId, NetworkOptions, Scope, Skip,
    SpaceName, Subnet,
};

/// The address spaces of libnetwork's own IPAM driver.
const LOCAL: &str = "LocalDefault";
const GLOBAL: &str = "GlobalDefault";
/// The IPAM driver of networks without addresses.
const NULL: &str = "null";

impl Remote {
    /// CreateNetwork. Its addresses are known by now.
    pub fn create(&self, network: &Network) -> Result<()> {
        let doing = |error: Error| error.context(format!("network {}", network.name));
        self.create_at_driver(network).map_err(doing)
    }

    fn create_at_driver(&self, network: &Network) -> Result<()> {
        let link = remote_link(network.wiring.link.as_ref())?;
        let parameters = NetworkParameters::read(&link.network)?;
        let able = self.network_driver(&link.driver)?;
        let scope = scope_of(&parameters, &able, &link.driver)?;
        let id: NetworkId = wire_id(link)?;
        let (ipv4, ipv6) = self.subnets(network, link, &parameters, (able, scope))?;
        let call =
            Call::CreateNetwork(CreateNetwork { id, options: options(&parameters), ipv4, ipv6 });
        let mut log_file = self.undo_log.open(Subject::Network(network.name.clone()))?;
        // What a dead process began is not this network.
        self.announce_on(&mut log_file, |undo| matches!(undo, Undo::DeleteNetwork(..)))?;
        let undo = Undo::DeleteNetwork(link.driver.clone(), link.id.to_string());
        log_file.hold(undo.clone());
        log_file.save()?;
        self.calls.call(&link.driver, &call).map(drop).or_else(|failed| {
            if !failed.may_be_done() {
                log_file.strike(&undo);
                log_file.save()?;
            }
            Err(failed.into())
        })
    }

    /// Its subnets as its driver is to see them: IPv4's and IPv6's.
    fn subnets(
        &self,
        network: &Network,
        link: &RemoteLink,
        parameters: &NetworkParameters,
        (able, scope): (NetworkCapabilities, Scope),
    ) -> Result<(Vec<Subnet>, Vec<Subnet>)> {
        let mut subnets = match &network.ipam {
            Ipam::Remote(ipam) => given(ipam)?,
            Ipam::Book { pools } | Ipam::HostLocal { pools, .. } => {
                let ranges = pools.iter().flat_map(|pool| &pool.ranges);
                let mut subnets: Vec<Subnet> = Vec::new();
                for range in ranges {
                    let pool = range.subnet.trunc();
                    if subnets.iter().all(|known| known.pool != pool) {
                        subnets.push(Subnet {
                            space: space(if scope == Scope::Global { GLOBAL } else { LOCAL })?,
                            pool,
                            gateway: range
                                .gateway
                                .map(|address| within(address, &pool))
                                .transpose()?,
                            aux: parameters.auxiliary_of(&pool),
                        });
                    }
                }
                if able.checks_gateways {
                    let skip = self.skipped(&link.driver, parameters)?;
                    subnets.iter_mut().filter(|subnet| skip.has(&subnet.pool)).for_each(|subnet| {
                        subnet.gateway = None;
                    });
                }
                subnets
            }
            Ipam::None
            | Ipam::Fixed { .. }
            | Ipam::Requested { .. }
            | Ipam::Foreign(_)
            | Ipam::Dhcp(_) => vec![Subnet {
                space: space(NULL)?,
                pool: Family::V4.everything(),
                gateway: None,
                aux: BTreeMap::new(),
            }],
        };
        subnets.retain(|subnet| match Family::of(&subnet.pool) {
            Family::V4 => parameters.ipv4,
            Family::V6 => parameters.ipv6,
        });
        Ok(subnets.into_iter().partition(|subnet| Family::of(&subnet.pool) == Family::V4))
    }

    /// Which gateways its driver has no use for.
    pub(super) fn skipped(
        &self,
        driver: &DriverName,
        parameters: &NetworkParameters,
    ) -> Result<Skip> {
        match self.calls.call(driver, &Call::GwAllocCheck(options(parameters)))? {
            Answer::Skip(skip) => Ok(skip),
            _ => Ok(Skip::default()),
        }
    }

    /// DeleteNetwork; as [`Remote::remove_pools`].
    pub fn remove(&self, network: &Network) -> Result<()> {
        let subject = Subject::Network(network.name.clone());
        self.announce(&subject, |undo| matches!(undo, Undo::DeleteNetwork(..)))
    }

    /// Whether the network's driver could make an endpoint now.
    pub fn status(&self, network: &Network) -> Result<()> {
        let link = remote_link(network.wiring.link.as_ref())?;
        let found = self.network_driver(&link.driver).map(drop);
        found.map_err(|error| error.context(format!("network {}", network.name)))
    }

    /// The capabilities of a plugin that is a network driver.
    pub(super) fn network_driver(&self, driver: &DriverName) -> Result<NetworkCapabilities> {
        self.calls.profile(driver)?.network.ok_or_else(|| {
            Error::unsupported(format!("plugin {driver} is no network driver (NetworkDriver)"))
        })
    }
}

/// A network of a remote driver.
pub(super) fn remote_link(link: Option<&Link>) -> Result<&RemoteLink> {
    match link.map(|link| &link.kind) {
        Some(LinkKind::Remote(remote)) => Ok(remote),
        Some(_) | None => Err(Error::bug("a remote driver is to make what is none of its links")),
    }
}

/// The scope of a network: at least its driver's.
pub(super) fn scope_of(
    parameters: &NetworkParameters,
    able: &NetworkCapabilities,
    driver: &DriverName,
) -> Result<Scope> {
    match (parameters.scope, able.scope) {
        (None, scope) => Ok(scope),
        (Some(ScopeParameter::Global), _) => Ok(Scope::Global),
        (Some(ScopeParameter::Local), Scope::Local) => Ok(Scope::Local),
        (Some(ScopeParameter::Local), Scope::Global) => Err(Error::invalid(format!(
            "cannot downgrade network scope for {driver} networks: its networks are of a cluster"
        ))),
    }
}

fn options(parameters: &NetworkParameters) -> NetworkOptions {
    NetworkOptions {
        generic: parameters.options.clone(),
        ipv4: Some(parameters.ipv4),
        ipv6: parameters.ipv6,
        internal: parameters.internal,
    }
}

fn given(ipam: &model::RemoteIpam) -> Result<Vec<Subnet>> {
    let unknown = || Error::bug("a network is to be made before its pools were requested");
    let subnets = ipam.pools.iter().map(|pool| {
        let given = pool.given.as_ref().ok_or_else(unknown)?;
        Ok(Subnet {
            space: ipam.space.as_deref().map(space).transpose()?.flatten(),
            pool: given.net,
            gateway: given.gateway,
            aux: pool.auxiliary.clone(),
        })
    });
    subnets.collect()
}

fn space(name: &str) -> Result<Option<SpaceName>> {
    let invalid = |why| Error::invalid(format!("address space {name:?} {why}"));
    name.parse().map(Some).map_err(invalid)
}

fn within(address: std::net::IpAddr, net: &IpNet) -> Result<IpNet> {
    IpNet::new(address, net.prefix_len())
        .map_err(|_| Error::bug(format!("{address} is no address of {net}")))
}

/// The driver's id of the network.
pub(super) fn wire_id(link: &RemoteLink) -> Result<NetworkId> {
    let id = &link.id;
    id.as_str().parse().map_err(|why| Error::invalid(format!("network id {id} {why}")))
}
