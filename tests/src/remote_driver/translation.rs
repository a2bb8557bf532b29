//! Published ports and the way out, in the host's packet filter: one table for the whole driver,
//! written anew whenever something changes. IPv4 only.

use std::fmt::Write;
use std::process::Command;

use serde_json::Value;

use super::data::{Data, Port};
use crate::world::output;

/// The ports of a ProgramExternalConnectivity, as engines name them.
pub(super) fn ports(body: &Value) -> Vec<Port> {
    let listed = body["Options"]["com.docker.network.portmap"].as_array();
    let port = |said: &Value| Port {
        protocol: if said["Proto"] == 17 { "udp" } else { "tcp" },
        host: said["HostIP"].as_str().filter(|host| host.parse().is_ok_and(is_one)).map(Into::into),
        host_port: said["HostPort"].as_u64().unwrap_or_default(),
        port: said["Port"].as_u64().unwrap_or_default(),
    };
    listed.into_iter().flatten().filter(|said| is_ipv4(said)).map(port).collect()
}

fn is_one(host: std::net::Ipv4Addr) -> bool {
    !host.is_unspecified()
}

fn is_ipv4(said: &Value) -> bool {
    !said["HostIP"].as_str().is_some_and(|host| host.contains(':'))
}

/// Writes the table for what is held now; none is left where nothing is.
pub(super) fn write(data: &Data, pid: u32) -> Result<(), String> {
    let mut script = String::from("table ip probe\ndelete table ip probe\n");
    if !data.networks.is_empty() {
        script += &table(data);
    }
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string(), "--net", "--", "nft", "-f", "-"]);
    let done = output(&mut command, &script);
    if done.status == 0 { Ok(()) } else { Err(done.stderr.trim().to_owned()) }
}

fn table(data: &Data) -> String {
    let mut rules = String::new();
    for endpoint in data.endpoints.values() {
        let Some(to) = &endpoint.address else { continue };
        for Port { protocol, host, host_port, port } in &endpoint.ports {
            let at = host.as_ref().map(|host| format!("ip daddr {host} ")).unwrap_or_default();
            let _ = writeln!(
                rules,
                "fib daddr type local {at}{protocol} dport {host_port} dnat to {to}:{port}"
            );
        }
    }
    let mut out = String::new();
    for subnet in data.networks.values().flat_map(|network| &network.subnets) {
        let _ = writeln!(out, "ip saddr {subnet} ip daddr != {subnet} masquerade");
    }
    format!(
        "table ip probe {{
        chain in {{ type nat hook prerouting priority -100; {rules} }}
        chain here {{ type nat hook output priority -100; {rules} }}
        chain out {{ type nat hook postrouting priority 100; {out} }}
        }}\n",
        rules = rules.replace('\n', "; "),
        out = out.replace('\n', "; ")
    )
}
