//! Recordings of real engines: 20.10.24, 24.0.9, 28.5.2 and 29. Requests that differ in nothing
//! but ids, addresses and hardware addresses stand there once; `n` is how often they came.

use std::collections::BTreeMap;
use std::path::Path;

use libnetwork::{Call, Discovery, Method, Purpose, Refusal, Request};
use serde_json::Value;

pub(crate) struct Recorded {
    pub(crate) times: u64,
    pub(crate) method: Method,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// All recordings of an engine, by the file's name.
pub(crate) fn recorded(engine: &str) -> Vec<Recorded> {
    let path = format!("{}/tests/traces/{engine}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(Path::new(&path)).unwrap();
    text.lines().map(line).collect()
}

fn line(line: &str) -> Recorded {
    let line: Value = serde_json::from_str(line).unwrap();
    let request = line["req"].as_str().unwrap();
    let path = request.strip_prefix("POST ").unwrap().strip_suffix(" HTTP/1.1").unwrap();
    let headers = line["hdr"].as_object().unwrap();
    let header = |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap().into());
    Recorded {
        times: line["n"].as_u64().unwrap(),
        method: Method::from_path(path).unwrap(),
        headers: headers.iter().map(header).collect(),
        body: line["body"].as_str().unwrap().to_owned(),
    }
}

pub(crate) const ENGINES: [&str; 7] = [
    "20.10",
    "20.10-scenarios",
    "24.0.9",
    "28.5.2",
    "29",
    "29-gwalloccheck",
    "29-managed-plugin-swarm",
];

fn calls(engine: &str) -> impl Iterator<Item = Call> {
    recorded(engine).into_iter().filter_map(|recorded| {
        match libnetwork::decode(recorded.method, recorded.body.as_bytes()) {
            Ok(Request::Do(call)) => Some(*call),
            Ok(Request::Ask(_)) | Err(_) => None,
        }
    })
}

fn all_calls() -> impl Iterator<Item = Call> {
    ENGINES.into_iter().flat_map(calls)
}

#[test]
fn every_request_is_understood() {
    let mut counts = BTreeMap::<Method, u64>::new();
    let mut empty = 0;
    for engine in ENGINES {
        for recorded in recorded(engine) {
            *counts.entry(recorded.method).or_default() += recorded.times;
            match libnetwork::decode(recorded.method, recorded.body.as_bytes()) {
                Ok(_) => {}
                // The retries of a Join whose answer never came: their bodies are lost.
                Err(Refusal::Syntax(_)) if recorded.body.is_empty() => empty += recorded.times,
                Err(refusal) => panic!("{engine} {}: {refusal:?}", recorded.body),
            }
        }
    }
    assert_eq!(empty, 3);
    assert_eq!(counts.values().sum::<u64>(), 1453);
    let expected = [
        (Method::Activate, 20),
        (Method::NetworkCapabilities, 22),
        (Method::GwAllocCheck, 1),
        (Method::CreateNetwork, 47),
        (Method::DeleteNetwork, 46),
        (Method::AllocateNetwork, 1),
        (Method::FreeNetwork, 1),
        (Method::CreateEndpoint, 116),
        (Method::EndpointOperInfo, 160),
        (Method::DeleteEndpoint, 106),
        (Method::Join, 111),
        (Method::Leave, 103),
        (Method::ProgramConnectivity, 77),
        (Method::RevokeConnectivity, 68),
        (Method::DiscoverNew, 2),
        (Method::IpamCapabilities, 22),
        (Method::AddressSpaces, 62),
        (Method::RequestPool, 57),
        (Method::ReleasePool, 57),
        (Method::RequestAddress, 195),
        (Method::ReleaseAddress, 179),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn no_engine_sends_a_content_type_and_the_oldest_no_host() {
    for engine in ENGINES {
        for recorded in recorded(engine) {
            let header = |name| {
                let mut headers = recorded.headers.iter();
                headers.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
            };
            assert_eq!(header("Content-Type"), None);
            let host = if engine.starts_with("20.10") { "" } else { "plugin.moby.localhost" };
            assert_eq!(header("Host"), Some(host));
        }
    }
}

#[test]
fn ipv4_is_named_since_28() {
    let known = |engine| {
        calls(engine).filter_map(|call| match call {
            Call::CreateNetwork(network) => Some(network.options.ipv4.is_some()),
            _ => None,
        })
    };
    assert!(known("20.10").chain(known("24.0.9")).all(|known| !known));
    assert!(known("28.5.2").chain(known("29")).all(|known| known));
}

#[test]
fn options_of_networks_and_endpoints_are_read() {
    let networks: Vec<_> = all_calls()
        .filter_map(|call| match call {
            Call::CreateNetwork(network) => Some(network),
            _ => None,
        })
        .collect();
    assert!(networks.iter().any(|network| network.options.internal));
    assert!(networks.iter().any(|network| network.options.ipv6 && !network.ipv6.is_empty()));
    assert!(networks.iter().any(|network| {
        network
            .options
            .generic
            .get("com.docker.network.driver.mtu")
            .is_some_and(|mtu| mtu == "1400")
    }));
    let aux = networks.iter().flat_map(|network| &network.ipv4).flat_map(|subnet| &subnet.aux);
    assert!(aux.clone().any(|(name, address)| name == "q" && address.to_string() == "10.186.0.9"));

    let options: Vec<_> = all_calls()
        .filter_map(|call| match call {
            Call::CreateEndpoint(create) => Some(create.options),
            _ => None,
        })
        .collect();
    let eth7 = "eth7".parse().unwrap();
    let sysctls =
        |options: &libnetwork::EndpointOptions| options.sysctls.first().map(|s| s.of(&eth7));
    let paths: Vec<_> = options.iter().filter_map(sysctls).map(|sysctl| sysctl.path).collect();
    assert!(paths.contains(&"net/ipv4/conf/eth7/log_martians".into()), "{paths:?}");
    assert!(options.iter().any(|options| options.mac.is_some()));
    assert!(options.iter().any(|options| options.ifname.is_some()));
    assert!(options.iter().any(|options| !options.dns.is_empty()));
    assert!(options.iter().any(|options| options.driver.contains_key("k")));
    assert!(options.iter().any(|options| options.ports.bindings.len() > 1));
}

#[test]
fn addresses_say_what_they_are_for() {
    let requests: Vec<_> = all_calls()
        .filter_map(|call| match call {
            Call::RequestAddress(request) => Some(request),
            _ => None,
        })
        .collect();
    for request in &requests {
        match request.purpose {
            Purpose::Gateway => assert_eq!((request.mac, &request.endpoint), (None, &None)),
            Purpose::Endpoint => assert!(request.mac.is_some() || request.serial),
            Purpose::Auxiliary => assert_eq!(request.mac, None),
        }
    }
    let of = |purpose| requests.iter().filter(|request| request.purpose == purpose).count();
    assert!(of(Purpose::Gateway) > 0 && of(Purpose::Endpoint) > 0 && of(Purpose::Auxiliary) > 0);
    assert!(requests.iter().any(|request| request.endpoint.is_some()));
    assert!(requests.iter().any(|request| request.serial));
}

#[test]
fn swarm_tells_of_its_nodes() {
    let own = |call| matches!(call, Call::DiscoverNew(Discovery::Node(node)) if node.own);
    assert!(calls("29-managed-plugin-swarm").any(own));
}
