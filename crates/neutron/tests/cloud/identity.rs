//! Which attachment a port says it is of.

use model::{Ipam, Lease, Ownership, Space};
use neutron::facts::Facts;
use neutron::reconcile::{Breadth, Removed};
use serde_json::json;

use crate::attached::{Front, container, link, offered, port};
use crate::bed::Bed;

/// A runtime names a container alike on each of its networks.
#[test]
fn what_fails_on_one_network_leaves_the_containers_port_on_another() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.140.0.0/24");
    let back = Front::new(&bed, "back", "10.141.0.0/24");
    let container = container();
    let live = offered(&bed, &front.attachment(&container, "eth0"));
    for failed in [back.attachment(&container, "eth1"), front.attachment(&container, "eth1")] {
        bed.cloud.end(&failed).unwrap();
        assert_eq!(bed.cloud.found(&failed).unwrap(), [], "{}", failed.id);
    }
    let [kept] = &front.ports(&bed)[..] else { panic!("{:?}", front.ports(&bed)) };
    assert_eq!(kept["id"], port(&live).as_str());
    bed.cloud.check(&live).unwrap();
    let both = offered(&bed, &back.attachment(&container, "eth1"));
    bed.cloud.end(&live).unwrap();
    assert_eq!((front.ports(&bed).len(), back.ports(&bed).len()), (0, 1));
    bed.cloud.end(&both).unwrap();
    assert_eq!(back.ports(&bed).len(), 0);
}

/// kuryr-libnetwork finds ports so, and the other way round.
#[test]
fn a_port_of_dockers_endpoint_has_the_endpoints_id() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.142.0.0/24");
    let endpoint = container();
    let asked = front.endpoint(&endpoint);
    let made = offered(&bed, &asked);
    let [there] = &front.ports(&bed)[..] else { panic!("{:?}", front.ports(&bed)) };
    assert_eq!(there["device_id"], endpoint);
    assert_eq!(bed.cloud.found(&asked).unwrap().len(), 1);
    // The record may be lost with what it knows.
    bed.cloud.end(&asked).unwrap();
    assert_eq!(front.ports(&bed).len(), 0);
    assert!(link(&made).binding.is_some());
}

/// Another program's port keeps that program's `device_id`: only the tags tell whose it is now.
#[test]
fn a_port_bound_for_another_program_is_given_up_by_a_record_that_does_not_know_it() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.143.0.0/24");
    let theirs = bed.project.create(
        "port",
        json!({
            "network_id": front.network, "device_owner": "compute:kuryr", "device_id": "theirs",
            "binding:host_id": bed.host,
        }),
    );
    let asked = |ifname| {
        let mut asked = front.attachment(&container(), ifname);
        asked.wiring.link.as_mut().unwrap().mac =
            Some(theirs["mac_address"].as_str().unwrap().parse().unwrap());
        let address = theirs["fixed_ips"][0]["ip_address"].as_str().unwrap();
        asked.leases = vec![Lease {
            space: Space::Network("front".parse().unwrap()),
            pool: None,
            address: format!("{address}/24").parse().unwrap(),
            gateway: None,
        }];
        asked.ipam = Ipam::Fixed { leases: asked.leases.clone() };
        asked
    };
    let killed = asked("eth0");
    assert_eq!(
        link(&offered(&bed, &killed)).binding.as_ref().unwrap().ownership,
        Ownership::Borrowed
    );
    bed.cloud.end(&killed).unwrap();
    let [there] = &front.ports(&bed)[..] else { panic!("{:?}", front.ports(&bed)) };
    assert_eq!((&there["tags"], &there["device_id"]), (&json!([]), &json!("theirs")));
    assert_eq!(there["binding:host_id"], bed.host);
    bed.cloud.end(&offered(&bed, &asked("eth0"))).unwrap();
}

/// A host that lost its power starts the same containers again, and none of its records is there.
#[test]
fn the_earlier_port_of_a_container_that_starts_again_is_collected() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.144.0.0/24");
    let asked = front.attachment(&container(), "eth0");
    let before = offered(&bed, &asked);
    let now = offered(&bed, &asked);
    let begun = front.attachment(&container(), "eth0");
    let under_way = offered(&bed, &begun);
    let facts = || Ok(Facts::of(&[now.clone(), begun.clone()], &[]));
    let found = bed.cloud.find_orphans(Breadth::Ports, &facts).unwrap().orphans;
    assert_eq!(found.iter().map(|orphan| &orphan.id).collect::<Vec<_>>(), [port(&before)]);
    assert_eq!(bed.cloud.remove_orphans(&found, &facts).unwrap()[0].1, Removed::Deleted);
    bed.cloud.check(&now).unwrap();
    bed.cloud.check(&under_way).unwrap();
}
