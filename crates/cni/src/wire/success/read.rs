//! Reading a result of any version.

use std::net::IpAddr;

use model::{Dns, Error, Fact, IpNet, Result, Route};

use super::{Interface, Ip, Success};
use crate::wire::{Node, Object, Version};

impl Success {
    /// The result in `object`, which has the version that it names, or else `default`.
    pub fn parse(object: &Object<'_>, default: Version) -> Result<Self> {
        let version = match object.text("cniVersion")? {
            None => default,
            Some(text) => Version::parse(text).ok_or_else(|| unknown(text, default))?,
        };
        match version < Version::V030 {
            true => parse_by_family(object),
            false => parse_lists(object),
        }
    }
}

/// The reference's words name the versions whose results have the form of `default`.
fn unknown(text: &str, default: Version) -> Error {
    let supported = match default {
        Version::V010 | Version::V020 => "[ 0.1.0 0.2.0]",
        Version::V030 | Version::V031 | Version::V040 => "[0.3.0 0.3.1 0.4.0]",
        Version::V100 | Version::V110 => "[1.0.0 1.1.0]",
    };
    let words = format!("result type supports {supported} but unmarshalled CNIVersion is {text:?}");
    Error::invalid(format!("result has the unknown cniVersion {text:?}")).about(Fact::Words(words))
}

fn parse_lists(object: &Object<'_>) -> Result<Success> {
    Ok(Success {
        interfaces: object.list("interfaces")?.iter().map(interface).collect::<Result<_>>()?,
        ips: object.list("ips")?.iter().map(ip).collect::<Result<_>>()?,
        routes: parse_routes(object, "routes")?,
        dns: parse_dns(object, "dns")?,
    })
}

fn parse_by_family(object: &Object<'_>) -> Result<Success> {
    let mut success = Success { dns: parse_dns(object, "dns")?, ..Success::default() };
    for family in ["ip4", "ip6"] {
        let Some(config) = object.object(family)? else { continue };
        success.ips.push(Ip {
            address: net(&config, "ip")?,
            gateway: address(&config, "gateway")?,
            interface: None,
        });
        success.routes.extend(parse_routes(&config, "routes")?);
    }
    Ok(success)
}

fn interface(node: &Node<'_>) -> Result<Interface> {
    let object = node.object()?;
    let text = |key| object.text(key).map(|text| text.unwrap_or_default().to_owned());
    Ok(Interface {
        name: text("name")?,
        mac: text("mac")?,
        mtu: number(&object, "mtu")?.filter(|mtu| *mtu != 0),
        sandbox: text("sandbox")?,
        socket_path: text("socketPath")?,
        pci_id: text("pciID")?,
    })
}

fn ip(node: &Node<'_>) -> Result<Ip> {
    let object = node.object()?;
    Ok(Ip {
        address: net(&object, "address")?,
        gateway: address(&object, "gateway")?,
        interface: object.integer("interface")?,
    })
}

/// The routes in the field `key`; none where it is absent.
pub fn parse_routes(object: &Object<'_>, key: &str) -> Result<Vec<Route>> {
    object.list(key)?.iter().map(route).collect()
}

fn route(node: &Node<'_>) -> Result<Route> {
    let object = node.object()?;
    let positive = |key| number(&object, key).map(|value| value.filter(|value| *value != 0));
    Ok(Route {
        dst: net(&object, "dst")?,
        via: address(&object, "gw")?,
        mtu: positive("mtu")?,
        advmss: positive("advmss")?,
        priority: positive("priority")?,
        table: number(&object, "table")?,
        scope: number(&object, "scope")?
            .map(|scope| u8::try_from(scope).map_err(|_| node.wrong("whose scope is over 255")))
            .transpose()?,
    })
}

/// The resolver's configuration in the field `key`; an empty one where it is absent.
pub fn parse_dns(object: &Object<'_>, key: &str) -> Result<Dns> {
    let Some(object) = object.object(key)? else { return Ok(Dns::default()) };
    Ok(Dns {
        nameservers: object.texts("nameservers")?,
        domain: object.text("domain")?.map(str::to_owned),
        search: object.texts("search")?,
        options: object.texts("options")?,
    })
}

fn number(object: &Object<'_>, key: &str) -> Result<Option<u32>> {
    let Some(number) = object.integer(key)? else { return Ok(None) };
    match u32::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::invalid(format!("{key:?} is {number}, which is out of range"))),
    }
}

fn net(object: &Object<'_>, key: &str) -> Result<IpNet> {
    let missing = || Error::invalid(format!("{key:?} is missing where a prefix is needed"));
    let wrong = |error: Error| in_words(error, object, key, "invalid CIDR address");
    let net: IpNet = object.parse(key).map_err(wrong)?.ok_or_else(missing)?;
    Ok(canonical(net))
}

fn address(object: &Object<'_>, key: &str) -> Result<Option<IpAddr>> {
    let wrong = |error: Error| in_words(error, object, key, "invalid IP address");
    Ok(object.parse::<IpAddr>(key).map_err(wrong)?.map(|address| address.to_canonical()))
}

/// The reference has words for a text that means nothing; for another type it names its own.
fn in_words(error: Error, object: &Object<'_>, key: &str, what: &str) -> Error {
    match object.text(key) {
        Ok(Some(text)) => error.about(Fact::Words(format!("{what}: {text}"))),
        Ok(None) | Err(_) => error,
    }
}

/// An IPv4 address in IPv6 clothes is an IPv4 address, as the reference has it.
fn canonical(net: IpNet) -> IpNet {
    match net.addr().to_canonical() {
        address @ IpAddr::V4(_) if net.addr().is_ipv6() && net.prefix_len() >= 96 => {
            IpNet::new(address, net.prefix_len() - 96).unwrap_or(net)
        }
        _ => net,
    }
}
