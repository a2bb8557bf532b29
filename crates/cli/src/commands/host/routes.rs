//! `spoke host routes`: which host has which addresses, also for routers.

use std::fmt::Write;
use std::net::IpAddr;

use host::hosts::HostRoute;
use model::Result;

use crate::answer::Answer;
use crate::output::table::Table;
use crate::output::{Output, render};

pub(super) fn answer(routes: &[HostRoute], output: Output) -> Result<Answer> {
    let text = match output {
        Output::Frr => frr(routes),
        Output::Bird => bird(routes),
        Output::Table | Output::Json | Output::Yaml => render(output, &routes, || table(routes))?,
    };
    Ok(Answer::text(text))
}

fn table(routes: &[HostRoute]) -> String {
    let mut table = Table::new(&["NETWORK", "ADDRESSES", "HOST", "VIA"]);
    for route in routes {
        let (network, host) = (route.network.to_string(), route.host.to_string());
        let via = hop(route).unwrap_or_else(|| "-".to_owned());
        table.row([network, route.net.to_string(), host, via]);
    }
    table.text()
}

/// The next hop, as ip(8) names one of a link.
fn hop(route: &HostRoute) -> Option<String> {
    let via = route.via?;
    Some(match &route.device {
        Some(device) => format!("{via}%{device}"),
        None => via.to_string(),
    })
}

/// Static routes as `vtysh` reads them.
fn frr(routes: &[HostRoute]) -> String {
    let mut text = String::new();
    for route in routes {
        let word = if route.net.addr().is_ipv4() { "ip" } else { "ipv6" };
        let about = format!("network {} on host {}", route.network, route.host);
        let Some(via) = route.via else {
            let _ = writeln!(text, "! {about}: {} has no next hop", route.net);
            continue;
        };
        let device = route.device.iter().map(|it| format!(" {it}")).collect::<String>();
        let _ = writeln!(text, "! {about}\n{word} route {} {via}{device}", route.net);
    }
    text
}

/// A protocol for each family, as BIRD 2 reads them.
fn bird(routes: &[HostRoute]) -> String {
    let mut text = String::new();
    for (name, channel, is_v6) in [("spoke4", "ipv4", false), ("spoke6", "ipv6", true)] {
        let mut of = routes.iter().filter(|route| route.net.addr().is_ipv6() == is_v6).peekable();
        if of.peek().is_none() {
            continue;
        }
        let _ = writeln!(text, "protocol static {name} {{\n\t{channel};");
        for route in of {
            let about = format!("network {} on host {}", route.network, route.host);
            match route.via.and_then(|_| hop(route)) {
                Some(hop) => {
                    let device = route.device.as_ref().zip(route.via);
                    let via = match device {
                        Some((device, IpAddr::V6(via))) => format!("{via}%'{device}'"),
                        Some(_) | None => hop,
                    };
                    let _ = writeln!(text, "\troute {} via {via};  # {about}", route.net);
                }
                None => {
                    let _ = writeln!(text, "\t# {about}: {} has no next hop", route.net);
                }
            }
        }
        text.push_str("}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(net: &str, via: Option<&str>, device: Option<&str>) -> HostRoute {
        HostRoute {
            network: "front".parse().unwrap(),
            net: net.parse().unwrap(),
            host: "b".parse().unwrap(),
            via: via.map(|it| it.parse().unwrap()),
            device: device.map(|it| it.parse().unwrap()),
        }
    }

    #[test]
    fn each_program_has_its_own_words() {
        let routes = [
            route("10.64.1.0/24", Some("192.0.2.2"), None),
            route("fd00:64::/72", Some("fe80::2"), Some("eth0")),
            route("fd00:65::/72", None, None),
        ];
        assert_eq!(
            frr(&routes),
            "! network front on host b\nip route 10.64.1.0/24 192.0.2.2\n\
             ! network front on host b\nipv6 route fd00:64::/72 fe80::2 eth0\n\
             ! network front on host b: fd00:65::/72 has no next hop\n"
        );
        let said = bird(&routes);
        assert!(said.contains("\troute 10.64.1.0/24 via 192.0.2.2;"), "{said}");
        assert!(said.contains("\troute fd00:64::/72 via fe80::2%'eth0';"), "{said}");
        assert_eq!(bird(&routes[..1]).matches("protocol").count(), 1);
    }
}
