//! What every test of a store needs.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use engine::port::{Key, Outcome, Record, Revision, Store, Txn, Versioned};
use model::{
    Alias, Amendment, Attachment, AttachmentId, Bandwidth, Claim, Cursor, GatewayRole,
    GatewayState, Handoff, Holder, Ipam, Layer, Lease, Network, Order, Period, Phase, PoolId,
    Process, Protocol, Publisher, Reservation, Runtime, SandboxRecord, Space, Sticky, Subnet,
    SubnetId, Tenant, Timestamp, Usage, Wiring,
};
use store::{Embedded, Roots};

pub(crate) const BOOT: &str = "0f3a6c1e-1111-4000-8000-000000000001";
pub(crate) const NEXT_BOOT: &str = "0f3a6c1e-2222-4000-8000-000000000002";

pub(crate) fn embedded(directory: &Path, boot: &str) -> Embedded {
    let roots = Roots { runtime: directory.join("run"), state: directory.join("state") };
    Embedded::open(roots, boot).unwrap()
}

pub(crate) fn id(network: &str, container: &str) -> AttachmentId {
    doubles::attachment_id(network, container)
}

pub(crate) fn lease_key(address: &str) -> Key {
    Key::Lease(Space::Host, address.parse().unwrap())
}

pub(crate) fn lease(address: &str, container: &str) -> Record {
    let net = format!("{address}/{}", if address.contains(':') { 64 } else { 16 });
    Record::Lease(Holder {
        lease: Lease {
            space: Space::Host,
            pool: Some(PoolId { network: "podman".parse().unwrap(), index: 0 }),
            address: net.parse().unwrap(),
            gateway: None,
        },
        tenant: Tenant::Attachment { id: id("podman", container), layer: Layer::Link },
        runtime: Runtime::Podman,
        since: Timestamp(1_700_000_000),
        owner: Some("default/web-0".parse().unwrap()),
        quarantined: None,
    })
}

/// A lease that goes with a request and not with an attachment.
pub(crate) fn requested(address: &str) -> Record {
    let Record::Lease(holder) = lease(address, "c") else { panic!("not a lease") };
    let subnet = subnet_id(Space::Host, "10.0.0.0/16", Some("10.0.0.0/24"));
    Record::Lease(Holder {
        tenant: Tenant::Request { subnet, user: Some(id("podman", "c")) },
        ..holder
    })
}

pub(crate) fn attachment_key(network: &str, container: &str) -> Key {
    Key::Attachment(id(network, container), Layer::Link)
}

pub(crate) fn attachment(network: &str, container: &str) -> Record {
    Record::Attachment(Box::new(Attachment::new(
        id(network, container),
        Layer::Link,
        Runtime::Cni,
        Timestamp(1),
        Phase::Attaching { by: Process { pid: 1, start: 2 } },
    )))
}

/// With the names of an owner and of the sandbox.
pub(crate) fn called(
    network: &str,
    container: &str,
    (owner, sandbox): (Option<&str>, Option<&str>),
) -> Record {
    let Record::Attachment(mut held) = attachment(network, container) else { panic!("another") };
    held.owner = owner.map(|owner| owner.parse().unwrap());
    let sandbox = sandbox.map(|sandbox| sandbox.parse().unwrap());
    held.gateway_role =
        sandbox.map(|sandbox| GatewayRole { sandbox: Some(sandbox), ..GatewayRole::default() });
    Record::Attachment(held)
}

pub(crate) fn network(name: &str) -> Record {
    Record::Network(Box::new(Network::new(
        name.parse().unwrap(),
        Runtime::Spoke,
        Timestamp(1),
        Wiring::default(),
        Ipam::None,
    )))
}

pub(crate) fn cursor_key(index: u8) -> Key {
    Key::Cursor(PoolId { network: "podman".parse().unwrap(), index })
}

pub(crate) fn cursor(at: u32) -> Record {
    Record::Cursor(Cursor::new(std::net::Ipv4Addr::from(at).into()))
}

