//! The IPAM driver's calls (libnetwork/docs/ipam.md).

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::data::{Data, Pool};
use super::manners::Manners;
use super::range::Range;

type Done = Result<Value, String>;

/// None where there is no such method.
pub(super) fn call(manners: &Manners, data: &mut Data, method: &str, body: &Value) -> Option<Done> {
    Some(match method {
        "GetCapabilities" => Ok(json!({
            "RequiresMACAddress": manners.requires_mac,
            "RequiresRequestReplay": manners.replay,
        })),
        "GetDefaultAddressSpaces" => Ok(json!({
            "LocalDefaultAddressSpace": "here",
            "GlobalDefaultAddressSpace": "everywhere",
        })),
        "RequestPool" => request_pool(manners, data, body),
        "ReleasePool" => Ok(release_pool(data, text(body, "PoolID"))),
        "RequestAddress" => request_address(manners, data, body),
        "ReleaseAddress" => release_address(data, text(body, "PoolID"), text(body, "Address")),
        _ => return None,
    })
}

fn text<'b>(body: &'b Value, key: &str) -> &'b str {
    body[key].as_str().unwrap_or_default()
}

fn request_pool(manners: &Manners, data: &mut Data, body: &Value) -> Done {
    let (space, pool, part) =
        (text(body, "AddressSpace"), text(body, "Pool"), text(body, "SubPool"));
    if space.is_empty() {
        data.complain(format!("RequestPool without an address space: {body}"));
    }
    let range = match (pool, part) {
        ("", "") => any(manners, data, body["V6"] == true)?,
        ("", _) => return Err("a part without its pool".into()),
        (pool, _) => Range::parse(pool)?,
    };
    let part = if part.is_empty() { range } else { Range::parse(part)? };
    let id = match part == range {
        true => format!("{space}|{range}"),
        false => format!("{space}|{range}|{part}"),
    };
    let fresh = Pool { range, part, references: 0, taken: BTreeSet::new() };
    data.pools.entry(id.clone()).or_insert(fresh).references += 1;
    Ok(json!({"PoolID": id, "Pool": range.to_string(), "Data": manners.pool_data}))
}

/// A free pool of its own choice.
fn any(manners: &Manners, data: &mut Data, v6: bool) -> Result<Range, String> {
    let given = manners.pools.iter().filter_map(|pool| Range::parse(pool).ok());
    let given: Vec<Range> = given.filter(|range| range.is_v6() == v6).collect();
    let used = |range: &Range| data.pools.values().any(|pool| pool.range == *range);
    if let Some(range) = given.into_iter().find(|range| !used(range)) {
        return Ok(range);
    }
    data.made_up += 1;
    let n = data.made_up;
    Range::parse(&if v6 { format!("fd00:200:{n:x}::/64") } else { format!("10.200.{n}.0/24") })
}

fn release_pool(data: &mut Data, id: &str) -> Value {
    let Some(pool) = data.pools.get_mut(id) else { return json!({}) };
    pool.references -= 1;
    if pool.references == 0 {
        let held: Vec<_> = pool.taken.iter().map(ToString::to_string).collect();
        data.pools.remove(id);
        if !held.is_empty() {
            data.complain(format!("ReleasePool {id} with {}", held.join(" ")));
        }
    }
    json!({})
}

fn request_address(manners: &Manners, data: &mut Data, body: &Value) -> Done {
    let id = text(body, "PoolID");
    let kind = &body["Options"]["RequestAddressType"];
    let mac = &body["Options"]["com.docker.network.endpoint.macaddress"];
    let Some(pool) = data.pools.get_mut(id) else { return Err(format!("no pool {id}")) };
    let wanted = text(body, "Address");
    let address = match wanted {
        "" => free(pool).ok_or_else(|| manners.exhausted.clone())?,
        wanted => wanted.parse::<IpAddr>().map_err(|_| format!("no address: {wanted}"))?,
    };
    if !pool.range.contains(address) {
        return Err(format!("requested address {address} is out of range"));
    }
    if !pool.taken.insert(address) {
        return Err(format!("address {address} is already allocated"));
    }
    let length = pool.range.length;
    let for_endpoint = wanted.is_empty() && kind.is_null();
    if manners.requires_mac && for_endpoint && !mac.is_string() {
        data.complain(format!("RequestAddress without a hardware address: {body}"));
    }
    Ok(json!({"Address": format!("{address}/{length}"), "Data": {}}))
}

/// The lowest free one, but for those with a meaning of their own.
fn free(pool: &Pool) -> Option<IpAddr> {
    let (first, last) = pool.range.ends();
    let special =
        |address: &IpAddr| pool.range.is_wide() && (*address == first || *address == last);
    pool.part.addresses().find(|address| !special(address) && !pool.taken.contains(address))
}

fn release_address(data: &mut Data, id: &str, address: &str) -> Done {
    let parsed: IpAddr = address.parse().map_err(|_| format!("no address: {address}"))?;
    if let Some(pool) = data.pools.get_mut(id) {
        pool.taken.remove(&parsed);
    }
    Ok(json!({}))
}
