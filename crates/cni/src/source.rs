//! Where a network's addresses come from: the object `ipam` of its configuration.

pub(crate) mod dhcp;
mod fixed;
mod ranges;
mod resolver;

pub(crate) use ranges::{bare, wanted};

use std::net::IpAddr;
use std::path::PathBuf;

use model::{Dns, Error, ForeignIpam, Ipam, Lease, Pool, Result, Route, Space};

use crate::call::Call;
use crate::plugin_type::Plugin;
use crate::reference::NETWORKS;
use crate::wire::{Command, Object, parse_dns};
use crate::words::reported;

/// An address source with what this container asks of it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) ipam: Ipam,
    pub(crate) routes: Vec<Route>,
    pub(crate) dns: Dns,
    pub(crate) wanted: Vec<IpAddr>,
}

impl Default for Source {
    fn default() -> Self {
        Self { ipam: Ipam::None, routes: Vec::new(), dns: Dns::default(), wanted: Vec::new() }
    }
}

impl Source {
    /// Gives every fixed address without a gateway the first address of its subnet as one.
    pub(crate) fn name_gateways(&mut self) {
        if let Ipam::Fixed { leases } = &mut self.ipam {
            for lease in leases.iter_mut().filter(|lease| lease.gateway.is_none()) {
                lease.gateway = model::first_host(&lease.address);
            }
        }
    }

    /// Replaces what the address source says about names by the network's own `dns`, if it is set.
    pub(crate) fn prefer_own_dns(&mut self, root: &Object<'_>) -> Result<()> {
        let own = parse_dns(root, "dns")?;
        if has_own_dns(root)? {
            self.dns = own;
        }
        Ok(())
    }
}

/// Whether the field `dns` says anything: one of its lists is there, even an empty one, or it has a
/// domain. The reference's `bridge` and `ptp` decide in this way.
fn has_own_dns(root: &Object<'_>) -> Result<bool> {
    let Some(dns) = root.object("dns")? else { return Ok(false) };
    let has_list = ["nameservers", "search", "options"].iter().any(|key| dns.get(key).is_some());
    Ok(has_list || dns.text("domain")?.is_some_and(|domain| !domain.is_empty()))
}

/// The source that a main plugin's configuration names. The network's own `dns` wins over the
/// source's.
pub(crate) fn load(call: &Call<'_>, space: Space) -> Result<Source> {
    let root = call.config.root();
    let mut source = match root.object("ipam")? {
        None => Source::default(),
        Some(ipam) => match ipam.text("type")? {
            None => Source::default(),
            Some(name) => of_type(call, name, &ipam, space)?,
        },
    };
    source.prefer_own_dns(&root)?;
    Ok(source)
}

fn of_type(call: &Call<'_>, name: &str, ipam: &Object<'_>, space: Space) -> Result<Source> {
    match Plugin::named(name) {
        None => Ok(Source { ipam: foreign(call, name)?, ..Source::default() }),
        Some(plugin) => {
            let source = of_plugin(call, plugin, ipam, space)?;
            let is_now = matches!(call.command, Command::Add | Command::Check);
            match &source.ipam {
                Ipam::Fixed { leases } if leases.is_empty() && is_now => {
                    let words = "IPAM plugin returned missing IP config";
                    Err(reported(words, ": \"ipam.addresses\" is empty"))
                }
                _ => Ok(source),
            }
        }
    }
}

/// The source that one of our IPAM plugins is.
pub(crate) fn of_plugin(
    call: &Call<'_>,
    plugin: Plugin,
    ipam: &Object<'_>,
    space: Space,
) -> Result<Source> {
    match plugin {
        Plugin::HostLocal => {
            let directory = directory(call, ipam)?;
            let (pools, mut source) = from_ranges(call, ipam, space)?;
            source.ipam = Ipam::HostLocal { pools, directory };
            Ok(source)
        }
        Plugin::Static => fixed(call, ipam, space),
        Plugin::Dhcp => Ok(Source { ipam: Ipam::Dhcp(dhcp::of(call, ipam)?), ..Source::default() }),
        Plugin::Bandwidth
        | Plugin::Bridge
        | Plugin::Dummy
        | Plugin::Firewall
        | Plugin::HostDevice
        | Plugin::Ipvlan
        | Plugin::Loopback
        | Plugin::Macvlan
        | Plugin::Portmap
        | Plugin::Ptp
        | Plugin::Sbr
        | Plugin::Spoke
        | Plugin::Tap
        | Plugin::Tuning
        | Plugin::Vlan
        | Plugin::Vrf => Err(Error::invalid(format!(
            "\"ipam.type\" is {:?}, which gives no addresses; dhcp, host-local and static do",
            plugin.name()
        ))),
    }
}

