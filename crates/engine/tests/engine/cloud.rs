//! Networks of a cloud, which chooses addresses, adds to them and has each in a space of its own.

use engine::port::Offer;
use engine::{Engine, Request};
use model::*;

use super::common::{network, request};
use super::endpoint_world::*;

/// What every port gets, whether it was asked for or not.
const ADDED: &str = "fd77::9/64";

fn clouded(name: &str) -> Network {
    let mut made = network(name, Ipam::None);
    made.runtime = Runtime::Docker;
    let link = NeutronLink {
        network: "net".parse().unwrap(),
        subnets: Vec::new(),
        spec: PortSpec::default(),
        binding: None,
    };
    let kind = LinkKind::Neutron(Box::new(link));
    made.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
    made
}

/// What the cloud says: what was asked for, in its subnet, else an address that follows from who asks.
pub(crate) fn offer(attachment: &Attachment) -> Offer {
    let last = attachment.id.container.as_str().as_bytes()[0];
    let mut nets: Vec<IpNet> = attachment
        .leases
        .iter()
        .map(|lease| IpNet::new(lease.address.addr(), 24).unwrap())
        .collect();
    if nets.is_empty() {
        nets.push(format!("10.9.0.{last}/24").parse().unwrap());
    }
    nets.push(ADDED.replace('9', &format!("{last:x}")).parse().unwrap());
    let held = |address| InterfaceAddress { address, gateway: None, interface: None };
    let mut link = attachment.wiring.link.clone().unwrap();
    link.mac = Some(Mac::local([0, 0, 0, 0, 7, last]));
    let LinkKind::Neutron(neutron) = &mut link.kind else { unreachable!() };
    let port = format!("port-{}", attachment.id.container).parse().unwrap();
    neutron.binding =
        Some(Binding { port, ownership: Ownership::Own, vif: Vif::Tap, user: PortUser::Container });
    Offer {
        addresses: nets.into_iter().map(held).collect(),
        routes: Vec::new(),
        dns: Dns::default(),
        link: Some(link),
    }
}

/// What Docker's CreateEndpoint asks for with addresses that were handed out before.
fn endpoint(network: &Network, container: &str, addresses: &[&str]) -> Request {
    let mut asked = request(network, container);
    asked.ifname = "eth".parse().unwrap();
    let lease = |address: &&str| Lease {
        space: network.wiring.space(&network.name),
        pool: None,
        address: address.parse().unwrap(),
        gateway: None,
    };
    asked.ipam = match addresses {
        [] => Ipam::None,
        _ => Ipam::Fixed { leases: addresses.iter().map(lease).collect() },
    };
    asked
}

fn enrolled(engine: &Engine<'_>, name: &str) -> Network {
    let made = clouded(name);
    engine.networks.enroll(&alias(name, &made), &made).unwrap();
    made
}

fn held(attachment: &Attachment) -> Vec<String> {
    attachment.leases.iter().map(|lease| lease.address.to_string()).collect()
}

#[test]
fn one_address_in_two_clouds_networks_is_two_addresses() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (front, back) = (enrolled(engine, "front"), enrolled(engine, "back"));
        let asked = endpoint(&front, "a", &["10.9.0.5/24"]);
        let made = engine.attachments.reserve(&asked, &id("front")).unwrap();
        assert_eq!(held(&made), ["10.9.0.5/24", "fd77::61/64"]);
        assert!(made.leases.iter().all(|it| it.space == Space::Network(front.name.clone())));
        let LinkKind::Neutron(link) = &made.wiring.link.as_ref().unwrap().kind else { panic!() };
        assert_eq!(link.binding.as_ref().unwrap().port.as_str(), "port-a");
        engine.attachments.reserve(&endpoint(&back, "b", &["10.9.0.5/24"]), &id("back")).unwrap();
        engine.attachments.join(&made.id, &joining("s", Handoff::Caller)).unwrap();
        let taken = endpoint(&front, "c", &["10.9.0.5/24"]);
        let calls = rig.calls().len();
        let error = engine.attachments.reserve(&taken, &id("front")).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        // The cloud was not even asked.
        assert!(rig.calls().is_empty() && calls > 0);
    });
}

