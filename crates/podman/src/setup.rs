//! `setup` and `teardown`: a container comes and goes.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use engine::Request;
use model::text::{meant, shown};
use model::{
    Attached, Error, Fence, Ipam, Layer, LinkKind, Network, NetworkName, Phase, Pool, Range,
    Result, Runtime, Sandbox, Wiring,
};
use netlink::Netns;

use crate::context::Context;
use crate::option::Spec;
use crate::wire::{Exec, StatusBlock};
use crate::{client, default_route, describe, join};

/// Where this container may go, instead of what the network says.
const EGRESS: &str = "egress";
/// Whether that holds while the packet filter is flushed, too.
const STRICT: &str = "egress-strict";

/// Attaches the container; the answer for netavark.
pub(crate) fn setup(exec: &Exec, netns: &Path, context: &Context<'_>) -> Result<StatusBlock> {
    if let Some(key) = exec.options().keys().find(|key| ![EGRESS, STRICT].contains(&key.as_str())) {
        return Err(Error::unsupported(format!(
            "--network {}:{}: no such option of a container; {}Spoke has ip, mac, alias, \
             interface_name, egress and egress-strict",
            exec.network.name,
            shown(key),
            meant(key, [EGRESS, STRICT, "ip", "mac", "alias", "interface_name"])
        )));
    }
    let network = network(exec, context)?;
    let sandbox = Some(sandbox(netns)?);
    let request = request(exec, network, sandbox, context)?;
    let attachment = context.engine.attachments.attach(&request)?;
    match attachment.phase {
        Phase::Attached(attached) => Ok(status(exec, &request.network, attached)),
        Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => Err(Error::bug(
            format!("{} is attached, but its record is not in phase Attached", request.id()),
        )),
    }
}

/// Detaches the container; what is gone is no error. Neither its namespace nor a network that can
/// be described is needed.
pub(crate) fn teardown(exec: &Exec, netns: &Path, context: &Context<'_>) -> Result<()> {
    let before = join::joined_before(exec, context)?;
    let name = before.clone().unwrap_or_else(|| exec.network.name.clone());
    let described = match before.filter(|name| *name != exec.network.name) {
        Some(name) => context.engine.records.network_of(&name).ok(),
        None => network(exec, context).ok().filter(|network| network.name == name),
    };
    let described = described.or_else(|| context.engine.records.declared(&name).ok().flatten());
    let network = described.unwrap_or_else(|| remnant(name, context));
    let sandbox = sandbox(netns).ok();
    let request = match request(exec, network.clone(), sandbox.clone(), context) {
        Ok(request) => request,
        Err(_) => bare(exec, network, sandbox),
    };
    if request.sandbox.as_ref().is_some_and(is_lived_in) {
        // Only `podman network reload` needs it, which is repeated where it fails.
        let _ = context.engine.records.keep_for_return(&request.id());
    }
    context.engine.links.detach(&request)
}

/// Whether a container's process is in the namespace. One that ended has none there any more; one whose network
/// Podman reloads goes on. Podman's own processes visit the namespace, in the mount namespace that they have given
/// to this one. A container always has another.
fn is_lived_in(sandbox: &Sandbox) -> bool {
    let inode = |at: PathBuf| fs::metadata(at).map(|namespace| namespace.ino());
    let Ok(own) = inode("/proc/self/ns/mnt".into()) else { return false };
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        process.file_name().to_str().is_some_and(is_number)
            && inode(process.path().join("ns/net")).is_ok_and(|net| net == sandbox.inode)
            && inode(process.path().join("ns/mnt")).is_ok_and(|mounts| mounts != own)
    })
}

fn network(exec: &Exec, context: &Context<'_>) -> Result<Network> {
    let config = &exec.network;
    match Spec::recorded(config)? {
        Spec::New(spec) => describe::network(config, &spec, context.site()),
        Spec::Join(name) => {
            let joined = join::network(config, &name, context)?;
            Ok(Network { runtime: Runtime::Podman, ..joined })
        }
    }
}

/// The known part of a network that is not understood: its name.
fn remnant(name: NetworkName, context: &Context<'_>) -> Network {
    Network::new(name, Runtime::Podman, context.now, Wiring::default(), Ipam::None)
}

fn bare(exec: &Exec, network: Network, sandbox: Option<Sandbox>) -> Request {
    Request {
        labels: model::Labels::default(),
        layer: Layer::Link,
        container: exec.container_id.clone(),
        ifname: exec.ifname().clone(),
        names: exec.aliases(),
        dns: model::Dns::default(),
        owner: exec.owner(),
        sandbox,
        wiring: network.wiring.clone(),
        ipam: network.ipam.clone(),
        wanted: Vec::new(),
        addresses: Vec::new(),
        network,
    }
}

fn request(
    exec: &Exec,
    network: Network,
    sandbox: Option<Sandbox>,
    context: &Context<'_>,
) -> Result<Request> {
    let mut wiring = wiring(exec, &network, context)?;
    let wanted = exec.wanted();
    let has_mac = wiring.link.as_ref().is_some_and(|link| link.mac.is_some());
    let (mut ipam, wanted) = with_wanted(&network, wanted, has_mac)?;
    let mut network = network;
    if let (Ipam::Dhcp(_), true, Some(owner)) = (&ipam, network.sticky, exec.owner()) {
        let site = context.engine.subnets.occupancy()?.site;
        client::be_known(&owner, &network.name, site, &mut wiring, &mut ipam);
    }
    default_route::rank(exec.ifname(), &wiring, &mut ipam, &mut network.routes);
    Ok(Request { wiring, ipam, wanted, ..bare(exec, network, sandbox) })
}

