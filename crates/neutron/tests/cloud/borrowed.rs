//! Ports that an operator made, and gets back as they were.

use std::num::NonZeroU16;

use engine::port::ExposedPort;
use model::{Attachment, Lease, Ownership, Protocol, ResourceId, Space};
use neutron::facts::Facts;
use neutron::reconcile::{Breadth, Removed};
use serde_json::{Value, json};

use crate::attached::{Front, change, container, link, offered, port};
use crate::bed::{Bed, mac};

/// An operator's port, and the endpoint that has it with its port 80 exposed.
fn exposed(bed: &Bed, front: &Front) -> (ResourceId, Attachment) {
    let theirs = bed.project.create("port", json!({"network_id": front.network, "name": "theirs"}));
    let id: ResourceId = theirs["id"].as_str().unwrap().parse().unwrap();
    let mut asked = front.endpoint(&container());
    change(&mut asked, |link| link.spec.port = Some(id.clone()));
    let live = offered(bed, &asked);
    assert_eq!(link(&live).binding.as_ref().unwrap().ownership, Ownership::Borrowed);
    let http = ExposedPort { protocol: Protocol::Tcp, port: NonZeroU16::new(80).unwrap() };
    bed.cloud.expose_ports(&live, &[http]).unwrap();
    assert_eq!(groups(bed, &id).len(), 2);
    (id, live)
}

fn groups(bed: &Bed, port: &ResourceId) -> Vec<Value> {
    bed.project.get(&format!("/ports/{port}"))["port"]["security_groups"]
        .as_array()
        .unwrap()
        .clone()
}

fn exposures(bed: &Bed, port: &ResourceId) -> usize {
    bed.project.list("security-groups", &format!("name={port}-exposed_ports")).len()
}

/// The call that ends the exposure met no Neutron.
#[test]
fn exposed_ports_are_closed_when_the_endpoint_ends() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.160.0.0/24");
    let (id, live) = exposed(&bed, &front);
    bed.cloud.end(&live).unwrap();
    assert_eq!((groups(&bed, &id).len(), exposures(&bed, &id)), (1, 0));
    let freed = &bed.project.get(&format!("/ports/{id}"))["port"];
    assert_eq!((&freed["device_id"], &freed["tags"]), (&json!(""), &json!([])));
}

/// What another container has exposed of the port that it has by now is that container's.
#[test]
fn exposed_ports_of_another_owner_stay() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.163.0.0/24");
    let (id, live) = exposed(&bed, &front);
    bed.project.put(&format!("/ports/{id}"), &json!({"port": {"device_id": "another"}}));
    bed.project.put(&format!("/ports/{id}/tags"), &json!({"tags": []}));
    bed.cloud.end(&live).unwrap();
    assert_eq!((groups(&bed, &id).len(), exposures(&bed, &id)), (2, 1));
    assert_eq!(bed.project.get(&format!("/ports/{id}"))["port"]["device_id"], "another");
}

/// An earlier version gave the port the id of any container of 64 digits, and was killed before it recorded that.
#[test]
fn a_port_that_an_earlier_version_claimed_is_given_back() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.164.0.0/24");
    let container = container();
    let claimed = json!({
        "network_id": front.network, "device_owner": "compute:kuryr", "device_id": container,
    });
    let theirs = bed.project.create("port", claimed);
    let id: ResourceId = theirs["id"].as_str().unwrap().parse().unwrap();
    let of = |front: &Front| {
        let mut asked = front.attachment(&container, "eth0");
        change(&mut asked, |link| link.spec.port = Some(id.clone()));
        asked
    };
    let now = || bed.project.get(&format!("/ports/{id}"))["port"].clone();
    bed.cloud.end(&of(&Front::new(&bed, "other", "10.165.0.0/24"))).unwrap();
    assert_eq!(now()["device_id"], container.as_str(), "it is in another network");
    bed.cloud.end(&of(&front)).unwrap();
    assert_eq!((&now()["device_id"], &now()["device_owner"]), (&json!(""), &json!("")));
}

/// The record was lost with the boot.
#[test]
fn exposed_ports_are_closed_where_no_record_speaks_of_the_port() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.161.0.0/24");
    let (id, live) = exposed(&bed, &front);
    let known = || Ok(Facts::of(std::slice::from_ref(&live), &[]));
    let lost = || Ok(Facts::default());
    assert_eq!(bed.cloud.find_orphans(Breadth::Everything, &known).unwrap().orphans, []);
    let found = bed.cloud.find_orphans(Breadth::Everything, &lost).unwrap().orphans;
    assert_eq!(found.len(), 1, "{found:?}");
    let kept = bed.cloud.remove_orphans(&found, &known).unwrap();
    assert_eq!((kept[0].1, groups(&bed, &id).len()), (Removed::Kept, 2));
    let removed = bed.cloud.remove_orphans(&found, &lost).unwrap();
    assert_eq!(removed[0].1, Removed::Deleted);
    assert_eq!((groups(&bed, &id).len(), exposures(&bed, &id)), (1, 0));
}

/// Docker asks for an address first, and says then that packets are not to be filtered: Neutron has
/// given the port the project's default group by then.
#[test]
fn filters_are_taken_off_a_port_that_was_made_before() {
    let bed = Bed::tapped(&|_| {});
    let made = bed.network("10.162.0.0/24");
    let mac = mac();
    let address = bed.any(&made.pool, Some(mac)).unwrap();
    let network = link_network(&made.network);
    let front = Front { name: made.network.name.to_string(), network };
    let mut asked = front.endpoint(&container());
    asked.wiring.link.as_mut().unwrap().mac = Some(mac);
    asked.leases = vec![Lease {
        space: Space::Network(made.network.name.clone()),
        pool: None,
        address,
        gateway: None,
    }];
    change(&mut asked, |link| link.spec.port_security = Some(false));
    let live = offered(&bed, &asked);
    let there = &bed.project.get(&format!("/ports/{}", port(&live)))["port"];
    assert_eq!(there["port_security_enabled"], false);
    assert_eq!(there["security_groups"], json!([]));
}

fn link_network(network: &model::Network) -> ResourceId {
    match &network.wiring.link.as_ref().unwrap().kind {
        model::LinkKind::Neutron(link) => link.network.to_string().parse().unwrap(),
        other => panic!("{other:?}"),
    }
}