#[test]
fn an_endpoint_that_is_made_again_is_the_same() {
    let rig = Rig::new();
    rig.with(|engine| {
        let front = enrolled(engine, "front");
        for addresses in [&["10.9.0.5/24"][..], &[]] {
            let asked = endpoint(&front, if addresses.is_empty() { "b" } else { "a" }, addresses);
            let made = engine.attachments.reserve(&asked, &id("front")).unwrap();
            rig.calls();
            assert_eq!(engine.attachments.reserve(&asked, &id("front")).unwrap(), made);
            assert_eq!(rig.calls(), Vec::<String>::new());
        }
        let other = endpoint(&front, "a", &["10.9.0.6/24"]);
        assert_eq!(
            engine.attachments.reserve(&other, &id("front")).unwrap_err().kind(),
            Kind::Conflict
        );
    });
}

#[test]
fn a_wanted_address_gets_the_prefix_of_its_subnet() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut asked = request(&clouded("front"), "a");
        asked.wanted = vec!["10.9.0.7".parse().unwrap()];
        let made = engine.attachments.attach(&asked).unwrap();
        assert_eq!(held(&made), ["10.9.0.7/24", "fd77::61/64"]);
        assert_eq!(rig.kernel().clouded.len(), 1);
        engine.links.detach(&asked).unwrap();
    });
    assert_eq!(rig.kernel(), Kernel::default());
}

#[test]
fn leaving_keeps_the_port_and_a_refusal_none() {
    let rig = Rig::new();
    rig.with(|engine| {
        let front = enrolled(engine, "front");
        let made = engine.attachments.reserve(&endpoint(&front, "a", &[]), &id("front")).unwrap();
        engine.attachments.join(&made.id, &joining("s", Handoff::Caller)).unwrap();
        engine.attachments.leave(&made.id).unwrap();
        assert_eq!(rig.kernel().clouded.len(), 1);
        let again = engine.attachments.join(&made.id, &joining("t", Handoff::Caller)).unwrap();
        assert_eq!(again.leases, made.leases);
        engine.links.remove(&made.id).unwrap();
        *rig.fails.lock().unwrap() = Some("offer");
        let refused =
            engine.attachments.reserve(&endpoint(&front, "b", &["10.9.0.5/24"]), &id("front"));
        assert_eq!(refused.unwrap_err().kind(), Kind::Kernel);
        *rig.fails.lock().unwrap() = None;
        assert!(engine.records.holders().unwrap().is_empty() && rig.kernel().clouded.is_empty());
    });
}

#[test]
fn whenever_the_process_dies_removing_leaves_nothing() {
    for again in [false, true] {
        for effect in 0.. {
            let rig = Rig::new();
            let asked =
                rig.with(|engine| endpoint(&enrolled(engine, "front"), "a", &["10.9.0.5/24"]));
            rig.die_before(effect);
            let lived = rig.with(|engine| {
                let made = engine.attachments.reserve(&asked, &id("front"))?;
                engine.attachments.join(&made.id, &joining("s", Handoff::Finish))?;
                engine.attachments.leave(&made.id)?;
                engine.links.remove(&made.id)
            });
            rig.reborn();
            rig.with(|engine| {
                if again {
                    engine.attachments.reserve(&asked, &id("front")).unwrap();
                }
                engine.links.remove(&asked.id()).unwrap();
                assert_eq!(engine.records.attachments().unwrap(), [], "effect {effect}");
                assert!(engine.records.holders().unwrap().is_empty(), "effect {effect}");
            });
            let kernel = rig.kernel();
            assert!(kernel.links.is_empty() && kernel.clouded.is_empty(), "effect {effect}");
            if lived.is_ok() {
                assert!(effect > 8, "{effect}");
                break;
            }
        }
    }
}
