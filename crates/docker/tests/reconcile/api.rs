//! What engines say, and what they fail to say.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use docker::api::{Api, Endpoint, Network, News, Reach, Subnet};
use model::{AliasId, Kind};
use serde_json::json;

use crate::fake::{Answer, Fake, recorded};

fn id(text: &str) -> AliasId {
    text.parse().unwrap()
}

const BOTH: &str = "8daf3e133fe29f5ba2cd4efe18c576a48cdeef0f7018dfcf3401d349dc4bfb2f";
const NULLS: &str = "2680992121a818c782a65db64147fdb9b80e1cae2885bab15b1dc8efd7505102";

#[test]
fn reads_what_an_engine_of_20_10_lists() {
    let fake = Fake::new();
    fake.answer("/networks", Answer::Chunks(recorded("20.10/networks-swarm.json")));
    let networks = fake.api().networks().unwrap();
    let both = networks.iter().find(|network| network.id == id(BOTH)).unwrap();
    let subnet = |net: &str| Subnet { net: net.parse().unwrap(), part: None };
    assert_eq!(
        *both,
        Network {
            id: id(BOTH),
            name: Some("both".parse().unwrap()),
            driver: "spoke".into(),
            ipam: "spoke".into(),
            reach: Reach::Local,
            subnets: vec![subnet("10.252.0.0/24"), subnet("fd00:1::/64")],
        }
    );
    let reach = |name: &str| {
        let found = networks.iter().find(|n| n.name.as_ref().is_some_and(|n| n.as_str() == name));
        found.unwrap().reach
    };
    assert_eq!(reach("ingress"), Reach::Swarm);
    assert_eq!(reach("conf"), Reach::Template);
    assert_eq!(fake.api().version().unwrap(), "20.10.24+dfsg1");
}

#[test]
fn reads_the_endpoints_of_a_network() {
    let fake = Fake::new();
    fake.answer(&format!("/networks/{BOTH}"), Answer::Length(recorded("20.10/network-both.json")));
    fake.answer(
        &format!("/networks/{NULLS}"),
        Answer::Chunks(recorded("20.10/network-nulls.json")),
    );
    let endpoints = fake.api().endpoints(&id(BOTH)).unwrap().unwrap();
    let addresses = |endpoint: &Endpoint| -> Vec<String> {
        endpoint.addresses.iter().map(ToString::to_string).collect()
    };
    let names: Vec<_> = endpoints.iter().map(|e| e.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, ["dual", "web"]);
    assert_eq!(addresses(&endpoints[0]), ["10.252.0.3", "fd00:1::3"]);
    assert!(endpoints[0].id.as_str().starts_with("e397d4993018"));
    let none = fake.api().endpoints(&id(NULLS)).unwrap().unwrap();
    assert_eq!(addresses(&none[0]), [""; 0]);
    assert_eq!(fake.api().endpoints(&id("gone")).unwrap(), None);
}

#[test]
fn reads_running_containers_of_both_ages() {
    let fake = Fake::new();
    for (version, endpoints) in [("20.10", 6), ("28.5", 3)] {
        let json = recorded(&format!("{version}/containers.json"));
        fake.answer("/containers/json", Answer::Chunks(json));
        let running = fake.api().running().unwrap();
        assert_eq!(running.len(), endpoints, "{version}");
        let of_web = running.iter().filter(|(_, e)| e.name == Some("web".parse().unwrap()));
        let addresses: Vec<usize> = of_web.map(|(_, e)| e.addresses.len()).collect();
        assert_eq!(addresses, [2, 1], "{version}");
    }
}

#[test]
fn reads_the_ports_that_an_engine_maps() {
    let fake = Fake::new();
    let ports = r#"[{"Ports":[
        {"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},
        {"IP":"::","PrivatePort":53,"PublicPort":5353,"Type":"udp"},
        {"PrivatePort":81,"Type":"tcp"},
        {"IP":"0.0.0.0","PrivatePort":0,"PublicPort":9,"Type":"tcp"},
        {"IP":"nowhere","PrivatePort":1,"PublicPort":9,"Type":"tcp"},
        {"IP":"::","PrivatePort":1,"PublicPort":9,"Type":"carrier pigeon"},
        null],
        "NetworkSettings":{"Networks":{"shop_default":{"NetworkID":"0123456789abcdef"}}}},{"Ports":null}]"#;
    fake.answer("/containers/json", Answer::Chunks(ports.into()));
    let containers = fake.api().containers().unwrap();
    let shown = containers.iter().map(|c| c.ports.iter().map(ToString::to_string).collect());
    let shown: Vec<Vec<String>> = shown.collect();
    assert_eq!(shown, [vec!["0.0.0.0:8080->80/tcp", "[::]:5353->53/udp"], vec![]]);
    let networks = [("0123456789abcdef".parse().unwrap(), "shop_default".parse().unwrap())];
    assert_eq!(containers[0].networks, networks.into());
}

#[test]
fn says_the_same_of_a_container_in_both_lists() {
    let fake = Fake::new();
    for (version, network) in [
        ("20.10", BOTH),
        ("28.5", "86b4f343d70a2ac0bdec1a9ce3bbba154381e3a109685a6615721098623671e6"),
    ] {
        let file = |name: &str| Answer::Chunks(recorded(&format!("{version}/{name}.json")));
        fake.answer("/containers/json", file("containers"));
        fake.answer(&format!("/networks/{network}"), file("network-both"));
        let running = fake.api().running().unwrap();
        let mut there: Vec<Endpoint> = running
            .into_iter()
            .filter(|(of, _)| *of == Some(id(network)))
            .map(|(_, endpoint)| endpoint)
            .collect();
        let mut here = fake.api().endpoints(&id(network)).unwrap().unwrap();
        there.sort_by(|a, b| a.id.cmp(&b.id));
        here.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(there, here, "{version}");
    }
}

