//! Containers in an instance of the cloud: this host plays it with a device that has the hardware
//! address of a port.

use std::process::Command;
use std::thread;

use model::*;
use neutron::api::{NewPort, PortResource};

use super::{Rig, binding, change};

/// A device that is gone with it.
struct Instance {
    parent: String,
    port: PortResource,
}

impl Instance {
    fn new(rig: &Rig) -> Self {
        let new = NewPort {
            name: "instance".to_owned(),
            network_id: Some(rig.network.clone()),
            admin_state_up: true,
            device_id: "vm".to_owned(),
            device_owner: "compute:nova".to_owned(),
            ..NewPort::default()
        };
        let port = rig.neutron.api().create_port(&new).unwrap();
        let parent = format!("spt{}", port.id.short().replace('-', ""));
        let mac = port.mac_address.to_string();
        ip(&[
            "link",
            "add",
            &parent,
            "address",
            &mac,
            "type",
            "veth",
            "peer",
            &format!("{parent}p"),
        ]);
        Self { parent, port }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "delete", &self.parent]).status();
    }
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success(), "ip {args:?}");
}

fn nested(rig: &Rig, container: &str, nesting: Nesting) -> Attachment {
    let mut asked = rig.attachment(container);
    change(&mut asked, |spec| spec.nesting = Some(nesting));
    asked
}

#[test]
fn addresses_are_allowed_on_the_instances_port_and_no_longer() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    let instance = Instance::new(&rig);
    let parent: IfName = instance.parent.parse().unwrap();
    let nesting = Nesting::Macvlan { parent: parent.clone(), mode: MacvlanMode::Bridge };
    let asked: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|name| nested(&rig, name, nesting.clone())).collect();
    let pairs =
        || rig.neutron.api().port(&instance.port.id).unwrap().unwrap().allowed_address_pairs;
    // Several at once change one port.
    let reported: Vec<_> = thread::scope(|scope| {
        let at_work: Vec<_> =
            asked.iter().map(|asked| scope.spawn(|| rig.offered(asked))).collect();
        at_work.into_iter().map(|work| work.join().unwrap()).collect()
    });
    assert_eq!(pairs().len(), 4);
    for reported in &reported {
        let address = reported.addresses[0].address.addr().to_string();
        let mac = reported.wiring.link.as_ref().unwrap().mac;
        let is_it =
            |pair: &neutron::api::Pair| pair.ip_address == address && pair.mac_address == mac;
        assert!(pairs().iter().any(is_it), "{address} {mac:?} {:?}", pairs());
        assert_eq!(
            binding(reported).vif,
            Vif::Macvlan { parent: parent.clone(), mode: MacvlanMode::Bridge }
        );
    }
    // How far the last one came was not written down.
    rig.neutron.end(&asked[3]).unwrap();
    for reported in &reported[..3] {
        rig.neutron.end(reported).unwrap();
    }
    assert_eq!(pairs(), []);
    assert_eq!(rig.ports().len(), 1);
    // An ipvlan has the instance's own hardware address.
    let ipvlan = Nesting::Ipvlan { parent, mode: IpvlanMode::L2 };
    let reported = rig.offered(&nested(&rig, "e", ipvlan));
    assert_eq!(pairs()[0].mac_address, Some(instance.port.mac_address));
    rig.neutron.end(&reported).unwrap();
    assert_eq!(pairs(), []);
}

#[test]
fn subports_have_the_lowest_free_vlan() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    let instance = Instance::new(&rig);
    let parent: IfName = instance.parent.parse().unwrap();
    let trunk = rig.neutron.api().create_trunk(&rig.name, &instance.port.id).unwrap().id;
    let nesting = Nesting::Trunk { parent, trunk: None };
    let asked: Vec<_> =
        ["a", "b", "c"].iter().map(|name| nested(&rig, name, nesting.clone())).collect();
    let reported: Vec<_> = thread::scope(|scope| {
        let at_work: Vec<_> =
            asked.iter().map(|asked| scope.spawn(|| rig.offered(asked))).collect();
        at_work.into_iter().map(|work| work.join().unwrap()).collect()
    });
    let vlan = |reported: &Attachment| match &binding(reported).vif {
        Vif::Trunk { vlan, .. } => u16::from(*vlan),
        other => panic!("{other:?}"),
    };
    let mut vlans: Vec<_> = reported.iter().map(vlan).collect();
    vlans.sort_unstable();
    assert_eq!(vlans, [1, 2, 3]);
    let subports = || rig.neutron.api().trunks(&[("id", trunk.to_string())]).unwrap()[0].clone();
    assert_eq!(subports().sub_ports.len(), 3);
    rig.neutron.check(&reported[0]).unwrap();
    let second = reported.iter().find(|reported| vlan(reported) == 2).unwrap();
    rig.neutron.end(second).unwrap();
    rig.neutron.end(second).unwrap();
    assert_eq!(vlan(&rig.offered(&nested(&rig, "d", nesting.clone()))), 2);
    rig.neutron.end(&nested(&rig, "d", nesting)).unwrap();
    for asked in &asked {
        rig.neutron.end(asked).unwrap();
    }
    assert_eq!(subports().sub_ports, []);
    assert_eq!(rig.ports().len(), 1);
    rig.neutron.api().delete_trunk(&trunk).unwrap();
}
