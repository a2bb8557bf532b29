//! The network driver's calls (libnetwork/docs/remote.md): a bridge for each network, and a pair
//! of devices for each endpoint.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::data::{Data, Endpoint, Network, Port};
use super::manners::Manners;
use super::translation;
use crate::world::output;

type Done = Result<Value, String>;

/// None where there is no such method.
pub(super) fn call(
    manners: &Manners,
    data: &mut Data,
    pid: u32,
    method: &str,
    body: &Value,
) -> Option<Done> {
    let (network, endpoint) = (text(body, "NetworkID"), text(body, "EndpointID"));
    Some(match method {
        "GetCapabilities" => Ok(manners.capabilities()),
        "GwAllocCheck" => {
            let (v4, v6) = manners.gateway_check?;
            Ok(json!({"SkipIPv4": v4, "SkipIPv6": v6}))
        }
        "CreateNetwork" => create_network(data, pid, network, body)
            .and_then(|answer| translate(manners, data, pid).map(|()| answer)),
        "DeleteNetwork" => {
            let answer = delete_network(data, pid, network);
            translate(manners, data, pid).map(|()| answer)
        }
        "CreateEndpoint" => create_endpoint(manners, data, network, endpoint, body),
        "EndpointOperInfo" => known(data, endpoint).map(|()| json!({"Value": manners.info})),
        "DeleteEndpoint" => Ok(delete_endpoint(data, pid, endpoint)),
        "Join" => join(manners, data, pid, endpoint),
        "Leave" => Ok(leave(data, endpoint)),
        "ProgramExternalConnectivity" | "RevokeExternalConnectivity" if !manners.external => {
            return None;
        }
        "ProgramExternalConnectivity" => program(manners, data, pid, endpoint, body),
        "RevokeExternalConnectivity" => {
            if let Some(endpoint) = data.endpoints.get_mut(endpoint) {
                endpoint.ports.clear();
            }
            translate(manners, data, pid).map(|()| json!({}))
        }
        "DiscoverNew" | "DiscoverDelete" => Ok(json!({})),
        "AllocateNetwork" => Ok(json!({"Options": {}})),
        "FreeNetwork" => Ok(json!({})),
        _ => return None,
    })
}

fn program(manners: &Manners, data: &mut Data, pid: u32, id: &str, body: &Value) -> Done {
    known(data, id)?;
    let ports = translation::ports(body);
    let taken = data.endpoints.iter().filter(|(other, _)| *other != id);
    let mut taken = taken.flat_map(|(_, endpoint)| &endpoint.ports);
    let clashes = |port: &Port| ports.iter().any(|new| new.is_like(port));
    if let Some(port) = taken.find(|port| clashes(port)) {
        return Err(format!("port {} is published already", port.host_port));
    }
    if let Some(endpoint) = data.endpoints.get_mut(id) {
        if !endpoint.ports.is_empty() {
            data.complaints.push(format!("ProgramExternalConnectivity {id} twice"));
        }
        endpoint.ports = ports;
    }
    translate(manners, data, pid).map(|()| json!({}))
}

fn translate(manners: &Manners, data: &Data, pid: u32) -> Result<(), String> {
    if manners.translates { translation::write(data, pid) } else { Ok(()) }
}

fn text<'b>(body: &'b Value, key: &str) -> &'b str {
    body[key].as_str().unwrap_or_default()
}

fn known(data: &Data, endpoint: &str) -> Result<(), String> {
    let known = data.endpoints.contains_key(endpoint);
    known.then_some(()).ok_or_else(|| format!("no endpoint {endpoint}"))
}

/// The device that an endpoint's container gets.
pub(super) fn source(endpoint: &str) -> String {
    format!("rs{}", short(endpoint))
}

fn bridge(network: &str) -> String {
    format!("rb{}", short(network))
}

fn outer(endpoint: &str) -> String {
    format!("rv{}", short(endpoint))
}

fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

/// The names of the host's devices.
pub(super) fn devices(pid: u32) -> Vec<String> {
    let listed = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Several commands of `ip`, one a line, in the host's network namespace.
fn ip(pid: u32, steps: &str) -> Result<(), String> {
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string(), "--net", "--", "ip", "-batch", "-"]);
    let done = output(&mut command, steps);
    if done.status == 0 { Ok(()) } else { Err(done.stderr.trim().to_owned()) }
}

