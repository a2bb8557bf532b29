//! The remote calls of the DHCP daemon and their arguments, as the reference's Go code declares them.

use std::net::{IpAddr, Ipv4Addr};

use model::{Dns, InterfaceAddress, IpNet, Result, Route};

use super::gob::{Record, Shape, Value};
use super::{DhcpAnswer, unreadable};

/// `DHCP.Allocate(skel.CmdArgs) types100.Result`.
pub(super) const ALLOCATE: &str = "DHCP.Allocate";
/// `DHCP.Release(skel.CmdArgs) struct{}`.
pub(super) const RELEASE: &str = "DHCP.Release";
/// As [`ALLOCATE`], for an existing lease. Only in Spoke.
pub(super) const CHECK: &str = "Spoke.Check";
/// As [`RELEASE`], for all leases that the configuration does not list. Only in Spoke.
pub(super) const COLLECT: &str = "Spoke.Collect";

/// `net/rpc.Request`.
pub(super) static REQUEST: Record =
    Record { name: "Request", fields: &[("ServiceMethod", Shape::Text), ("Seq", Shape::Uint)] };

/// `net/rpc.Response`.
pub(super) static RESPONSE: Record = Record {
    name: "Response",
    fields: &[("ServiceMethod", Shape::Text), ("Seq", Shape::Uint), ("Error", Shape::Text)],
};

/// `struct{}`: a result that says nothing.
pub(super) static NOTHING: Record = Record { name: "InvalidRequest", fields: &[] };

/// `skel.CmdArgs`.
pub(super) static ARGUMENTS: Record = Record {
    name: "CmdArgs",
    fields: &[
        ("ContainerID", Shape::Text),
        ("Netns", Shape::Text),
        ("IfName", Shape::Text),
        ("Args", Shape::Text),
        ("Path", Shape::Text),
        ("StdinData", Shape::Bytes),
    ],
};

static NET: Record =
    Record { name: "IPNet", fields: &[("IP", Shape::Bytes), ("Mask", Shape::Bytes)] };
static IP_CONFIG: Record = Record {
    name: "IPConfig",
    fields: &[
        ("Interface", Shape::Int),
        ("Address", Shape::Struct(&NET)),
        ("Gateway", Shape::Bytes),
    ],
};
static ROUTE: Record = Record {
    name: "Route",
    fields: &[
        ("Dst", Shape::Struct(&NET)),
        ("GW", Shape::Bytes),
        ("MTU", Shape::Int),
        ("AdvMSS", Shape::Int),
        ("Priority", Shape::Int),
        ("Table", Shape::Int),
        ("Scope", Shape::Int),
    ],
};
static DNS: Record = Record {
    name: "DNS",
    fields: &[
        ("Nameservers", Shape::List("[]string", &Shape::Text)),
        ("Domain", Shape::Text),
        ("Search", Shape::List("[]string", &Shape::Text)),
        ("Options", Shape::List("[]string", &Shape::Text)),
    ],
};
static IPS: Shape = Shape::Struct(&IP_CONFIG);
static ROUTES: Shape = Shape::Struct(&ROUTE);

/// `types100.Result`.
pub(super) static RESULT: Record = Record {
    name: "Result",
    fields: &[
        ("CNIVersion", Shape::Text),
        ("IPs", Shape::List("[]*types100.IPConfig", &IPS)),
        ("Routes", Shape::List("[]*types.Route", &ROUTES)),
        ("DNS", Shape::Struct(&DNS)),
    ],
};