/// The store alone, with ranges as `host-local` has them.
pub(crate) fn book(call: &Call<'_>, ipam: &Object<'_>, space: Space) -> Result<Source> {
    let (pools, mut source) = from_ranges(call, ipam, space)?;
    source.ipam = Ipam::Book { pools };
    Ok(source)
}

fn from_ranges(call: &Call<'_>, ipam: &Object<'_>, space: Space) -> Result<(Vec<Pool>, Source)> {
    let dns = match ipam.text("resolvConf")? {
        Some(path) if call.command == Command::Add => resolver::read(path)?,
        _ => Dns::default(),
    };
    let pools = ranges::pools(call, ipam, &space)?;
    let routes = crate::wire::parse_routes(ipam, "routes")?;
    let wanted = ranges::wanted(call)?;
    if call.command == Command::Add {
        ranges::refuse_unattainable(&pools, &wanted)?;
    }
    Ok((pools, Source { ipam: Ipam::None, routes, dns, wanted }))
}

fn fixed(call: &Call<'_>, ipam: &Object<'_>, space: Space) -> Result<Source> {
    let leases: Vec<Lease> = fixed::leases(call, ipam, &space)?;
    Ok(Source {
        ipam: Ipam::Fixed { leases },
        routes: crate::wire::parse_routes(ipam, "routes")?,
        dns: parse_dns(ipam, "dns")?,
        wanted: Vec::new(),
    })
}

fn foreign(call: &Call<'_>, name: &str) -> Result<Ipam> {
    let plugin =
        name.parse().map_err(|_| Error::invalid(format!("invalid plugin name: {name}")))?;
    Ok(Ipam::Foreign(ForeignIpam {
        plugin,
        path: call.path(),
        config: call.config.text().to_owned(),
        args: call.environment.args.clone(),
        own_namespace: call.environment.allows_own_namespace(),
    }))
}

fn directory(call: &Call<'_>, ipam: &Object<'_>) -> Result<PathBuf> {
    let directories = PathBuf::from(ipam.text("dataDir")?.unwrap_or(NETWORKS));
    match directories.is_absolute() {
        true => {
            let name = call.config.reported_name();
            let name = name.map_err(|failure| failure.into_error("reading the configuration"))?;
            Ok(directories.join(name.as_str()))
        }
        false => Err(Error::invalid(format!(
            "\"ipam.dataDir\" is {directories:?}, which is not an absolute path"
        ))),
    }
}

/// What is readable of the source where the configuration is not understood, for releasing.
pub(crate) fn remnant(call: &Call<'_>) -> Source {
    let root = call.config.root();
    let ipam = root.object("ipam").ok().flatten();
    let named = ipam.as_ref().and_then(|ipam| ipam.text("type").ok().flatten());
    let plugin = match call.plugin {
        Plugin::Dhcp | Plugin::HostLocal => Some(call.plugin),
        _ => named.and_then(Plugin::named),
    };
    let found = match (plugin, named) {
        (Some(Plugin::HostLocal), _) => {
            let empty = serde_json::Map::new();
            let ipam = ipam.unwrap_or_else(|| Object::new("ipam", &empty));
            directory(call, &ipam)
                .ok()
                .map(|directory| Ipam::HostLocal { pools: Vec::new(), directory })
        }
        (Some(Plugin::Dhcp), _) => Some(Ipam::Dhcp(dhcp::remnant(ipam.as_ref()))),
        (None, Some(name)) => foreign(call, name).ok(),
        (_, _) => None,
    };
    Source { ipam: found.unwrap_or(Ipam::None), ..Source::default() }
}
