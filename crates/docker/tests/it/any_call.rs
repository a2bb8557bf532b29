//! Any call of the protocol.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::str::FromStr;

use libnetwork::{
    AllocateNetwork, Call, CreateEndpoint, CreateNetwork, Discovery, EndpointName, EndpointOptions,
    EndpointRef, Exposed, HostPorts, Interface, Join, NetworkOptions, Node, PortBinding, Ports,
    ProgramConnectivity, Purpose, ReleaseAddress, RequestAddress, RequestPool, Subnet,
};
use model::{IpNet, Mac, Protocol};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn call() -> impl Strategy<Value = Call> {
    prop_oneof![network_call(), endpoint_call(), ipam_call()]
}

fn id<T: FromStr<Err: Debug> + Debug>() -> impl Strategy<Value = T> {
    "[0-9a-f]{1,64}".prop_map(|text| text.parse::<T>().unwrap())
}

fn name<T: FromStr<Err: Debug> + Debug>() -> impl Strategy<Value = T> {
    "[ -~äß]{0,30}[a-z/|]".prop_map(|text| text.parse::<T>().unwrap())
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[a-z.\"\\\\ä]{0,12}", "\\PC{0,20}", 0..4)
}

fn v4() -> impl Strategy<Value = IpAddr> {
    any::<Ipv4Addr>().prop_map(IpAddr::V4)
}

fn v6() -> impl Strategy<Value = IpAddr> {
    any::<Ipv6Addr>().prop_map(IpAddr::V6)
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![v4(), v6()]
}

fn v4_net() -> impl Strategy<Value = IpNet> {
    (v4(), 0u8..=32).prop_map(|(address, length)| IpNet::new(address, length).unwrap())
}

fn v6_net() -> impl Strategy<Value = IpNet> {
    (v6(), 0u8..=128).prop_map(|(address, length)| IpNet::new(address, length).unwrap())
}

fn net() -> impl Strategy<Value = IpNet> {
    prop_oneof![v4_net(), v6_net()]
}

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac::new)
}

fn at() -> impl Strategy<Value = EndpointRef> {
    (id(), id()).prop_map(|(network, endpoint)| EndpointRef { network, endpoint })
}

fn subnets(v6_too: bool) -> impl Strategy<Value = Vec<Subnet>> {
    let (net, one) = match v6_too {
        true => (v6_net().boxed(), v6().boxed()),
        false => (v4_net().boxed(), v4().boxed()),
    };
    let aux = btree_map("[a-z]{1,8}", one, 0..3);
    let subnet = (option::of(name()), net.clone(), option::of(net), aux)
        .prop_map(|(space, pool, gateway, aux)| Subnet { space, pool, gateway, aux });
    vec(subnet, 0..3)
}

fn network_options() -> impl Strategy<Value = NetworkOptions> {
    (texts(), any::<Option<bool>>(), any::<bool>(), any::<bool>()).prop_map(
        |(generic, ipv4, ipv6, internal)| NetworkOptions { generic, ipv4, ipv6, internal },
    )
}

fn protocol() -> impl Strategy<Value = Protocol> {
    select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp])
}

fn host_ports() -> impl Strategy<Value = HostPorts> {
    prop_oneof![
        Just(HostPorts::Ephemeral),
        (any::<NonZeroU16>(), any::<NonZeroU16>())
            .prop_map(|(one, other)| HostPorts::Range(one.min(other), one.max(other))),
    ]
}

fn ports() -> impl Strategy<Value = Ports> {
    let exposed = (protocol(), any::<NonZeroU16>());
    let exposed = exposed.prop_map(|(protocol, port)| Exposed { protocol, port });
    let binding = (
        protocol(),
        any::<NonZeroU16>(),
        option::of(address()),
        option::of(address()),
        host_ports(),
    );
    let binding = binding.prop_map(|(protocol, port, address, host, host_ports)| PortBinding {
        protocol,
        port,
        address,
        host,
        host_ports,
    });
    (vec(exposed, 0..4), vec(binding, 0..4))
        .prop_map(|(exposed, bindings)| Ports { exposed, bindings })
}

