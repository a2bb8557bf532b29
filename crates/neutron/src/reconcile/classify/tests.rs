//! Whose a port is, by what is known.

use serde_json::{Value, json};

use super::*;
use crate::contract::{EXISTING_PORT, PORT_NAME};

const DEVICE: &str = "286eddb51ebca09339cb17aaec05e48ffe60659ced6f3fc41b020b0eb506d364";
const OTHER: &str = "386eddb51ebca09339cb17aaec05e48ffe60659ced6f3fc41b020b0eb506d364";

fn port(changes: Value) -> PortResource {
    let mut body = json!({
        "id": "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f", "network_id": "n",
        "mac_address": "fa:16:3e:00:00:01", "name": PORT_NAME, "device_owner": OWNER,
        "binding:host_id": "node", "revision_number": 3, "tags": [OWNER],
    });
    for (key, value) in changes.as_object().unwrap() {
        body[key] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

fn classified(facts: &Facts, changes: Value) -> Verdict {
    let host = HostId::try_from("node".to_owned()).unwrap();
    let now = UNIX_EPOCH + Duration::from_secs(0x1000);
    let lent = BTreeMap::from([
        ("lent-1".parse().unwrap(), Some(now - Duration::from_secs(61))),
        ("lent-2".parse().unwrap(), Some(now - Duration::from_secs(5))),
    ]);
    let shelved = BTreeSet::from(["ready-1".parse().unwrap()]);
    let allocated = BTreeSet::from(["handed-1".parse().unwrap()]);
    Classifier { host: &host, facts, is_kept: true, shelved, lent, allocated, now }
        .port(&port(changes))
}

fn fate(verdict: &Verdict) -> Option<Fate> {
    match verdict {
        Verdict::Orphan(_, fate) => Some(*fate),
        _ => None,
    }
}

#[test]
fn what_is_not_ours_is_foreign() {
    let facts = Facts::default();
    let halves = contract::id_tags(OTHER);
    for changes in [
        json!({ "tags": [], "device_owner": "compute:nova" }),
        json!({ "tags": [] }),
        json!({ "name": "my-port" }),
        json!({ "binding:host_id": "other" }),
        json!({ "binding:host_id": "" }),
        json!({ "tags": [OWNER, EXISTING_PORT] }),
        json!({ "description": "spoke:other:request-0000000100", "binding:host_id": "node" }),
        json!({ "description": format!("spoke:node:{OTHER}"), "binding:host_id": "other" }),
        json!({ "description": format!("spoke:node:{OTHER}"), "device_owner": "network:dhcp" }),
        json!({ "description": "the operator's", "tags": halves }),
    ] {
        assert_eq!(classified(&facts, changes.clone()), Verdict::Foreign, "{changes}");
    }
}

#[test]
fn what_anybody_knows_is_known() {
    let facts = Facts {
        ports: BTreeSet::from(["known".parse().unwrap()]),
        devices: BTreeSet::from([DEVICE.to_owned()]),
        links: BTreeSet::from(["tap0f2c8d5e-6a".to_owned()]),
        ..Facts::default()
    };
    let request = "spoke:node:request-0000000100";
    for changes in [
        json!({ "id": "known", "description": request }),
        json!({ "id": "ready-1", "description": "spoke:node:stock-0" }),
        json!({ "id": "handed-1", "description": request }),
        json!({ "id": "x", "device_id": DEVICE }),
        json!({ "description": format!("spoke:node:{DEVICE}") }),
        json!({ "description": request, "tags": contract::id_tags(DEVICE) }),
        // Another kuryr's, whose device is there.
        json!({ "device_id": OTHER }),
    ] {
        assert_eq!(classified(&facts, changes.clone()), Verdict::Known, "{changes}");
    }
}

#[test]
fn the_rest_has_no_owner() {
    let facts = Facts { is_asked: true, ..Facts::default() };
    let stock = format!("spoke:node:stock-{}", "0".repeat(32));
    for (changes, expected) in [
        (json!({ "device_id": OTHER }), Some(Fate::Delete)),
        (json!({ "description": format!("spoke:node:{OTHER}") }), Some(Fate::Delete)),
        (
            json!({ "description": format!("spoke:node:{OTHER}"), "binding:host_id": "" }),
            Some(Fate::Delete),
        ),
        (
            json!({ "description": format!("spoke:node:{OTHER}"), "device_owner": SUBPORT,
                    "binding:host_id": "the-machine-below" }),
            Some(Fate::Delete),
        ),
        (
            json!({ "description": "spoke:node:request-0000000100ffffffffffffffff" }),
            Some(Fate::Delete),
        ),
        // Thirty seconds ago; and in the future.
        (json!({ "description": "spoke:node:request-00000fe2ffffffffffffffff" }), Some(Fate::Wait)),
        (json!({ "description": "spoke:node:request-0000ffffffffffffffffffff" }), Some(Fate::Wait)),
        (json!({ "description": "spoke:node:request-x" }), Some(Fate::Wait)),
        (json!({ "description": "spoke:node:auxiliary-00000001" }), Some(Fate::OnlyIfForced)),
        (json!({ "id": "lent-1", "description": stock }), Some(Fate::Stock)),
        (json!({ "id": "lent-2", "description": stock }), Some(Fate::Wait)),
        (json!({ "description": stock, "device_id": OTHER }), Some(Fate::Delete)),
        (json!({ "description": stock, "tags": contract::id_tags(OTHER) }), Some(Fate::Delete)),
        (json!({ "description": stock }), None),
    ] {
        let verdict = classified(&facts, changes.clone());
        assert_eq!(fate(&verdict), expected, "{changes}: {verdict:?}");
        assert!(expected.is_some() || verdict == Verdict::Ready, "{verdict:?}");
    }
}

#[test]
fn what_keeps_an_address_back_goes_with_its_network() {
    let host = HostId::try_from("node".to_owned()).unwrap();
    let once = network_use(&host, &OTHER.parse().unwrap());
    let mark = crate::cloud::auxiliary_mark(&host, Some(&once)).to_string();
    let auxiliary = json!({ "description": mark, "device_owner": "", "tags": [] });
    let of = |ids: &[&str]| -> BTreeSet<String> { ids.iter().map(|id| (*id).into()).collect() };
    for (aliases, listed, expected) in [
        (of(&[]), None, Some(Fate::OnlyIfForced)),
        (of(&[DEVICE]), Some(of(&[DEVICE])), Some(Fate::Delete)),
        (of(&[OTHER]), None, None),
        (of(&[]), Some(of(&[OTHER])), None),
    ] {
        let facts = Facts { aliases, listed, ..Facts::default() };
        let verdict = classified(&facts, auxiliary.clone());
        assert_eq!(fate(&verdict), expected, "{facts:?}: {verdict:?}");
        assert!(expected.is_some() || verdict == Verdict::Known, "{verdict:?}");
    }
}

#[test]
fn what_is_ready_goes_where_no_stock_is_kept() {
    let host = HostId::try_from("node".to_owned()).unwrap();
    let facts = Facts::default();
    let classify = Classifier {
        host: &host,
        facts: &facts,
        is_kept: false,
        shelved: BTreeSet::new(),
        lent: BTreeMap::new(),
        allocated: BTreeSet::new(),
        now: UNIX_EPOCH,
    };
    let stock = format!("spoke:node:stock-{}", "0".repeat(32));
    let verdict = classify.port(&port(json!({ "description": stock })));
    assert_eq!(fate(&verdict), Some(Fate::Delete), "{verdict:?}");
}

#[test]
fn groups_and_floating_ips_go_with_their_port() {
    let host = HostId::try_from("node".to_owned()).unwrap();
    let ports = BTreeSet::from(["known".parse().unwrap()]);
    let facts = Facts { ports, ..Facts::default() };
    let (shelved, lent, allocated) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let (is_kept, now) = (true, UNIX_EPOCH);
    let classify =
        Classifier { host: &host, facts: &facts, is_kept, shelved, lent, allocated, now };
    let group = |description: &str| -> SecurityGroup {
        serde_json::from_value(json!({ "id": "g", "description": description })).unwrap()
    };
    let known = BTreeSet::from(["begun".parse().unwrap()]);
    assert!(classify.group(&group("spoke:node:exposed-gone"), &known).is_some());
    for other in [
        "spoke:node:exposed-known",
        "spoke:node:exposed-begun",
        "spoke:other:exposed-gone",
        "spoke:node:x",
        "",
    ] {
        assert!(classify.group(&group(other), &known).is_none(), "{other}");
    }
    let ip = |description: &str, port: &str| -> FloatingIp {
        let mut body = json!({ "id": "f", "floating_ip_address": "192.0.2.1",
                               "description": description });
        if !port.is_empty() {
            body["port_id"] = json!(port);
        }
        serde_json::from_value(body).unwrap()
    };
    let classified = |description, port| classify.floating_ip(&ip(description, port), &known);
    assert!(classified("spoke:node:floating-gone", "gone").is_some());
    assert!(classified("spoke:node:floating-known", "known").is_none());
    assert!(classified("spoke:node:floating-begun", "begun").is_none());
    assert!(classified("spoke:node:floating-gone", "").is_some());
    for (other, port) in [
        ("theirs", "gone"),
        ("spoke:node:x", "gone"),
        ("spoke:node:floating-gone", "of-the-operators-machine"),
        ("spoke:node:floating-known", ""),
    ] {
        assert!(classified(other, port).is_none(), "{other} {port}");
    }
}
