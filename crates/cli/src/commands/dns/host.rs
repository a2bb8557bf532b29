//! `spoke dns host`: what this host resolves names with.

use linux::identity::GROUP;
use model::{IfName, Result};
use names::{ServedGateway, reverse_domain};
use netlink::{At, Socket};
use serde::Serialize;

use crate::answer::Answer;
use crate::context::CommandContext;
use crate::output::{Output, render};

/// How names are resolved on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct HostView {
    /// Whether the configuration says that they are.
    enabled: bool,
    /// Whether systemd-resolved runs, which the daemon configures.
    resolved: bool,
    /// Of each network, where its names are asked for.
    networks: Vec<ZoneView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ZoneView {
    network: String,
    domains: Vec<String>,
    servers: Vec<String>,
    port: u16,
    /// The bridge, where it is not Spoke's: the daemon leaves to this host what resolved asks by it.
    adopted: Option<IfName>,
}

pub(super) fn run(
    output: Output,
    places: &[ServedGateway],
    context: &CommandContext,
) -> Result<Answer> {
    let (enabled, networks) = (context.names_host, zones(places)?);
    let resolved = linux::resolved::Resolved::connect()?.is_some();
    let view = HostView { enabled, resolved, networks };
    Ok(Answer::text(render(output, &view, || text(&view))?))
}

fn zones(places: &[ServedGateway]) -> Result<Vec<ZoneView>> {
    let mut route = Socket::route()?;
    let mut zones: Vec<ZoneView> = Vec::new();
    for place in places {
        let network = place.called.to_string();
        let at = zones.iter().position(|zone| zone.network == network).unwrap_or(zones.len());
        if at == zones.len() {
            let (domains, port) = (place.domains(places), linux::filter::fence::NAMES_PORT);
            let (servers, adopted) = (Vec::new(), None);
            zones.push(ZoneView { network, domains, servers, port, adopted });
        }
        let there = route.link(At::Name(&place.bridge))?;
        if let Some(zone) = zones.get_mut(at) {
            zone.domains.extend(reverse_domain(&place.gateway));
            zone.servers.push(place.address().to_string());
            if there.is_some_and(|link| link.group != GROUP) {
                zone.adopted = Some(place.bridge.clone());
            }
        }
    }
    Ok(zones)
}

fn text(view: &HostView) -> String {
    let mut lines = Vec::new();
    if !view.enabled {
        lines.push(
            "This host is not answered. Write into /etc/spoke/config.toml, and restart spoke:",
        );
        lines.push("\n    [names]\n    host = true\n");
    }
    let is_left = |zone: &&ZoneView| !view.resolved || zone.adopted.is_some();
    let servers: Vec<String> = view.networks.iter().filter(is_left).flat_map(dnsmasq).collect();
    if view.resolved {
        lines.push("systemd-resolved runs here: the daemon configures it for each network.");
        if servers.is_empty() {
            return lines.join("\n") + "\n";
        }
        lines.push(
            "It leaves out bridges that Spoke has not made. These lines have dnsmasq ask Spoke about their networks:\n",
        );
    } else {
        lines.push("systemd-resolved does not run here. These lines have dnsmasq ask Spoke:\n");
    }
    lines.extend(servers.iter().map(String::as_str));
    lines.join("\n") + "\n"
}

fn dnsmasq(zone: &ZoneView) -> impl Iterator<Item = String> + '_ {
    let domains = zone.domains.join("/");
    zone.servers.iter().map(move |server| format!("    server=/{domains}/{server}#{}", zone.port))
}
