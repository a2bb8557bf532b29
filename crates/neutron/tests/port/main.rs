//! One attachment's port in a real Neutron: that of `NEUTRON_URL` and `OS_*`, as
//! `. scripts/neutron-lab/env.sh` sets them. Without one these tests say so and do nothing; the program's
//! tests bring one up.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod nested;

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::port::{ExposedPort, Offer};
use model::*;
use neutron::Neutron;
use neutron::api::{FixedIp, NewNetwork, NewPort, NewSubnet, PortResource};
use neutron::config::{Settings, Sources};

/// A network of its own, which is gone with it.
struct Rig {
    neutron: Neutron,
    network: ResourceId,
    name: String,
    _directory: tempfile::TempDir,
}

impl Rig {
    fn new(cidrs: &[&str]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let variable = |name: &str| std::env::var(name).ok();
        if variable("NEUTRON_URL").is_none() {
            tests::skipped("Neutron's ports", "there is no lab (make test-neutron)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let said = Sources::default().read(&variable).unwrap();
        // Without a dataplane ports are bound as their host is called.
        let bound = variable("OVS_RUNDIR").and_then(|_| variable("NEUTRON_LAB_HOST"));
        let host = bound.unwrap_or("tap-port".into()).try_into().unwrap();
        let mut settings = Settings::new(said.access, host).unwrap();
        if let Some(run) = variable("OVS_RUNDIR") {
            settings.plugging.ovsdb = format!("unix:{run}/db.sock");
        }
        let path: PathBuf = directory.path().join("neutron");
        let neutron = Neutron::connect(settings, path).unwrap();
        let name = format!("port-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let new = NewNetwork { name: name.clone(), admin_state_up: true, ..Default::default() };
        let network = neutron.api().create_network(&new).unwrap().id;
        for cidr in cidrs {
            let cidr: IpNet = cidr.parse().unwrap();
            let new = NewSubnet {
                name: name.clone(),
                network_id: network.clone(),
                ip_version: if cidr.addr().is_ipv4() { 4 } else { 6 },
                cidr,
                gateway_ip: None,
                subnetpool_id: None,
                enable_dhcp: false,
                allocation_pools: Vec::new(),
                description: String::new(),
            };
            neutron.api().create_subnet(&new).unwrap();
        }
        Some(Self { neutron, network, name, _directory: directory })
    }

    fn attachment(&self, container: &str) -> Attachment {
        let id = AttachmentId {
            network: "front".parse().unwrap(),
            container: format!("{container}-{}", self.name).parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let by = Process { pid: 1, start: 1 };
        let phase = Phase::Attaching { by };
        let mut made = Attachment::new(id, Layer::Link, Runtime::Cni, Timestamp(0), phase);
        let link = NeutronLink {
            network: self.name.parse().unwrap(),
            subnets: Vec::new(),
            spec: PortSpec::default(),
            binding: None,
        };
        let kind = LinkKind::Neutron(Box::new(link));
        made.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        made
    }

    fn with_addresses(&self, container: &str, addresses: &[&str]) -> Attachment {
        let mut made = self.attachment(container);
        let lease = |address: &&str| Lease {
            space: Space::Network("front".parse().unwrap()),
            pool: None,
            address: address.parse().unwrap(),
            gateway: None,
        };
        made.leases = addresses.iter().map(lease).collect();
        made.ipam = Ipam::Fixed { leases: made.leases.clone() };
        made
    }

    /// As the engine writes it down.
    fn accepted(&self, attachment: &Attachment, offer: Offer) -> Attachment {
        let mut reported = attachment.clone();
        reported.addresses = offer.addresses;
        reported.wiring.link = offer.link;
        reported
    }

    fn offered(&self, attachment: &Attachment) -> Attachment {
        self.accepted(attachment, self.neutron.offer(attachment).unwrap())
    }

    fn ports(&self) -> Vec<PortResource> {
        let filter = [("network_id", self.network.to_string())];
        let mut ports = self.neutron.api().ports(&filter).unwrap();
        ports.retain(|port| !port.device_owner.starts_with("network:"));
        ports
    }

    /// A port that another client made.
    fn foreign(&self, address: &str, owner: &str, device: &str, is_bound: bool) -> PortResource {
        let ip = FixedIp { subnet_id: None, ip_address: Some(address.parse().unwrap()) };
        let new = NewPort {
            name: "theirs".to_owned(),
            network_id: Some(self.network.clone()),
            fixed_ips: Some(vec![ip]),
            admin_state_up: true,
            device_id: device.to_owned(),
            device_owner: owner.to_owned(),
            host: is_bound.then(|| self.neutron.settings().host.to_string()),
            ..NewPort::default()
        };
        self.neutron.api().create_port(&new).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for port in self.ports() {
            let _ = self.neutron.api().delete_port(&port.id);
        }
        let _ = self.neutron.api().delete_network(&self.network);
    }
}

fn link(attachment: &Attachment) -> &NeutronLink {
    match &attachment.wiring.link.as_ref().unwrap().kind {
        LinkKind::Neutron(link) => link,
        other => panic!("{other:?}"),
    }
}

fn binding(attachment: &Attachment) -> &Binding {
    link(attachment).binding.as_ref().unwrap()
}

fn change(attachment: &mut Attachment, change: impl FnOnce(&mut PortSpec)) {
    match &mut attachment.wiring.link.as_mut().unwrap().kind {
        LinkKind::Neutron(link) => change(&mut link.spec),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_port_is_made_reported_and_deleted() {
    let Some(rig) = Rig::new(&["10.77.0.0/24", "fd77::/64"]) else { return };
    let asked = rig.attachment("a");
    let offer = rig.neutron.offer(&asked).unwrap();
    assert_eq!(offer.addresses.len(), 2);
    assert!(offer.routes.iter().all(|route| route.is_default() && route.via.is_some()));
    assert_eq!(offer.routes.len(), 2);
    let reported = rig.accepted(&asked, offer);
    let [port] = &rig.ports()[..] else { panic!("{:?}", rig.ports()) };
    assert_eq!(reported.wiring.link.as_ref().unwrap().mac, Some(port.mac_address));
    assert!(reported.wiring.link.as_ref().unwrap().mtu.is_some());
    assert_eq!(binding(&reported).ownership, Ownership::Own);
    assert_eq!(port.device_owner, "compute:kuryr");
    assert!(port.is_tagged("compute:kuryr") && port.tags.len() == 3, "{:?}", port.tags);
    assert!(port.description.ends_with(&port.device_id), "{}", port.description);
    rig.neutron.check(&reported).unwrap();
    rig.neutron.status_of(&reported).unwrap();
    rig.neutron.end(&reported).unwrap();
    assert_eq!(rig.ports(), []);
    rig.neutron.end(&reported).unwrap();
    assert_eq!(rig.neutron.check(&reported).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_record_that_knows_no_port_finds_it() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    let asked = rig.attachment("a");
    rig.offered(&asked);
    let other = rig.offered(&rig.attachment("b"));
    let [found] = &rig.neutron.found(&asked).unwrap()[..] else { panic!() };
    assert!(rig.ports().iter().any(|port| port.id == binding(found).port));
    assert!(found.wiring.link.as_ref().unwrap().mac.is_some());
    rig.neutron.end(&asked).unwrap();
    assert_eq!(rig.ports().len(), 1);
    assert_eq!(rig.ports()[0].id, binding(&other).port);
}

#[test]
fn an_exact_address_is_made_taken_over_or_refused() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    // Docker's own IPAM: no call made a port.
    let first = rig.with_addresses("a", &["10.77.0.9/24"]);
    let own = rig.offered(&first);
    assert_eq!(binding(&own).ownership, Ownership::Own);
    // The same again is the same port.
    assert_eq!(binding(&rig.offered(&first)), binding(&own));
    // Another container's it is not.
    let second = rig.with_addresses("b", &["10.77.0.9/24"]);
    let error = rig.neutron.offer(&second).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    rig.neutron.end(&second).unwrap();
    assert_eq!(rig.ports().len(), 1);
    // A virtual machine's neither.
    rig.foreign("10.77.0.20", "compute:nova", "vm", true);
    let third = rig.with_addresses("c", &["10.77.0.20/24"]);
    let error = rig.neutron.offer(&third).unwrap_err();
    assert!(error.to_string().contains("compute:nova"), "{error}");
    rig.neutron.end(&third).unwrap();
    assert_eq!(rig.ports().len(), 2);
    let outside = rig.with_addresses("d", &["10.99.0.20/24"]);
    assert_eq!(rig.neutron.offer(&outside).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn what_was_bound_for_us_is_used_and_stays() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    let theirs = rig.foreign("10.77.0.30", "compute:kuryr", "their-container", true);
    let mut asked = rig.with_addresses("a", &["10.77.0.30/24"]);
    // A caller that asks for the address alone does not know for whom it was bound.
    let error = rig.neutron.offer(&asked).unwrap_err();
    assert!(error.to_string().contains("their-container"), "{error}");
    asked.wiring.link.as_mut().unwrap().mac = Some(theirs.mac_address);
    let reported = rig.offered(&asked);
    assert_eq!(
        (binding(&reported).ownership, &binding(&reported).port),
        (Ownership::Borrowed, &theirs.id)
    );
    let [port] = &rig.ports()[..] else { panic!() };
    assert_eq!(port.device_id, "their-container");
    assert!(port.is_tagged("kuryr.port.existing") && !port.is_tagged("compute:kuryr"));
    rig.neutron.end(&reported).unwrap();
    let [port] = &rig.ports()[..] else { panic!() };
    assert_eq!((port.device_id.as_str(), port.tags.len()), ("their-container", 0));
    assert_eq!(port.host(), theirs.host());
}

#[test]
fn an_unused_port_is_borrowed_by_its_address_and_given_back() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    rig.foreign("10.77.0.32", "", "", false);
    for container in ["a", "b"] {
        let reported = rig.offered(&rig.with_addresses(container, &["10.77.0.32/24"]));
        assert_eq!(binding(&reported).ownership, Ownership::Borrowed);
        let error = rig.neutron.offer(&rig.with_addresses("c", &["10.77.0.32/24"])).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        rig.neutron.end(&reported).unwrap();
        let [port] = &rig.ports()[..] else { panic!() };
        assert_eq!((port.device_id.as_str(), port.host(), port.tags.len()), ("", None, 0));
    }
}

#[test]
fn a_port_that_is_named_is_borrowed_and_given_back() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    let theirs = rig.foreign("10.77.0.31", "", "", false);
    for knows in [true, false] {
        let mut asked = rig.attachment("a");
        change(&mut asked, |spec| spec.port = Some(theirs.id.clone()));
        let reported = rig.offered(&asked);
        assert_eq!(binding(&reported).ownership, Ownership::Borrowed);
        assert_eq!(binding(&rig.offered(&asked)), binding(&reported));
        let mut second = rig.attachment("b");
        change(&mut second, |spec| spec.port = Some(theirs.id.clone()));
        let error = rig.neutron.offer(&second).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        rig.neutron.end(&second).unwrap();
        assert_eq!(rig.ports()[0].device_owner, "compute:kuryr");
        rig.neutron.end(if knows { &reported } else { &asked }).unwrap();
        let [port] = &rig.ports()[..] else { panic!() };
        assert_eq!((port.device_id.as_str(), port.device_owner.as_str()), ("", ""));
        assert_eq!((port.host(), &port.tags), (None, &Vec::new()));
    }
}

#[test]
fn two_ports_of_either_family_become_one() {
    let Some(rig) = Rig::new(&["10.77.0.0/24", "fd77::/64"]) else { return };
    let mark = format!("spoke:{}:0011223344556677", rig.neutron.settings().host);
    for address in ["10.77.0.40", "fd77::40"] {
        let ip = FixedIp { subnet_id: None, ip_address: Some(address.parse().unwrap()) };
        let new = NewPort {
            name: "kuryr-unbound-port".to_owned(),
            network_id: Some(rig.network.clone()),
            fixed_ips: Some(vec![ip]),
            admin_state_up: true,
            device_owner: "compute:kuryr".to_owned(),
            description: mark.clone(),
            ..NewPort::default()
        };
        rig.neutron.api().create_port(&new).unwrap();
    }
    let mut asked = rig.with_addresses("a", &["10.77.0.40/24", "fd77::40/64"]);
    let error = rig.neutron.offer(&asked).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "an engine requested it, and this is none: {error}");
    asked.alias = Some("0123456789ab".parse().unwrap());
    let reported = rig.offered(&asked);
    assert_eq!(binding(&reported).ownership, Ownership::Requested);
    let [port] = &rig.ports()[..] else { panic!() };
    assert_eq!(port.fixed_ips.len(), 2);
    assert_eq!(port.host(), Some(rig.neutron.settings().host.as_str()));
    // It goes with its addresses.
    rig.neutron.end(&reported).unwrap();
    rig.neutron.end(&asked).unwrap();
    assert_eq!(rig.ports().len(), 1);
}

#[test]
fn an_address_of_anothers_stays_with_its_port() {
    let Some(rig) = Rig::new(&["10.77.0.0/24", "fd77::/64"]) else { return };
    let mark = format!("spoke:{}:request-0011223344556677", rig.neutron.settings().host);
    let made = [vec!["10.77.0.41"], vec!["fd77::41", "10.77.0.42"]].map(|addresses| {
        let ip =
            |address: &str| FixedIp { subnet_id: None, ip_address: Some(address.parse().unwrap()) };
        let new = NewPort {
            name: "kuryr-unbound-port".to_owned(),
            network_id: Some(rig.network.clone()),
            fixed_ips: Some(addresses.into_iter().map(ip).collect()),
            admin_state_up: true,
            device_owner: "compute:kuryr".to_owned(),
            description: mark.clone(),
            ..NewPort::default()
        };
        rig.neutron.api().create_port(&new).unwrap()
    });
    let mut asked = rig.with_addresses("a", &["10.77.0.41/24", "fd77::41/64"]);
    asked.alias = Some("0123456789ab".parse().unwrap());
    let reported = rig.offered(&asked);
    assert_eq!(binding(&reported).port, made[0].id);
    let other = rig.neutron.api().port(&made[1].id).unwrap().unwrap();
    assert!(other.has("10.77.0.42".parse().unwrap()) && other.fixed_ips.len() == 1);
    let mut asked = rig.with_addresses("b", &["10.77.0.42/24"]);
    asked.alias = Some("0123456789ab".parse().unwrap());
    change(&mut asked, |spec| {
        spec.security_groups = Some(Vec::new());
        let net = "10.77.0.200/32".parse().unwrap();
        spec.allowed_address_pairs = vec![AddressPair { net, mac: None }];
    });
    assert_eq!(binding(&rig.offered(&asked)).port, made[1].id);
    let other = rig.neutron.api().port(&made[1].id).unwrap().unwrap();
    assert_eq!((other.security_groups.len(), other.allowed_address_pairs.len()), (0, 1));
}

#[test]
fn exposed_ports_are_a_group_of_their_own() {
    let Some(rig) = Rig::new(&["10.77.0.0/24", "fd77::/64"]) else { return };
    let reported = rig.offered(&rig.attachment("a"));
    let port =
        |number| ExposedPort { protocol: Protocol::Tcp, port: NonZeroU16::new(number).unwrap() };
    let group = || {
        let name = format!("{}-exposed_ports", binding(&reported).port);
        rig.neutron.api().groups(&[("name", name)]).unwrap()
    };
    for ports in [&[80, 81, 90][..], &[80, 81, 90], &[90, 91]] {
        let ports: Vec<_> = ports.iter().map(|number| port(*number)).collect();
        rig.neutron.expose_ports(&reported, &ports).unwrap();
        let [group] = &group()[..] else { panic!("{:?}", group()) };
        let ingress = group.rules.iter().filter(|rule| rule.port_range_min.is_some());
        let mut ranges: Vec<_> =
            ingress.map(|rule| (rule.port_range_min, rule.port_range_max)).collect();
        ranges.sort();
        let of_both = |ranges: &[(u16, u16)]| -> Vec<_> {
            let both = ranges.iter().flat_map(|range| [*range; 2]);
            both.map(|(first, last)| (Some(first), Some(last))).collect()
        };
        match ports.len() {
            3 => assert_eq!(ranges, of_both(&[(80, 81), (90, 90)])),
            _ => assert_eq!(ranges, of_both(&[(90, 91)])),
        }
        assert_eq!(rig.ports()[0].security_groups.len(), 2);
    }
    rig.neutron.conceal_ports(&reported).unwrap();
    rig.neutron.conceal_ports(&reported).unwrap();
    assert!(group().is_empty());
    assert_eq!(rig.ports()[0].security_groups.len(), 1);
    rig.neutron.end(&reported).unwrap();
}

#[test]
fn specs_are_granted_or_named() {
    let Some(rig) = Rig::new(&["10.77.0.0/24"]) else { return };
    let mut asked = rig.attachment("a");
    change(&mut asked, |spec| {
        spec.port_security = Some(true);
        let net = "10.77.0.200/32".parse().unwrap();
        spec.allowed_address_pairs = vec![AddressPair { net, mac: None }];
    });
    asked.wiring.link.as_mut().unwrap().mac = Some(Mac::new([2, 0, 0, 0x77, 1, 2]));
    let reported = rig.offered(&asked);
    let [port] = &rig.ports()[..] else { panic!() };
    assert_eq!(port.mac_address, Mac::new([2, 0, 0, 0x77, 1, 2]));
    assert_eq!(port.allowed_address_pairs[0].ip_address, "10.77.0.200");
    rig.neutron.end(&reported).unwrap();
    let mut asked = rig.attachment("b");
    change(&mut asked, |spec| spec.security_groups = Some(vec!["no such".parse().unwrap()]));
    let error = rig.neutron.offer(&asked).unwrap_err();
    assert!(error.to_string().contains("no such"), "{error}");
    assert_eq!(rig.ports(), []);
}
