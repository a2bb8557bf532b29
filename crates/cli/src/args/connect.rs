//! Arguments of a connection of a sandbox.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use clap::Args;
use model::{
    ContainerId, Fence, HostName, IfName, Label, LinkLocal, Mac, NetworkName, PortMap, Protocol,
    ResolverOption, SearchDomain,
};

use super::create::pair;

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The network
    #[arg(value_name = "NETWORK")]
    pub(crate) network: NetworkName,
    /// The network namespace: a path, a name below /run/netns, or a process's id; with --tap the
    /// machine's name
    #[arg(value_name = "SANDBOX")]
    pub(crate) sandbox: String,
    #[command(flatten)]
    pub(crate) tap: TapArgs,
    #[command(flatten)]
    pub(crate) joined: JoinedArgs,
    #[command(flatten)]
    pub(crate) made: MadeArgs,
}

// The device of a virtual machine.
#[derive(Debug, Args)]
pub(crate) struct TapArgs {
    /// Connect a virtual machine: make a tap device, on which `spoke serve` answers DHCP
    #[arg(long, conflicts_with_all = ["container", "ifname", "gw_priority"])]
    pub(crate) tap: bool,
    /// The user that may open the device besides root: a name or a number
    #[arg(long = "tap-owner", value_name = "USER", requires = "tap")]
    pub(crate) owner: Option<String>,
    /// The group that may open it
    #[arg(long = "tap-group", value_name = "GROUP", requires = "tap")]
    pub(crate) group: Option<String>,
    /// Create a device with several queues; its program must open it with IFF_MULTI_QUEUE
    #[arg(long = "tap-queues", requires = "tap")]
    pub(crate) queues: bool,
}

// The arguments of a join.
#[derive(Debug, Args)]
pub(crate) struct JoinedArgs {
    /// The container's name here; the namespace's name or the process's id unless given
    #[arg(long, value_name = "ID")]
    pub(crate) container: Option<ContainerId>,
    /// Priority of this network for the container's default route; the greatest wins
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) gw_priority: i32,
    /// The interface's name in the container; the network's prefix and a number unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) ifname: Option<IfName>,
}

// The properties of an endpoint in any sandbox.
#[derive(Debug, Args)]
pub(crate) struct MadeArgs {
    /// An IPv4 address to have
    #[arg(long, value_name = "IP")]
    pub(crate) ip: Option<Ipv4Addr>,
    /// An IPv6 address to have
    #[arg(long, value_name = "IP")]
    pub(crate) ip6: Option<Ipv6Addr>,
    /// A link-local address to have besides, of 169.254.0.0/16 or fe80::/10
    #[arg(long = "link-local-ip", value_name = "IP", value_parser = quoted::<LinkLocal>)]
    pub(crate) link_local: Vec<LinkLocal>,
    /// Names of the container on the network besides its own name
    #[arg(long = "alias", value_name = "NAME", value_parser = quoted::<HostName>)]
    pub(crate) names: Vec<HostName>,
    /// A server that resolves names for the namespace; the network's, or else this host's, unless given
    #[arg(long = "dns", value_name = "IP", value_parser = server)]
    pub(crate) dns: Vec<IpAddr>,
    /// A domain in which it searches names; . for none
    #[arg(long, value_name = "DOMAIN", value_parser = quoted::<SearchDomain>)]
    pub(crate) dns_search: Vec<SearchDomain>,
    /// An option of its resolver, as in resolv.conf(5)
    #[arg(long, value_name = "OPTION", value_parser = quoted::<ResolverOption>)]
    pub(crate) dns_option: Vec<ResolverOption>,
    /// The interface's hardware address
    #[arg(long, value_name = "MAC")]
    pub(crate) mac_address: Option<Mac>,
    /// Where it may go, instead of what the network says: names, addresses and subnets with ports,
    /// between commas; or none
    #[arg(long, value_name = "RULES", value_parser = quoted::<Fence>)]
    pub(crate) egress: Option<Fence>,
    /// While another program has flushed the packet filter, let nothing leave the whole network
    #[arg(long, requires = "egress")]
    pub(crate) egress_strict: bool,
    /// An option of the endpoint for the network's Docker plugin
    #[arg(long = "driver-opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) driver_options: Vec<(String, String)>,
    /// A port of this host that leads to one of the container: `[IP:]HOST:CONTAINER[/PROTOCOL]`
    #[arg(short, long, value_name = "PORT", value_parser = published)]
    pub(crate) publish: Vec<PortMap>,
    /// A port that the container serves, without one of this host: PORT[/PROTOCOL]
    #[arg(long, value_name = "PORT", value_parser = exposed)]
    pub(crate) expose: Vec<(Protocol, NonZeroU16)>,
    /// A label; `spoke ps --filter label=KEY` finds it
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = quoted::<Label>)]
    pub(crate) labels: Vec<Label>,
}

