//! Whether what ADD printed is a result of its version.

use model::IpNet;
use netlink::{At, Netns, Socket};
use serde_json::Value;

use super::super::run::{Run, Step, Stop, fail};

/// "Section 5: Result Types"; of versions before 0.3.0 `ip4` and `ip6`.
pub(super) fn schema(run: &mut Run<'_>) -> Step {
    let holds = |fact: &str| run.vars.get(fact).is_some_and(|holds| !holds.is_empty());
    let (is_new, is_one, is_ipam) = (holds("interfaces"), holds("one"), holds("isipam"));
    let version = run.vars.get("version").cloned().unwrap_or_default();
    let result = &run.last().value;
    let texts = result.get("cniVersion").and_then(Value::as_str).unwrap_or_default();
    // Results of 0.1.0 and 0.2.0 may leave it out.
    if texts != version && (is_new || !texts.is_empty()) {
        return fail(format!("the result's cniVersion is {texts:?}, asked was {version}"));
    }
    if !is_new {
        let address = result.pointer("/ip4/ip").and_then(Value::as_str);
        return match address {
            Some(text) if text.parse::<IpNet>().is_err() => fail(format!("ip4.ip is {text:?}")),
            _ => Ok(()),
        };
    }
    let list = |name: &str| result.get(name).and_then(Value::as_array);
    let interfaces = list("interfaces").map_or(0, Vec::len);
    if interfaces == 0 && !is_ipam {
        return fail("the result names no interfaces");
    }
    for ip in list("ips").into_iter().flatten() {
        let text = ip.get("address").and_then(Value::as_str).unwrap_or_default();
        let Ok(net) = text.parse::<IpNet>() else {
            return fail(format!("the address {text:?} of the result is no CIDR"));
        };
        let family = if net.addr().is_ipv4() { "4" } else { "6" };
        let reported = ip.get("version").and_then(Value::as_str);
        if !is_one && reported != Some(family) {
            return fail(format!("ips of {version} need \"version\": {ip}"));
        }
        let index = ip.get("interface").and_then(Value::as_u64);
        if index.is_some_and(|index| index >= interfaces as u64) {
            return fail(format!("{ip} is of an interface that the result does not list"));
        }
    }
    for route in list("routes").into_iter().flatten() {
        let to = route.get("dst").and_then(Value::as_str).unwrap_or_default();
        if to.parse::<IpNet>().is_err() {
            return fail(format!("the route's dst {to:?} is no subnet"));
        }
    }
    Ok(())
}

/// Whether the interface has the addresses in the result.
pub(super) fn addressed(run: &mut Run<'_>, netns: &str, name: &str) -> Step {
    let value = &run.last().value;
    let reported = value.get("ips").and_then(Value::as_array).into_iter().flatten();
    let reported = reported.filter_map(|ip| ip.get("address")?.as_str()?.parse::<IpNet>().ok());
    let reported: Vec<IpNet> = reported.collect();
    let inspect = || -> model::Result<Vec<IpNet>> {
        let name = name.parse()?;
        Netns::open(netns.as_ref())?.enter(|| {
            let mut socket = Socket::route()?;
            let index = socket.link(At::Name(&name))?.map(|link| link.index);
            let found = socket.addresses(index)?;
            Ok(found.into_iter().map(|found| found.address).collect())
        })?
    };
    let found = inspect().map_err(|error| Stop::Skip(error.to_string()))?;
    match reported.iter().find(|net| !found.contains(net)) {
        Some(net) => fail(format!("{name} has not the address {net} of the result")),
        None => Ok(()),
    }
}
