//! Ports that are published and withdrawn while a container runs.

use std::net::IpAddr;
use std::num::NonZeroU16;

use clap::{Args, Subcommand};
use engine::HostPort;
use model::{LabelFilter, NetworkName, PortMap, Protocol};

use super::connect::published;
use super::label_filter;
use crate::output::Listing;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PortCommand {
    /// Publish a port of a running container
    #[command(
        after_help = "The container goes on running, and so do its connections. The port is the \
        container's from then on: it comes back when a container of the same runtime and name is attached \
        to the same network again, until `spoke port rm` or the network's end.

CONTAINER is what `spoke ps` calls it; RUNTIME:NAME where two runtimes have a container of one name.

Examples:
  spoke port add web 8443:443
  spoke port add podman:web 127.0.0.1:5353:53/udp
  spoke port add --ip 192.0.2.7 --network front web 8443:443"
    )]
    Add(PortAddArgs),
    /// Withdraw a port that `add` published, and forget it
    #[command(
        visible_alias = "remove",
        after_help = "Ports that the container's runtime published stay: only the runtime withdraws \
        them. The container need not be running.

Examples:
  spoke port rm web 8443
  spoke port rm web 8443:443
  spoke port rm web 5353/udp"
    )]
    Rm(PortRmArgs),
    /// List the ports of this host that lead to containers, by every runtime, and those that wait for one
    #[command(
        visible_alias = "list",
        after_help = "FROM says who reaches a port: any (every host that reaches this host's address), lan (the subnets that \
        the host is connected to), or local (this host). BY says who published it: the container's runtime, or \
        `spoke port add`. STATE is published, or waiting: the port was added, and comes back with the container, \
        once the port is free. `spoke ports` is its former name.

Examples:
  spoke port ls
  spoke port ls web
  spoke port ls --network front --format '{{.HostPort}} {{.Name}}'
  spoke port ls -o json"
    )]
    Ls(PortLsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PortAddArgs {
    /// The container
    pub(crate) container: String,
    /// The port of the host and that of the container
    #[arg(value_name = "[IP:]HOST:CONTAINER[/PROTOCOL]", value_parser = plain)]
    pub(crate) port: PortMap,
    /// Only at this address of the host
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<IpAddr>,
    /// Over this network of the container
    #[arg(long)]
    pub(crate) network: Option<NetworkName>,
}

#[derive(Debug, Args)]
pub(crate) struct PortRmArgs {
    /// The container
    pub(crate) container: String,
    /// The port of the host, or both as they were added
    #[arg(value_name = "[IP:]HOST[:CONTAINER][/PROTOCOL]", value_parser = withdrawn)]
    pub(crate) port: HostPort,
    /// Only at this address of the host
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<IpAddr>,
    /// Only over this network of the container
    #[arg(long)]
    pub(crate) network: Option<NetworkName>,
}

#[derive(Debug, Args)]
pub(crate) struct PortLsArgs {
    /// Only this container
    pub(crate) container: Option<String>,
    /// Only this network
    #[arg(long)]
    pub(crate) network: Option<NetworkName>,
    #[command(flatten)]
    pub(crate) listing: Listing,
    /// List only ports of attachments with this label
    #[arg(short, long = "filter", value_name = "label=KEY[=VALUE]", value_parser = label_filter)]
    pub(crate) filters: Vec<LabelFilter>,
}

/// Numbers are digits, and nothing else.
fn plain(text: &str) -> Result<PortMap, String> {
    match text.contains('+') {
        true => Err("a published port is [IP:]HOST:CONTAINER[/PROTOCOL]".to_owned()),
        false => published(text),
    }
}

/// As `port add` reads it, or the port of the host alone.
fn withdrawn(text: &str) -> Result<HostPort, String> {
    host_port(text).or_else(|wrong| match plain(text) {
        Ok(PortMap { host, host_port, container_port, protocol, .. }) => {
            Ok(HostPort { host, port: host_port, protocol, container: Some(container_port) })
        }
        Err(_) => Err(wrong),
    })
}

fn host_port(text: &str) -> Result<HostPort, String> {
    let wrong = || "a port of the host is [IP:]HOST[:CONTAINER][/PROTOCOL]".to_owned();
    let (text, protocol) = match text.rsplit_once('/') {
        Some((text, protocol)) => {
            (text, protocol.parse().map_err(|error: model::Error| error.to_string())?)
        }
        None => (text, Protocol::Tcp),
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            (Some(bare.unwrap_or(host).parse().map_err(|_| wrong())?), port)
        }
        None => (None, text),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port: Option<NonZeroU16> = port.parse().ok().filter(|_| is_number);
    let port = port.ok_or_else(wrong)?;
    Ok(HostPort { host, port, protocol, container: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_the_host_are_read() {
        for (text, shown) in [
            ("8443", "8443/tcp"),
            ("53/udp", "53/udp"),
            ("127.0.0.1:53/udp", "127.0.0.1:53/udp"),
            ("[fd00::1]:443", "[fd00::1]:443/tcp"),
            ("8443:443", "8443:443/tcp"),
            ("127.0.0.1:8443:443/udp", "127.0.0.1:8443:443/udp"),
            ("[fd00::1]:8443:443", "[fd00::1]:8443:443/tcp"),
        ] {
            assert_eq!(withdrawn(text).unwrap().to_string(), shown);
        }
        for wrong in ["", "0", "x", "+80", "80/icmp", "a:80", "70000", "8443:", ":443", "a:1:2"] {
            assert!(withdrawn(wrong).is_err(), "{wrong}");
        }
    }
}
