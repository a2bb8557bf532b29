//! Containers in an instance of the cloud: this host plays it with a device that has the hardware
//! address of a port.

use std::process::Command;

use model::{Attachment, IfName, IpvlanMode, MacvlanMode, Nesting, ResourceId};
use neutron::config::{Settings, StockSettings};
use neutron::facts::Facts;
use neutron::reconcile::{Breadth, Removed};
use serde_json::{Value, json};

use crate::attached::{Front, change, container, offered, port};
use crate::bed::Bed;

/// A device that is gone with it.
struct Instance {
    parent: IfName,
    port: ResourceId,
}

impl Instance {
    fn new(bed: &Bed, front: &Front) -> Self {
        let port = json!({
            "network_id": front.network, "device_id": "vm", "device_owner": "compute:nova",
        });
        let port = bed.project.create("port", port);
        let id = port["id"].as_str().unwrap();
        let parent = format!("spc{}", &id[..8]);
        let mac = port["mac_address"].as_str().unwrap();
        let peer = format!("{parent}p");
        ip(&["link", "add", &parent, "address", mac, "type", "veth", "peer", &peer]);
        Self { parent: parent.parse().unwrap(), port: id.parse().unwrap() }
    }

    fn pairs(&self, bed: &Bed) -> Vec<Value> {
        let there = &bed.project.get(&format!("/ports/{}", self.port))["port"];
        there["allowed_address_pairs"].as_array().unwrap().clone()
    }

    fn macvlan(&self) -> Nesting {
        Nesting::Macvlan { parent: self.parent.clone(), mode: MacvlanMode::Bridge }
    }

    fn ipvlan(&self) -> Nesting {
        Nesting::Ipvlan { parent: self.parent.clone(), mode: IpvlanMode::L2 }
    }

    fn trunk(&self) -> Nesting {
        Nesting::Trunk { parent: self.parent.clone(), trunk: None }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "delete", self.parent.as_str()]).status();
    }
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success(), "ip {args:?}");
}

fn nested(front: &Front, nesting: Nesting) -> Attachment {
    let mut asked = front.attachment(&container(), "eth0");
    change(&mut asked, |link| link.spec.nesting = Some(nesting));
    asked
}

/// A network that says itself how it is nested, after the records went with the boot.
fn remaining(nested: &Attachment) -> Facts {
    let mut facts = Facts::default();
    facts.declare(crate::attached::link(nested));
    facts
}

#[track_caller]
fn collected(bed: &Bed, lost: &Attachment) {
    let facts = || Ok(remaining(lost));
    let found = bed.cloud.find_orphans(Breadth::Ports, &facts).unwrap().orphans;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].id, *port(lost));
    let removed = bed.cloud.remove_orphans(&found, &facts).unwrap();
    assert_eq!(removed[0].1, Removed::Deleted);
    assert_eq!(bed.cloud.find_orphans(Breadth::Ports, &facts).unwrap().orphans, []);
}

#[test]
fn the_address_of_a_lost_port_is_allowed_no_longer() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.170.0.0/24");
    let instance = Instance::new(&bed, &front);
    for nesting in [instance.macvlan(), instance.ipvlan()] {
        let live = offered(&bed, &nested(&front, nesting.clone()));
        let lost = offered(&bed, &nested(&front, nesting));
        assert_eq!(instance.pairs(&bed).len(), 2);
        let facts = || {
            let mut facts = Facts::of(std::slice::from_ref(&live), &[]);
            facts.declare(crate::attached::link(&lost));
            Ok(facts)
        };
        let found = bed.cloud.find_orphans(Breadth::Ports, &facts).unwrap().orphans;
        let removed = bed.cloud.remove_orphans(&found, &facts).unwrap();
        assert_eq!(removed.len(), 1, "{removed:?}");
        assert_eq!((&removed[0].0.id, removed[0].1), (port(&lost), Removed::Deleted));
        let [pair] = &instance.pairs(&bed)[..] else { panic!("{:?}", instance.pairs(&bed)) };
        let address = live.addresses[0].address.addr().to_string();
        assert_eq!(pair["ip_address"], address, "that of the container that is there stays");
        bed.cloud.end(&live).unwrap();
        assert_eq!(instance.pairs(&bed), Vec::<Value>::new());
    }
}

#[test]
fn a_lost_subport_is_deleted() {
    let bed = Bed::tapped(&|_| {});
    let front = Front::new(&bed, "front", "10.171.0.0/24");
    let instance = Instance::new(&bed, &front);
    bed.project.create("trunk", json!({"port_id": instance.port}));
    let live = offered(&bed, &nested(&front, instance.trunk()));
    let lost = offered(&bed, &nested(&front, instance.trunk()));
    let facts = || {
        let mut facts = Facts::of(std::slice::from_ref(&live), &[]);
        facts.declare(crate::attached::link(&lost));
        Ok(facts)
    };
    let found = bed.cloud.find_orphans(Breadth::Ports, &facts).unwrap().orphans;
    assert_eq!(found.iter().map(|orphan| &orphan.id).collect::<Vec<_>>(), [port(&lost)]);
    assert_eq!(bed.cloud.remove_orphans(&found, &facts).unwrap()[0].1, Removed::Deleted);
    bed.cloud.check(&live).unwrap();
    collected(&bed, &live);
    assert_eq!(front.ports(&bed).len(), 1, "the instance's own is left");
}

/// With a stock, a port that is missing may have been another container's since.
#[test]
fn the_address_of_a_port_that_is_gone_from_neutron_is_allowed_no_longer() {
    let stocked = |settings: &mut Settings| {
        settings.stock = Some(StockSettings {
            minimum: 1,
            maximum: 2,
            batch: 1,
            bulk: false,
            idle: std::time::Duration::from_secs(60),
        });
    };
    let bed = Bed::tapped(&stocked);
    let front = Front::new(&bed, "front", "10.172.0.0/24");
    let instance = Instance::new(&bed, &front);
    for nesting in [instance.macvlan(), instance.ipvlan()] {
        let made = offered(&bed, &nested(&front, nesting));
        bed.project.delete(&format!("/ports/{}", port(&made)));
        assert_eq!(instance.pairs(&bed).len(), 1);
        bed.cloud.end(&made).unwrap();
        assert_eq!(instance.pairs(&bed), Vec::<Value>::new());
    }
    // An ipvlan's pair has no hardware address: it may be that of the address's next container.
    let gone = offered(&bed, &nested(&front, instance.ipvlan()));
    let address = gone.addresses[0].address;
    bed.project.delete(&format!("/ports/{}", port(&gone)));
    let fixed_ips = json!([{"ip_address": address.addr()}]);
    bed.project.create("port", json!({"network_id": front.network, "fixed_ips": fixed_ips}));
    bed.cloud.end(&gone).unwrap();
    assert_eq!(instance.pairs(&bed).len(), 1);
}
