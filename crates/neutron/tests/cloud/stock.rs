//! Ports that are made ahead of need, by what happens to them in Neutron.

use std::time::{Duration, Instant};

use model::{Attachment, Result};
use neutron::config::{Settings, StockSettings};
use neutron::facts::Facts;
use neutron::stock::{Filler, Round};
use serde_json::{Value, json};
use tests::fault_proxy::Fault;

use crate::attached::{Front, container, offered, port};
use crate::bed::Bed;

/// Longer than anything takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn stocked(settings: &mut Settings) {
    settings.stock =
        Some(StockSettings { minimum: 2, maximum: 6, batch: 1, bulk: false, idle: Duration::ZERO });
}

/// A round in which containers are on these networks.
fn round(filler: &mut Filler<'_>, users: &[&Front]) -> Round {
    let networks: std::collections::BTreeSet<_> =
        users.iter().map(|front| front.network.clone()).collect();
    let facts =
        || -> Result<Facts> { Ok(Facts { networks: networks.clone(), ..Facts::default() }) };
    filler.round(&|| false, &facts)
}

/// Rounds until so many ports are ready.
#[track_caller]
fn filled(bed: &Bed, filler: &mut Filler<'_>, front: &Front, count: usize) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let round = round(filler, &[front]);
        if bed.cloud.stock_levels().unwrap().get(&front.network).copied() == Some(count) {
            return;
        }
        let levels = bed.cloud.stock().unwrap();
        assert!(Instant::now() < deadline, "{levels:?} {round:?}");
    }
}

/// A container's port that may come back, and two that are ready.
#[track_caller]
fn started(bed: &Bed, filler: &mut Filler<'_>, front: &Front) -> Attachment {
    let first = offered(bed, &front.attachment(&container(), "eth0"));
    filled(bed, filler, front, 2);
    first
}

fn ids(ports: &[Value]) -> Vec<&str> {
    ports.iter().map(|port| port["id"].as_str().unwrap()).collect()
}

/// A network that is reached from outside, with a router between it and this one.
fn routed(bed: &Bed, front: &Front) -> Value {
    let outside = bed.project.create("network", json!({"name": "out", "router:external": true}));
    let subnet = json!({"network_id": outside["id"], "ip_version": 4, "cidr": "203.0.113.0/24"});
    bed.project.create("subnet", subnet);
    let gateway = json!({"network_id": outside["id"]});
    let router = bed.project.create("router", json!({"external_gateway_info": gateway}));
    let subnets = bed.project.list("subnets", &format!("network_id={}", front.network));
    let path = format!("/routers/{}/add_router_interface", router["id"].as_str().unwrap());
    bed.project.put(&path, &json!({"subnet_id": subnets[0]["id"]}));
    outside
}

#[test]
fn a_port_that_an_operator_gave_a_floating_address_serves_no_other_container() {
    let bed = Bed::tapped(&stocked);
    let front = Front::new(&bed, "front", "10.150.0.0/24");
    let outside = routed(&bed, &front);
    let mut filler = bed.cloud.filler().unwrap().unwrap();
    let ended = started(&bed, &mut filler, &front);
    let plain = offered(&bed, &front.attachment(&container(), "eth0"));
    let floating = json!({"floating_network_id": outside["id"], "port_id": port(&ended)});
    let floating = bed.project.create("floatingip", floating);
    for attachment in [&ended, &plain] {
        bed.cloud.end(attachment).unwrap();
    }
    let round = round(&mut filler, &[&front]);
    assert_eq!((round.deleted, round.renewed), (1, 1), "{round:?}");
    let there = front.ports(&bed);
    assert!(!ids(&there).contains(&port(&ended).as_str()), "{there:?}");
    assert!(ids(&there).contains(&port(&plain).as_str()), "{there:?}");
    let path = format!("/floatingips/{}", floating["id"].as_str().unwrap());
    assert_eq!(
        bed.project.get(&path)["floatingip"]["port_id"],
        Value::Null,
        "it is the operator's"
    );
}

#[test]
fn what_neutron_does_not_delete_at_first_is_deleted_later() {
    for fault in [Fault::Answer(500), Fault::Cut] {
        let bed = Bed::tapped(&stocked);
        let front = Front::new(&bed, "front", "10.151.0.0/24");
        let mut filler = bed.cloud.filler().unwrap().unwrap();
        let first = started(&bed, &mut filler, &front);
        bed.proxy.fail_always("DELETE", "/v2.0/ports/", fault.clone());
        // No container, and no network of a runtime.
        let failed = round(&mut filler, &[]);
        assert!(!failed.failures.is_empty(), "{fault:?}: {failed:?}");
        bed.proxy.heal();
        let deadline = Instant::now() + TIMEOUT;
        while front.ports(&bed).len() > 1 {
            let round = round(&mut filler, &[]);
            assert!(Instant::now() < deadline, "{fault:?}: {:?} {round:?}", front.ports(&bed));
        }
        assert_eq!(ids(&front.ports(&bed)), [port(&first).as_str()]);
        bed.cloud.end(&first).unwrap();
    }
}

#[test]
fn a_port_that_neutron_cannot_change_holds_up_no_other() {
    let bed = Bed::tapped(&stocked);
    let front = Front::new(&bed, "front", "10.152.0.0/24");
    let mut filler = bed.cloud.filler().unwrap().unwrap();
    let broken = started(&bed, &mut filler, &front);
    let other = offered(&bed, &front.attachment(&container(), "eth0"));
    let third = offered(&bed, &front.attachment(&container(), "eth0"));
    for attachment in [&broken, &other] {
        bed.cloud.end(attachment).unwrap();
    }
    let path = format!("/v2.0/ports/{}", port(&broken));
    bed.proxy.fail_always("GET", &path, Fault::Answer(500));
    let first = round(&mut filler, &[&front]);
    assert_eq!((first.renewed, first.failures.len()), (1, 1), "{first:?}");
    // Neither its kind nor another one waits for it.
    assert!(bed.cloud.return_to_stock(port(&third)).unwrap());
    assert_eq!(round(&mut filler, &[&front]).renewed, 1);
    let back = Front::new(&bed, "back", "10.153.0.0/24");
    let live = offered(&bed, &back.attachment(&container(), "eth0"));
    let deadline = Instant::now() + TIMEOUT;
    while bed.cloud.stock_levels().unwrap().get(&back.network).copied() != Some(2) {
        let round = round(&mut filler, &[&front, &back]);
        let is_its = |error: &model::Error| error.to_string().contains(port(&broken).as_str());
        assert!(round.failures.iter().all(is_its), "{round:?}");
        assert!(round.made > 0 && Instant::now() < deadline, "{round:?}");
    }
    // It comes back once Neutron answers.
    bed.proxy.heal();
    while front.ports(&bed).iter().any(|there| there["tags"] != json!(["compute:kuryr"])) {
        round(&mut filler, &[&front, &back]);
        assert!(Instant::now() < deadline, "{:?}", front.ports(&bed));
    }
    bed.cloud.end(&live).unwrap();
}