fn create_network(data: &mut Data, pid: u32, id: &str, body: &Value) -> Done {
    if data.networks.contains_key(id) {
        return Err(format!("network {id} exists"));
    }
    let pools = ["IPv4Data", "IPv6Data"].iter().filter_map(|key| body[*key].as_array()).flatten();
    let gateways: Vec<&str> = pools.filter_map(|pool| pool["Gateway"].as_str()).collect();
    let bridge = bridge(id);
    // A bridge without an address of its own takes its ports', and a neighbour that knows the last one loses it.
    let address = address(data.networks.len());
    let mut steps = format!("link add {bridge} address {address} type bridge\n");
    steps += &format!("link set {bridge} up\n");
    for gateway in &gateways {
        let nodad = if gateway.contains(':') { " nodad" } else { "" };
        steps += &format!("address add {gateway} dev {bridge}{nodad}\n");
    }
    if let Err(text) = ip(pid, &steps) {
        let _ = ip(pid, &format!("link delete {bridge}\n"));
        return Err(text);
    }
    let subnets = gateways.iter().filter(|gateway| !gateway.contains(':'));
    let subnets = subnets.map(|gateway| (*gateway).to_owned()).collect();
    let alone = |gateway: &str| gateway.split('/').next().unwrap_or_default().to_owned();
    let gateways = gateways.into_iter().map(alone).collect();
    let internal = body["Options"]["com.docker.network.internal"] == true;
    data.networks.insert(id.to_owned(), Network { gateways, subnets, internal });
    Ok(json!({}))
}

/// A hardware address for the bridge of the network after `count` others.
fn address(count: usize) -> String {
    format!("02:b0:00:00:{:02x}:{:02x}", count >> 8 & 0xff, count & 0xff)
}

fn delete_network(data: &mut Data, pid: u32, id: &str) -> Value {
    if data.endpoints.values().any(|endpoint| endpoint.network == id) {
        data.complain(format!("DeleteNetwork {id} with endpoints"));
    }
    if data.networks.remove(id).is_some() {
        let _ = ip(pid, &format!("link delete {}\n", bridge(id)));
    }
    json!({})
}

fn create_endpoint(
    manners: &Manners,
    data: &mut Data,
    network: &str,
    id: &str,
    body: &Value,
) -> Done {
    if !data.networks.contains_key(network) {
        return Err(format!("no network {network}"));
    }
    if data.endpoints.contains_key(id) {
        return Err(format!("endpoint {id} exists"));
    }
    let given = &body["Interface"];
    let lacks = |key: &str| given[key].as_str().unwrap_or_default().is_empty();
    let mut answer = json!({});
    if lacks("MacAddress") && manners.makes_mac {
        let octet = |at: usize| id.get(at..at + 2).unwrap_or("00").to_owned();
        let mac = format!("02:99:{}:{}:{}:{}", octet(0), octet(2), octet(4), octet(6));
        answer["Interface"]["MacAddress"] = mac.into();
    }
    let reported = given["Address"].as_str().filter(|address| !address.is_empty());
    let own = manners.own.get(data.own).filter(|_| lacks("Address") && lacks("AddressIPv6"));
    let address = reported.or(own.map(String::as_str)).filter(|address| !address.contains(':'));
    let address = address.and_then(|net| net.split('/').next()).map(str::to_owned);
    if let Some(own) = own {
        let key = if own.contains(':') { "AddressIPv6" } else { "Address" };
        answer["Interface"][key] = own.as_str().into();
        data.own += 1;
    }
    let endpoint =
        Endpoint { network: network.to_owned(), joined: false, address, ports: Vec::new() };
    data.endpoints.insert(id.to_owned(), endpoint);
    Ok(answer)
}

fn delete_endpoint(data: &mut Data, pid: u32, id: &str) -> Value {
    let Some(endpoint) = data.endpoints.remove(id) else { return json!({}) };
    if endpoint.joined {
        data.complain(format!("DeleteEndpoint {id} before Leave"));
    }
    let _ = ip(pid, &format!("link delete {}\n", outer(id)));
    json!({})
}

fn join(manners: &Manners, data: &mut Data, pid: u32, id: &str) -> Done {
    let Some(endpoint) = data.endpoints.get_mut(id) else {
        return Err(format!("no endpoint {id}"));
    };
    if endpoint.joined {
        return Err(format!("endpoint {id} is joined"));
    }
    let (outer, source, bridge) = (outer(id), source(id), bridge(&endpoint.network));
    let there = devices(pid).contains(&outer);
    let make = format!("link add {outer} type veth peer name {source}\n");
    let plug = format!("link set {outer} master {bridge} up\n");
    let steps = if there { plug } else { make + &plug };
    ip(pid, &steps)?;
    endpoint.joined = true;
    let name = json!({"SrcName": source, "DstPrefix": manners.prefix});
    let mut answer = json!({"InterfaceName": name, "StaticRoutes": manners.routes()});
    let network = data.networks.get(&endpoint.network);
    let network = network.filter(|network| manners.gateway && !network.internal);
    for gateway in network.into_iter().flat_map(|network| &network.gateways) {
        let key = if gateway.contains(':') { "GatewayIPv6" } else { "Gateway" };
        answer[key] = gateway.as_str().into();
    }
    if manners.no_gateway_service {
        answer["DisableGatewayService"] = true.into();
    }
    Ok(answer)
}

fn leave(data: &mut Data, id: &str) -> Value {
    if let Some(endpoint) = data.endpoints.get_mut(id) {
        endpoint.joined = false;
    }
    json!({})
}
