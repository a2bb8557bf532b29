//! Segments of Open vSwitch.

use std::net::IpAddr;

use engine::Occupancy;
use model::{
    Error, Family, Ipam, LinkKind, Mtu, Network, Ovs, Result, Route, Tunnel, VlanId, Vni, Wiring,
};
use neutron::ovsdb::Datapath;
use spec::{Frame, NetworkSpec};

use crate::cli::HostContext;
use crate::cli::args::{CreateArgs, Driver, IpamDriver};
use crate::dataplane;

const BRIDGE: &str = "bridge";
const VLAN: &str = "vlan";
const VNI: &str = "vni";
const REMOTE: &str = "remote";
const DATABASE: &str = "database";

/// Every key of `--opt`, in the order in which an error names them.
const KEYS: [&str; 5] = [BRIDGE, VLAN, VNI, REMOTE, DATABASE];

/// Where Open vSwitch's packages have the database.
const USUAL: &str = "unix:/run/openvswitch/db.sock";

/// More hosts than this have one segment by no mesh of tunnels.
const MOST_REMOTES: usize = 256;

/// What VXLAN takes of the usual 1500 bytes (RFC 7348, IPv4 outside; IPv6 takes 20 more).
const THROUGH_VXLAN: u32 = 1430;

/// The requested network, if it is a segment of Open vSwitch.
pub(super) fn network(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    host_context: &HostContext,
    taken: &dyn Fn() -> Result<Occupancy>,
) -> Result<Option<Network>> {
    if wanted.driver != Driver::Ovs {
        return Ok(None);
    }
    if let Some(option) = senseless(wanted) {
        return Err(Error::invalid(format!(
            "{option} is no option of driver ovs, whose packets pass the switch and not this host; \
             --opt {} are",
            KEYS.join(", --opt ")
        )));
    }
    let mut ovs = segment(wanted)?;
    ovs.offload = dataplane::bridge_of(&ovs)?.datapath == Datapath::Kernel;
    let subnets = super::checked(&wanted.subnets, &taken()?)?;
    if subnets.is_empty() {
        return Err(Error::invalid("driver ovs needs --subnet: the one that the segment has"));
    }
    let ipam = Ipam::Book { pools: super::pools(wanted, &subnets)? };
    let routes = wanted.gateways.iter().map(default_route).collect();
    let frame = Frame { routes, ..super::frame(wanted, host_context, ipam) };
    Ok(Some(spec.network(frame, wiring(wanted, spec, host_context, ovs))))
}

/// An internal network has a firewall only so that no other network is made its containers' way out.
fn wiring(wanted: &CreateArgs, spec: &NetworkSpec, host_context: &HostContext, ovs: Ovs) -> Wiring {
    let mtu = spec.mtu.or(ovs.tunnel.as_ref().and_then(|_| Mtu::new(THROUGH_VXLAN)));
    let spec = NetworkSpec { mtu, ..spec.clone() };
    let firewall = wanted.internal.then(|| super::remote::internal(host_context.backend));
    let kind = LinkKind::Ovs(Box::new(ovs));
    Wiring { firewall, ..spec.wiring(kind, host_context.backend) }
}

/// By the router on the segment.
fn default_route(gateway: &IpAddr) -> Route {
    Route::new(Family::of(&model::host_net(*gateway)).everything(), None)
}

fn segment(wanted: &CreateArgs) -> Result<Ovs> {
    let known = |key: &str| KEYS.contains(&key);
    if let Some((key, _)) = wanted.options.iter().find(|(key, _)| !known(key)) {
        return Err(Error::unsupported(format!(
            "--opt {}: no such option; there are {}",
            model::text::shown(key),
            KEYS.join(", ")
        )));
    }
    let bridge = one(wanted, BRIDGE)?.ok_or_else(|| {
        Error::invalid("driver ovs needs --opt bridge=BRIDGE, one of Open vSwitch's")
    })?;
    let vlan = one(wanted, VLAN)?.map(vlan).transpose()?;
    let tunnel = tunnel(wanted)?;
    if tunnel.is_some() && vlan.is_none() {
        return Err(Error::invalid(
            "--opt vni needs --opt vlan: the VLAN of the bridge that the tunnels carry, and no other",
        ));
    }
    Ok(Ovs {
        bridge: bridge.parse()?,
        vlan,
        tunnel,
        database: one(wanted, DATABASE)?.unwrap_or(USUAL).to_owned(),
        offload: true,
    })
}

fn tunnel(wanted: &CreateArgs) -> Result<Option<Tunnel>> {
    let vni = one(wanted, VNI)?.map(str::parse::<Vni>).transpose()?;
    let mut remotes: Vec<IpAddr> = Vec::new();
    for text in given(wanted, REMOTE) {
        let remote = text.parse().map_err(|_| {
            Error::invalid(format!(
                "--opt remote={}: it is an IP address",
                model::text::shown(text)
            ))
        })?;
        if remotes.contains(&remote) {
            return Err(Error::invalid(format!("--opt remote={remote} is there twice")));
        }
        remotes.push(remote);
    }
    match (vni, remotes.len()) {
        (None, 0) => Ok(None),
        (Some(vni), 1..=MOST_REMOTES) => Ok(Some(Tunnel { vni, remotes })),
        (Some(vni), 0) => Err(Error::invalid(format!(
            "--opt vni={vni} needs --opt remote=IP for each of the other hosts"
        ))),
        (Some(_), _) => Err(Error::unsupported(format!("--opt remote: at most {MOST_REMOTES}"))),
        (None, _) => Err(Error::invalid("--opt remote needs --opt vni: the VXLAN id")),
    }
}

fn vlan(text: &str) -> Result<VlanId> {
    let id = text.parse().ok().and_then(VlanId::new);
    id.ok_or_else(|| {
        let shown = model::text::shown(text);
        Error::invalid(format!("--opt vlan={shown}: a VLAN is a number from 1 to 4094"))
    })
}

fn given<'a>(wanted: &'a CreateArgs, key: &'a str) -> impl Iterator<Item = &'a str> {
    wanted.options.iter().filter(move |(it, _)| it == key).map(|(_, value)| value.as_str())
}

fn one<'a>(wanted: &'a CreateArgs, key: &'a str) -> Result<Option<&'a str>> {
    let mut given = given(wanted, key);
    match (given.next(), given.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Error::invalid(format!("--opt {key} is there twice; leave one out"))),
    }
}

fn senseless(wanted: &CreateArgs) -> Option<&'static str> {
    let given = [
        ("--conflist", wanted.conflist.is_some()),
        ("--ipam-driver", wanted.remote.ipam_driver != IpamDriver::Default),
        ("--config-only", wanted.remote.config_only),
        ("--config-from", wanted.remote.config_from.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}