pub(crate) fn port_key(port: u16) -> Key {
    Key::Port(Protocol::Tcp, port.try_into().unwrap())
}

pub(crate) fn port(container: &str) -> Record {
    Record::Port(vec![Claim { host: None, holder: id("podman", container), sandbox: None }])
}

pub(crate) fn sticky_key(owner: &str) -> Key {
    Key::Sticky("podman".parse().unwrap(), owner.parse().unwrap())
}

pub(crate) fn sticky(addresses: &[&str]) -> Record {
    Record::Sticky(addresses.iter().map(|address| address.parse().unwrap()).collect())
}

/// Of a host's or a cluster's subnet, written `10.1.0.0/16`, or of a part of it.
pub(crate) fn subnet_id(space: Space, net: &str, part: Option<&str>) -> SubnetId {
    SubnetId { space, net: net.parse().unwrap(), part: part.map(|part| part.parse().unwrap()) }
}

pub(crate) fn subnet(id: &SubnetId, references: u32) -> Record {
    Record::Subnet(Subnet {
        id: id.clone(),
        network: "docker-10.1.0.0-16".parse().unwrap(),
        runtime: Runtime::Docker,
        since: Timestamp(1),
        references,
        order: Order::LowestFree,
        sticky: Sticky::Name,
        listed: true,
        lister: "5a2e".parse().ok(),
    })
}

pub(crate) fn alias_key(id: &str) -> Key {
    Key::Alias(id.parse().unwrap())
}

pub(crate) fn alias(id: &str, network: &str) -> Record {
    Record::Alias(Alias {
        id: id.parse().unwrap(),
        network: network.parse().unwrap(),
        runtime: Runtime::Docker,
        since: Timestamp(1),
        title: Some("front".parse().unwrap()),
        publisher: Publisher::Runtime,
        handoff: Handoff::Caller,
        publish_on: Some("192.0.2.1".parse().unwrap()),
        lister: "5a2e".parse().ok(),
        prefix: Some("eth".parse().unwrap()),
    })
}

pub(crate) fn sandbox_record(container: &str) -> Record {
    Record::Sandbox(SandboxRecord {
        members: [id("podman", container), id("kube", container)].into(),
        ports: Vec::new(),
        added: Vec::new(),
        namespace: None,
        gateway_state: GatewayState::By(Process { pid: 1, start: 2 }),
    })
}

pub(crate) fn amendment_key(name: &str) -> Key {
    Key::Amendment("podman".parse().unwrap(), Runtime::Podman, name.parse().unwrap())
}

pub(crate) fn amendment(name: &str) -> Record {
    Record::Amendment(Box::new(Amendment {
        network: "podman".parse().unwrap(),
        runtime: Runtime::Podman,
        name: name.parse().unwrap(),
        is_of_endpoint: false,
        layer: Layer::Publish,
        ports: Vec::new(),
        bandwidth: Some(Bandwidth::default()),
        egress: None,
    }))
}

pub(crate) fn usage_key(name: &str) -> Key {
    Key::Usage(
        "podman".parse().unwrap(),
        Runtime::Podman,
        name.parse().unwrap(),
        "eth0".parse().unwrap(),
    )
}

pub(crate) fn usage(used: u64) -> Record {
    Record::Usage(Usage { used, ..Usage::fresh(Period::Month, Timestamp(1)) })
}

pub(crate) fn reservation_key(address: &str) -> Key {
    Key::Reservation(Space::Host, address.parse().unwrap())
}

pub(crate) fn reservation(address: &str) -> Record {
    Record::Reservation(Reservation::new(Space::Host, address.parse().unwrap()))
}

/// Commits what must not be lost.
pub(crate) fn done(store: &dyn Store, txn: Txn) -> Revision {
    match store.commit(&txn).unwrap() {
        Outcome::Done(revision) => revision,
        Outcome::Lost(key) => panic!("lost {key:?}"),
    }
}

pub(crate) fn get(store: &dyn Store, key: &Key) -> Option<Versioned> {
    store.get(key).unwrap()
}