fn endpoint_options() -> impl Strategy<Value = EndpointOptions> {
    let sysctl = "net\\.ipv[46]\\.conf\\.IFNAME\\.[a-z_]{1,9}=[0-9]{1,3}";
    let sysctl = sysctl.prop_map(|text: String| text.parse().unwrap());
    let ifname = "[a-z]{1,9}[0-9]".prop_map(|text| text.parse().unwrap());
    (
        ports(),
        vec(address(), 0..3),
        option::of(mac()),
        option::of(ifname),
        vec(sysctl, 0..3),
        texts(),
    )
        .prop_map(|(ports, dns, mac, ifname, sysctls, driver)| EndpointOptions {
            ports,
            dns,
            mac,
            ifname,
            sysctls,
            driver,
        })
}

fn network_call() -> impl Strategy<Value = Call> {
    let create = (id(), network_options(), subnets(false), subnets(true)).prop_map(
        |(id, options, ipv4, ipv6)| Call::CreateNetwork(CreateNetwork { id, options, ipv4, ipv6 }),
    );
    let allocate =
        (id(), texts(), subnets(false), subnets(true)).prop_map(|(id, options, ipv4, ipv6)| {
            Call::AllocateNetwork(AllocateNetwork { id, options, ipv4, ipv6 })
        });
    let node = (address(), option::of(address()), any::<bool>())
        .prop_map(|(address, bind, own)| Discovery::Node(Node { address, bind, own }));
    let news = prop_oneof![node, (2u64..).prop_map(Discovery::Other)];
    prop_oneof![
        network_options().prop_map(Call::GwAllocCheck),
        create,
        allocate,
        id().prop_map(Call::DeleteNetwork),
        id().prop_map(Call::FreeNetwork),
        news.clone().prop_map(Call::DiscoverNew),
        news.prop_map(Call::DiscoverDelete),
    ]
}

fn endpoint_call() -> impl Strategy<Value = Call> {
    let interface = (option::of(v4_net()), option::of(v6_net()), option::of(mac()))
        .prop_map(|(ipv4, ipv6, mac)| Interface { ipv4, ipv6, mac });
    let create = (at(), interface, endpoint_options()).prop_map(|(at, interface, options)| {
        Call::CreateEndpoint(CreateEndpoint { at, interface, options })
    });
    let join = (at(), "/[a-z/ä]{0,20}", ports())
        .prop_map(|(at, sandbox, ports)| Call::Join(Join { at, sandbox: sandbox.into(), ports }));
    let program = (at(), ports(), any::<bool>()).prop_map(|(at, ports, no_proxy_6to4)| {
        Call::ProgramConnectivity(ProgramConnectivity { at, ports, no_proxy_6to4 })
    });
    prop_oneof![
        create,
        join,
        program,
        at().prop_map(Call::EndpointOperInfo),
        at().prop_map(Call::DeleteEndpoint),
        at().prop_map(Call::Leave),
        at().prop_map(Call::RevokeConnectivity),
    ]
}

fn ipam_call() -> impl Strategy<Value = Call> {
    let pool = (name(), option::of((net(), option::of(net()))), texts(), any::<bool>()).prop_map(
        |(space, pool, options, v6)| {
            let (pool, sub) = pool.map_or((None, None), |(pool, sub)| (Some(pool), sub));
            Call::RequestPool(RequestPool { space, pool, sub, options, v6 })
        },
    );
    let owner = "[a-z]{1,9}".prop_map(|text| text.parse().unwrap());
    let for_endpoint = (option::of(mac()), option::of(owner), any::<bool>());
    let purpose = prop_oneof![
        for_endpoint.prop_map(|said| (Purpose::Endpoint, said)),
        any::<bool>().prop_map(|serial| (Purpose::Gateway, (None, None, serial))),
        Just((Purpose::Auxiliary, (None, None, false))),
    ];
    let request = (name(), option::of(address()), purpose).prop_map(
        |(pool, address, (purpose, (mac, endpoint, serial)))| {
            let endpoint = endpoint.map(EndpointName::Usable);
            let request = RequestAddress { pool, address, purpose, mac, endpoint, serial };
            Call::RequestAddress(request)
        },
    );
    let release = (name(), address())
        .prop_map(|(pool, address)| Call::ReleaseAddress(ReleaseAddress { pool, address }));
    prop_oneof![pool, request, release, name().prop_map(Call::ReleasePool)]
}