/// What the container alone may reach; `egress-strict` is of these rules.
fn own_fence(exec: &Exec) -> Result<Option<Fence>> {
    let options = exec.options();
    let given = |key: &str| options.get(key).map(String::as_str);
    Fence::of_one(given(EGRESS), (STRICT, given(STRICT)))
}

/// The network's wiring with what this container asked for.
fn wiring(exec: &Exec, network: &Network, context: &Context<'_>) -> Result<Wiring> {
    let mut wiring = network.wiring.clone();
    wiring.own_fence = own_fence(exec)?;
    if let Some(link) = &mut wiring.link {
        link.mac = exec.mac()?;
    }
    let template = wiring.publish.take().unwrap_or(model::Publish::new(context.backend));
    let kind = network.wiring.link.as_ref().map(|link| &link.kind);
    let bridge = kind.and_then(LinkKind::bridge);
    // On a segment past this host, on internal networks and on a tenant's, containers are not published.
    let is_reached = !network.wiring.is_internal() && network.wiring.address_space.is_none();
    if kind.is_some_and(LinkKind::has_ports) && is_reached {
        let behind = bridge.map(|bridge| bridge.name.clone());
        let publish = model::Publish { ports: exec.ports()?, behind, ..template };
        wiring.publish = Some(publish).filter(|publish| !publish.ports.is_empty());
    }
    Ok(wiring)
}

/// The address source of a container that wants these addresses, and those that Spoke has to allocate.
fn with_wanted(
    network: &Network,
    wanted: Vec<IpAddr>,
    has_mac: bool,
) -> Result<(Ipam, Vec<IpAddr>)> {
    let ipam = network.ipam.clone();
    if network.wiring.chooses_addresses() {
        return Ok((ipam, wanted));
    }
    match (ipam, wanted.first()) {
        (Ipam::Book { pools }, _) => {
            let pools = with_places(network, pools, &wanted)?;
            Ok((Ipam::Book { pools }, wanted))
        }
        // `podman network reload` asks for everything that the container had. By its hardware address the
        // server knows it again, and decides on the address.
        (ipam @ Ipam::Dhcp(_), Some(_)) if has_mac => Ok((ipam, Vec::new())),
        (Ipam::Dhcp(_), Some(address)) => Err(Error::unsupported(format!(
            "address {address} cannot be asked for: the DHCP server of network {} chooses; leave out \
             --ip, and give --mac-address where the server has an address for that one",
            network.name
        ))),
        (Ipam::None, Some(address)) => Err(Error::unsupported(format!(
            "address {address} cannot be asked for: the addresses of network {} are not from the \
             address book",
            network.name
        ))),
        (ipam, _) => Ok((ipam, wanted)),
    }
}

/// The pools of a container that wants these addresses. `--ip` may name one of the subnet that
/// `--ip-range` does not choose from.
fn with_places(network: &Network, mut pools: Vec<Pool>, wanted: &[IpAddr]) -> Result<Vec<Pool>> {
    let mut served = Vec::new();
    for address in wanted {
        let place = pools.iter().position(|pool| range_of(pool, *address).is_some());
        match place {
            Some(place) if served.contains(&place) => {
                return Err(Error::unsupported(format!(
                    "address {address} is the second of one subnet of network {}; a container \
                     has one of each",
                    network.name
                )));
            }
            Some(place) => {
                served.push(place);
                widen(&mut pools[place], *address)?;
            }
            None => {
                return Err(Error::invalid(format!(
                    "address {address} is in no subnet of network {}",
                    network.name
                )));
            }
        }
    }
    Ok(pools)
}

fn range_of(pool: &Pool, address: IpAddr) -> Option<usize> {
    pool.ranges.iter().position(|range| range.subnet.contains(&address))
}

fn widen(pool: &mut Pool, address: IpAddr) -> Result<()> {
    if pool.range_of(address).is_none()
        && let Some(range) = range_of(pool, address)
    {
        let narrow = &pool.ranges[range];
        pool.ranges[range] = Range::of_hosts(narrow.subnet, None, narrow.gateway)?;
    }
    Ok(())
}

/// The container's namespace. That of this process is the host's, which no container may have.
fn sandbox(netns: &Path) -> Result<Sandbox> {
    let found = Netns::open(netns)?;
    if found.is_same(&Netns::current()?) {
        return Err(Error::invalid(format!(
            "{} is the namespace of this process, and not a container's",
            netns.display()
        )));
    }
    Ok(Sandbox { path: netns.to_owned(), inode: found.inode() })
}

fn status(exec: &Exec, network: &Network, attached: Attached) -> StatusBlock {
    let of_network = attached.dns.nameservers.iter().filter_map(|server| server.parse().ok());
    // Where Spoke answers, it asks those that were given.
    let dns_servers = match exec.network.dns_servers() {
        given if given.is_empty() || network.wiring.has_names() => of_network.collect(),
        given => given.to_vec(),
    };
    StatusBlock { has_gateway: !network.wiring.is_internal(), dns_servers, attached }
}