#[test]
fn takes_null_for_nothing_and_passes_over_what_it_does_not_know() {
    let fake = Fake::new();
    let lists = r#"[{"Id":"n1","Name":null,"IPAM":null,"Containers":null,"New":[{"a":[1]}]},
        {"ID":"n2","IPAM":{"Config":[null,{"Subnet":""},{"Subnet":"10.1.2.3/16","IPRange":"10.1.4.9/24"}]}}]"#;
    fake.answer("/networks", Answer::Chunks(lists.into()));
    let networks = fake.api().networks().unwrap();
    assert_eq!((networks[0].name.as_ref(), networks[0].reach), (None, Reach::Local));
    let (net, part) = ("10.1.0.0/16".parse().unwrap(), "10.1.4.0/24".parse().ok());
    assert_eq!(networks[1].subnets, [Subnet { net, part }]);
    let detail =
        r#"{"Id":"n1","Containers":{"a":null,"b":{"EndpointID":""},"ep-c":{"EndpointID":"c"}}}"#;
    fake.answer("/networks/n1", Answer::Chunks(detail.into()));
    let endpoints = fake.api().endpoints(&id("n1")).unwrap().unwrap();
    assert_eq!(endpoints.len(), 1);
}

#[test]
fn what_cannot_be_read_is_an_error_and_not_an_empty_list() {
    let fake = Fake::new();
    let ok = b"HTTP/1.1 200 OK\r\n";
    let raw = |rest: &[u8]| Answer::Raw([ok, rest].concat());
    for bad in [
        Answer::Chunks(r#"[{"Id":"n1","IPAM":{"Config":[{"Subnet":"10.0.0.0/99"}]}}]"#.into()),
        Answer::Chunks(r#"[{"Id":"../x"}]"#.into()),
        Answer::Chunks(r#"[{"Name":"n"}]"#.into()),
        Answer::Chunks(r#"{"message":"no"}"#.into()),
        Answer::Chunks(r#"[{"Id":["n1"]}]"#.into()),
        Answer::Chunks("[".repeat(100_000)),
        Answer::Chunks("[] []".into()),
        raw(b"Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n"),
        raw(b"Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n"),
        raw(b"Content-Length: 3\r\n\r\n[]"),
        raw(b"\r\n[{}"),
        raw(b"Content-Length: 0\r\n\r\n"),
        Answer::Raw(b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n[]".to_vec()),
        Answer::Raw(b"HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n".to_vec()),
        Answer::Raw(vec![]),
        Answer::Raw(vec![b'x'; 100_000]),
    ] {
        fake.answer("/networks", bad);
        let error = fake.api().networks().unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
        assert!(error.to_string().contains("docker.sock"), "{error}");
    }
}

#[test]
fn an_engine_that_hangs_costs_no_more_than_its_time() {
    let fake = Fake::new();
    let api = Api::new(fake.socket.clone(), Duration::from_millis(100));
    for bad in [Answer::Hang, Answer::Drip] {
        fake.answer("/networks", bad.clone());
        fake.answer("/events", bad);
        let begin = Instant::now();
        assert_eq!(api.networks().unwrap_err().kind(), Kind::TryAgain);
        assert_eq!(api.events().unwrap_err().kind(), Kind::TryAgain);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

#[test]
fn an_engine_that_accepts_no_client_delays_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("full.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let api = Api::new(socket.clone(), Duration::from_millis(50));
    for _ in 0..4 {
        assert_eq!(api.networks().unwrap_err().kind(), Kind::TryAgain);
    }
    drop(listener);
    assert_eq!(api.networks().unwrap_err().kind(), Kind::TryAgain);
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(api.networks().unwrap_err().kind(), Kind::TryAgain);
}

#[test]
fn hears_events_and_the_end() {
    let fake = Fake::new();
    let mut events = fake.api().events().unwrap();
    assert_eq!(events.drain(), News::None);
    fake.happen();
    assert_eq!(events.drain(), News::Some);
    assert_eq!(events.drain(), News::None);
    for (kind, action, id) in [
        ("network", "destroy", "n1"),
        ("network", "create", "n2"),
        ("container", "destroy", "c1"),
        ("network", "destroy", "n/3"),
        ("network", "destroy", &"n".repeat(40_000)),
        ("network", "destroy", "n4"),
    ] {
        fake.report(&json!({"Type": kind, "Action": action, "Actor": {"ID": id}}).to_string());
        assert_eq!(events.drain(), News::Some);
    }
    assert_eq!(events.removed(), [id("n1"), id("n4")]);
    assert!(events.removed().is_empty());
    drop(fake);
    assert_eq!(events.drain(), News::End);
}

#[test]
fn asks_for_no_container_by_itself() {
    let fake = Fake::new();
    let api = fake.api();
    let _ = (api.networks(), api.running(), api.version(), api.events(), api.endpoints(&id("n")));
    let asked = fake.asked();
    let inspects = |path: &String| path.starts_with("/containers/") && path != "/containers/json";
    assert!(!asked.iter().any(inspects), "{asked:?}");
}