/// The structure of these fields.
pub(super) fn structure<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Struct(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(super) fn text(text: impl AsRef<str>) -> Value {
    Value::Bytes(text.as_ref().as_bytes().to_vec())
}

/// A lease as a result.
pub(super) fn result(given: &DhcpAnswer) -> Value {
    let ips = given.addresses.iter().map(|held| {
        structure([
            ("Address", net(&held.address)),
            ("Gateway", held.gateway.map_or(Value::Bytes(Vec::new()), |ip| octets(&ip))),
        ])
    });
    structure([
        ("CNIVersion", text("1.0.0")),
        ("IPs", Value::List(ips.collect())),
        ("Routes", Value::List(given.routes.iter().map(route).collect())),
        ("DNS", dns(&given.dns)),
    ])
}

fn route(route: &Route) -> Value {
    let mut value = structure([("Dst", net(&route.dst))]);
    let Value::Struct(fields) = &mut value else { return value };
    let mut put = |name: &str, value: Option<Value>| {
        fields.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("GW", route.via.as_ref().map(octets));
    let int = |number: Option<u32>| number.map(|number| Value::Int(i64::from(number)));
    put("MTU", int(route.mtu));
    put("AdvMSS", int(route.advmss));
    put("Priority", int(route.priority));
    put("Table", int(route.table));
    put("Scope", int(route.scope.map(u32::from)));
    value
}

fn dns(dns: &Dns) -> Value {
    let texts = |list: &[String]| Value::List(list.iter().map(text).collect());
    structure([
        ("Nameservers", texts(&dns.nameservers)),
        ("Domain", text(dns.domain.as_deref().unwrap_or_default())),
        ("Search", texts(&dns.search)),
        ("Options", texts(&dns.options)),
    ])
}

fn octets(ip: &IpAddr) -> Value {
    Value::Bytes(match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    })
}

fn net(net: &IpNet) -> Value {
    structure([("IP", octets(&net.addr())), ("Mask", octets(&net.netmask()))])
}

/// A lease from a result.
pub(super) fn given(result: &Value) -> Result<DhcpAnswer> {
    let addresses = result.list("IPs").iter().map(|ip| {
        Ok(InterfaceAddress {
            address: ip
                .field("Address")
                .and_then(read_net)
                .ok_or_else(|| unreadable("an address"))?,
            gateway: read_ip(ip.bytes("Gateway")),
            interface: None,
        })
    });
    let none = Value::Struct(Default::default());
    let dns = result.field("DNS").unwrap_or(&none);
    let texts = |name: &str| dns.list(name).iter().filter_map(read_text).collect();
    Ok(DhcpAnswer {
        addresses: addresses.collect::<Result<_>>()?,
        routes: result.list("Routes").iter().map(read_route).collect::<Result<_>>()?,
        dns: Dns {
            nameservers: texts("Nameservers"),
            domain: Some(dns.text("Domain")).filter(|domain| !domain.is_empty()),
            search: texts("Search"),
            options: texts("Options"),
        },
    })
}

fn read_route(route: &Value) -> Result<Route> {
    let dst = route.field("Dst").and_then(read_net).ok_or_else(|| unreadable("a route"))?;
    let some = |name: &str| route.int(name).and_then(|number| u32::try_from(number).ok());
    let positive = |name: &str| some(name).filter(|number| *number > 0);
    Ok(Route {
        dst,
        via: read_ip(route.bytes("GW")),
        mtu: positive("MTU"),
        advmss: positive("AdvMSS"),
        priority: positive("Priority"),
        table: some("Table"),
        scope: some("Scope").and_then(|scope| u8::try_from(scope).ok()),
    })
}

fn read_text(value: &Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Go keeps IPv4 in four octets or sixteen.
fn read_ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk().map(|octets: &[u8; 4]| IpAddr::from(Ipv4Addr::from(*octets))),
        16 => bytes.first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets).to_canonical()),
        _ => None,
    }
}

fn read_net(value: &Value) -> Option<IpNet> {
    let ip = read_ip(value.bytes("IP"))?;
    let mask = value.bytes("Mask");
    // Of a mask in IPv6's form for IPv4, the last four octets count.
    let mask = match (ip, mask.len()) {
        (IpAddr::V4(_), 16) => mask.get(12..)?,
        _ => mask,
    };
    IpNet::with_netmask(ip, read_mask(mask)?).ok()
}

fn read_mask(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk().map(|octets: &[u8; 4]| IpAddr::from(Ipv4Addr::from(*octets))),
        16 => bytes.first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets)),
        _ => None,
    }
}
