//! What is understood, what is refused, and in which way.

use libnetwork::{
    Answer, Call, EndpointGiven, HostPorts, Joined, Method, Moved, PoolGiven, Purpose, Refusal,
    Request, Skip, StaticRoute,
};
use model::Kind;
use proptest::prelude::*;
use serde_json::json;

fn call(method: Method, body: &str) -> Call {
    match libnetwork::decode(method, body.as_bytes()) {
        Ok(Request::Do(call)) => *call,
        other => panic!("{body}: {other:?}"),
    }
}

fn syntax(method: Method, body: &str) -> String {
    match libnetwork::decode(method, body.as_bytes()) {
        Err(Refusal::Syntax(why)) => why,
        other => panic!("{body:.200}: {other:?}"),
    }
}

fn value(method: Method, body: &str) -> String {
    match libnetwork::decode(method, body.as_bytes()) {
        Err(Refusal::Value(error)) => {
            assert_eq!(error.kind(), Kind::Invalid);
            error.to_string()
        }
        other => panic!("{body:.200}: {other:?}"),
    }
}

#[test]
fn only_questions_come_without_a_body() {
    for method in Method::ALL {
        for body in ["", "\n", " \r\n"] {
            match libnetwork::decode(method, body.as_bytes()) {
                Ok(Request::Ask(_)) => {}
                Err(Refusal::Syntax(why)) => {
                    let begin = format!("{}: try again: spoke serve was restarted", method.name());
                    assert!(why.starts_with(&begin), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn paths_are_exact() {
    for method in Method::ALL {
        assert_eq!(Method::from_path(&format!("/{}", method.name())), Some(method));
    }
    for path in ["", "/", "/NetworkDriver.join", "NetworkDriver.Join", "/NetworkDriver.Join/"] {
        assert_eq!(Method::from_path(path), None);
    }
}

#[test]
fn null_absent_and_empty_are_the_same() {
    let bodies = [
        r#"{"NetworkID":"n","EndpointID":"e"}"#,
        r#"{"NetworkID":"n","EndpointID":"e","Interface":null,"Options":null}"#,
        r#"{"networkid":"n","ENDPOINTID":"e","Interface":{},"Options":{},"More":[{"x":1}]}"#,
        r#"{"NetworkID":"n","EndpointID":"e","Interface":{"Address":"","AddressIPv6":null,
            "MacAddress":""},"Options":{"com.docker.network.portmap":null,
            "com.docker.network.endpoint.exposedports":[],"unknown":{"a":1}}}"#,
    ];
    let first = call(Method::CreateEndpoint, bodies[0]);
    for body in bodies {
        assert_eq!(call(Method::CreateEndpoint, body), first);
    }
}

#[test]
fn hardware_addresses_come_in_two_forms() {
    for text in ["Aqq7zN0B", "02:aa:bb:cc:dd:01"] {
        let options = json!({ "com.docker.network.endpoint.macaddress": text });
        let body = json!({ "NetworkID": "n", "EndpointID": "e", "Options": options });
        let Call::CreateEndpoint(create) = call(Method::CreateEndpoint, &body.to_string()) else {
            panic!()
        };
        assert_eq!(create.options.mac.unwrap().to_string(), "02:aa:bb:cc:dd:01");
    }
}

#[test]
fn host_ports_are_chosen_by_us_or_named() {
    let ports = |first: u16, last: u16| {
        let binding = json!({ "Proto": 6, "Port": 80, "HostPort": first, "HostPortEnd": last });
        let options = json!({ "com.docker.network.portmap": [binding] });
        json!({ "NetworkID": "n", "EndpointID": "e", "Options": options }).to_string()
    };
    let read = |first, last| match call(Method::ProgramConnectivity, &ports(first, last)) {
        Call::ProgramConnectivity(program) => program.ports.bindings[0].host_ports,
        other => panic!("{other:?}"),
    };
    let port = |number| std::num::NonZeroU16::new(number).unwrap();
    assert_eq!(read(0, 0), HostPorts::Ephemeral);
    assert_eq!(read(8080, 8080), HostPorts::Range(port(8080), port(8080)));
    assert_eq!(read(8080, 0), HostPorts::Range(port(8080), port(8080)));
    assert_eq!(read(8080, 8090), HostPorts::Range(port(8080), port(8090)));
    assert_eq!(
        value(Method::ProgramConnectivity, &ports(9, 8)),
        "NetworkDriver.ProgramExternalConnectivity: \
         Options.com.docker.network.portmap[0].HostPortEnd: 8 is below HostPort 9"
    );
}

#[test]
fn wrong_values_are_named_with_their_field() {
    let cases = [
        (Method::DeleteNetwork, r"{}", "NetworkDriver.DeleteNetwork: NetworkID is missing"),
        (
            Method::DeleteNetwork,
            r#"{"NetworkID":"../x"}"#,
            r#"NetworkDriver.DeleteNetwork: NetworkID: "../x": must start with a letter or digit"#,
        ),
        (
            Method::CreateEndpoint,
            r#"{"NetworkID":"n","EndpointID":"e","Interface":{"Address":"10.1.2"}}"#,
            r#"NetworkDriver.CreateEndpoint: Interface.Address: "10.1.2": invalid IP address syntax"#,
        ),
        (
            Method::CreateNetwork,
            r#"{"NetworkID":"n","IPv4Data":[{"Pool":"fd00::/64"}]}"#,
            "NetworkDriver.CreateNetwork: IPv4Data[0].Pool: fd00:: is no IPv4 address",
        ),
        (
            Method::RequestPool,
            r#"{"AddressSpace":"a","SubPool":"10.0.0.0/24"}"#,
            "IpamDriver.RequestPool: SubPool 10.0.0.0/24 needs the Pool that it is part of",
        ),
        (
            Method::Join,
            r#"{"NetworkID":"n","EndpointID":"e","SandboxKey":"netns/x"}"#,
            r#"NetworkDriver.Join: SandboxKey: "netns/x" is no absolute path"#,
        ),
        (
            Method::Join,
            r#"{"NetworkID":"n","EndpointID":"e","SandboxKey":"/x","Options":
               {"com.docker.network.endpoint.exposedports":[{"Proto":1,"Port":7}]}}"#,
            "NetworkDriver.Join: Options.com.docker.network.endpoint.exposedports[0].Proto: \
             protocol 1 is none of 6 (tcp), 17 (udp), 132 (sctp)",
        ),
    ];
    for (method, body, sentence) in cases {
        assert_eq!(value(method, body), sentence);
    }
}

#[test]
fn wrong_types_are_syntax_errors() {
    for body in ["[]", "7", "\"x\"", "{", "{\"NetworkID\":7}", "{} {}", "\u{feff}{}"] {
        syntax(Method::DeleteNetwork, body);
    }
    let why = syntax(Method::CreateNetwork, r#"{"NetworkID":"n","Options":{"a":[]},"IPv4Data":7}"#);
    assert_eq!(why, "NetworkDriver.CreateNetwork: IPv4Data is a number and not a list");
    let deep = format!("{{\"NetworkID\":{}", "[".repeat(100_000));
    assert!(syntax(Method::DeleteNetwork, &deep).contains("recursion limit"));
}

#[test]
fn counts_and_lengths_are_bounded() {
    let long = "x".repeat(100_000);
    for body in [
        json!({ "NetworkID": long }),
        json!({ "NetworkID": "n", "Options": { "com.docker.network.generic": { "k": long } } }),
        json!({ "NetworkID": "n", "Options": { "com.docker.network.generic": { &long: "v" } } }),
        json!({ "NetworkID": "n", "IPv4Data": vec![json!({}); 2000] }),
    ] {
        assert!(value(Method::CreateNetwork, &body.to_string()).len() < 5000);
    }
    let key =
        json!({ "NetworkID": "n", "Options": { "com.docker.network.generic": { &long: 1 } } });
    assert!(value(Method::CreateNetwork, &key.to_string()).len() < 5000);
    let too_long = " ".repeat(libnetwork::LONGEST_BODY) + "{}";
    assert!(syntax(Method::DeleteNetwork, &too_long).contains("longer than"));
}

#[test]
fn purposes_are_recognized_by_options() {
    let purpose = |options: &str| {
        let body = format!(r#"{{"PoolID":"p","Options":{options}}}"#);
        match call(Method::RequestAddress, &body) {
            Call::RequestAddress(request) => request.purpose,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(purpose("null"), Purpose::Auxiliary);
    assert_eq!(purpose("{}"), Purpose::Endpoint);
    assert_eq!(purpose(r#"{"RequestAddressType":"com.docker.network.gateway"}"#), Purpose::Gateway);
}

#[test]
fn answers_are_spelt_as_the_contract_does() {
    let text = |answer: &Answer| serde_json::to_string(answer).unwrap();
    assert_eq!(text(&Answer::Done {}), "{}");
    assert_eq!(
        text(&Answer::Skip(Skip { ipv4: true, ipv6: false })),
        r#"{"SkipIPv4":true,"SkipIPv6":false}"#
    );
    let interface = EndpointGiven { mac: "02:00:00:00:00:01".parse().ok(), ..Default::default() };
    assert_eq!(
        text(&Answer::Endpoint { interface }),
        r#"{"Interface":{"MacAddress":"02:00:00:00:00:01"}}"#
    );
    assert_eq!(text(&Answer::Joined(Box::default())), "{}");
    let joined = Joined {
        interface: Some(Moved { from: "veth1".parse().unwrap(), prefix: "eth".to_owned() }),
        gateway: "10.1.0.1".parse().ok(),
        gateway_v6: "fd00::1".parse().ok(),
        routes: vec![
            StaticRoute::Via("10.2.0.0/16".parse().unwrap(), "10.1.0.2".parse().unwrap()),
            StaticRoute::Connected("10.3.0.0/16".parse().unwrap()),
        ],
        no_gateway_service: true,
    };
    assert_eq!(
        text(&Answer::Joined(Box::new(joined))),
        r#"{"InterfaceName":{"SrcName":"veth1","DstPrefix":"eth"},"Gateway":"10.1.0.1","#
            .to_owned()
            + r#""GatewayIPv6":"fd00::1","StaticRoutes":[{"Destination":"10.2.0.0/16","#
            + r#""RouteType":0,"NextHop":"10.1.0.2"},{"Destination":"10.3.0.0/16","RouteType":1}],"#
            + r#""DisableGatewayService":true}"#
    );
    let pool = PoolGiven {
        key: "local/10.1.0.0/16".parse().unwrap(),
        pool: "10.1.0.0/16".parse().unwrap(),
        data: [("a".to_owned(), "b".to_owned())].into(),
    };
    assert_eq!(
        text(&Answer::Pool(pool)),
        r#"{"PoolID":"local/10.1.0.0/16","Pool":"10.1.0.0/16","Data":{"a":"b"}}"#
    );
    let address = "10.1.0.2/16".parse().unwrap();
    assert_eq!(
        text(&Answer::Address { address, data: [].into() }),
        r#"{"Address":"10.1.0.2/16","Data":{}}"#
    );
}

fn any_method() -> impl Strategy<Value = Method> {
    proptest::sample::select(Method::ALL.to_vec())
}

/// JSON with the protocol's keys in it.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let keys = [
        "NetworkID",
        "EndpointID",
        "PoolID",
        "Address",
        "AddressSpace",
        "Pool",
        "SubPool",
        "V6",
        "Options",
        "IPv4Data",
        "IPv6Data",
        "Gateway",
        "AuxAddresses",
        "Interface",
        "MacAddress",
        "SandboxKey",
        "DiscoveryType",
        "DiscoveryData",
        "Proto",
        "Port",
        "HostPort",
        "HostIP",
        "com.docker.network.generic",
        "com.docker.network.portmap",
        "com.docker.network.endpoint.exposedports",
        "com.docker.network.endpoint.macaddress",
        "com.docker.network.endpoint.sysctls",
        "com.docker.network.endpoint.dnsservers",
        "com.docker.network.endpoint.ifname",
        "x",
    ];
    let texts = ["", "n", "10.0.0.0/8", "fd00::/64", "10.0.0.1", "Aqq7zN0B", "/x", "a.b=c,net.=1"];
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|flag| json!(flag)),
        any::<i64>().prop_map(|number| json!(number)),
        (0u32..200).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        proptest::sample::select(texts.to_vec()).prop_map(|text| json!(text)),
        ".{0,20}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let key = proptest::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            proptest::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn bytes_never_panic(method in any_method(), body in any::<Vec<u8>>()) {
        let _ = libnetwork::decode(method, &body);
    }

    #[test]
    fn json_never_panics_and_errors_stay_short(method in any_method(), body in any_json()) {
        match libnetwork::decode(method, body.to_string().as_bytes()) {
            Ok(Request::Do(call)) => { let _ = call.subject(); }
            Ok(Request::Ask(_)) => {}
            Err(Refusal::Syntax(why)) => prop_assert!(why.starts_with(method.name())),
            Err(Refusal::Value(error)) => {
                prop_assert_eq!(error.kind(), Kind::Invalid);
                prop_assert!(error.to_string().starts_with(method.name()));
            }
        }
    }

    #[test]
    fn ports_survive_the_wire(first in 0u16.., length in 0u16..100, port in 1u16.., proto in 0usize..3) {
        let proto = [6, 17, 132][proto];
        let last = if first == 0 { 0 } else { first.saturating_add(length) };
        let binding = json!({ "Proto": proto, "Port": port, "HostPort": first, "HostPortEnd": last });
        let options = json!({ "com.docker.network.portmap": [binding] });
        let body = json!({ "NetworkID": "n", "EndpointID": "e", "SandboxKey": "/s", "Options": options });
        let Call::Join(join) = call(Method::Join, &body.to_string()) else { panic!() };
        let read = join.ports.bindings[0];
        prop_assert_eq!((read.port.get(), u64::from(read.protocol.number())), (port, proto));
        match read.host_ports {
            HostPorts::Ephemeral => prop_assert_eq!(first, 0),
            HostPorts::Range(from, to) => prop_assert_eq!((from.get(), to.get()), (first, last)),
        }
    }
}