#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// The network
    #[arg(value_name = "NETWORK")]
    pub(crate) network: NetworkName,
    /// The container, as it was connected; its namespace need not be there
    #[arg(value_name = "CONTAINER")]
    pub(crate) container: ContainerId,
    /// Succeed also if it is not connected
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Parses a value whose error explains itself.
pub(super) fn quoted<T: std::str::FromStr<Err = model::Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: model::Error| error.to_string())
}

/// An address that no packet reaches never answers.
fn server(text: &str) -> Result<IpAddr, String> {
    let given = model::text::shown(text);
    match text.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address),
        Ok(_) => Err(format!("{given} is no unicast address")),
        Err(_) => Err(format!("'{given}' is no address")),
    }
}

pub(crate) fn published(text: &str) -> Result<PortMap, String> {
    let wrong = || "a published port is [IP:]HOST:CONTAINER[/PROTOCOL]".to_owned();
    let (ports, container) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (protocol, container_port) = exposed(container)?;
    let (host, port) = match ports.rsplit_once(':') {
        Some((host, port)) => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bare.unwrap_or(host);
            (Some(host.parse().map_err(|_| format!("{host:?} is no address"))?), port)
        }
        None => (None, ports),
    };
    let host_port = port.parse().map_err(|_| no_port(port))?;
    Ok(PortMap { host, host_port, container_port, protocol })
}

pub(crate) fn exposed(text: &str) -> Result<(Protocol, NonZeroU16), String> {
    let (port, protocol) = match text.split_once('/') {
        Some((port, protocol)) => {
            (port, protocol.parse().map_err(|e: model::Error| e.to_string())?)
        }
        None => (text, Protocol::Tcp),
    };
    let port = port.parse().map_err(|_| no_port(port))?;
    Ok((protocol, port))
}

fn no_port(text: &str) -> String {
    format!("{text:?} is no port: they are 1 to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_port_says_which_part_is_wrong() {
        for (text, wrong) in [
            ("70000:80", "\"70000\" is no port"),
            ("0:80", "\"0\" is no port"),
            ("80:a", "\"a\" is no port"),
            ("1.2.3:80:80", "\"1.2.3\" is no address"),
            ("80", "a published port is [IP:]HOST:CONTAINER"),
        ] {
            let error = published(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for wrong in ["", "x", "0.0.0.0", "::", "224.0.0.1", "1.1.1.1\nsearch x", "fe80::1%eth0"] {
            assert!(server(wrong).is_err(), "{wrong:?}");
        }
        assert!(server("127.0.0.1").is_ok() && server("fd00::53").is_ok());
    }

    #[test]
    fn ports_are_read_as_docker_writes_them() {
        for (text, shown) in [
            ("8080:80", "8080->80/tcp"),
            ("127.0.0.1:53:53/udp", "127.0.0.1:53->53/udp"),
            ("[fd00::1]:443:8443", "[fd00::1]:443->8443/tcp"),
        ] {
            assert_eq!(published(text).unwrap().to_string(), shown);
        }
        for wrong in ["80", "0:80", "80:0", "x:80:80", "80:80/icmp", "70000:80"] {
            assert!(published(wrong).is_err(), "{wrong}");
        }
    }
}
