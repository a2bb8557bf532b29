//! The other direction: requests as they are written, answers as they are read.

use libnetwork::{
    AddressSpaces, Answer, Call, IpamCapabilities, Manifest, Method, NetworkCapabilities,
    Releasable, Request, Scope, StaticRoute, Unusable,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::any_call;
use crate::traces::{ENGINES, recorded};

fn read(method: Method, body: &[u8]) -> Call {
    match libnetwork::decode(method, body) {
        Ok(Request::Do(call)) => *call,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(body)),
    }
}

/// What engines write in several ways that mean the same: empty maps and nothing.
fn plain(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(flag) => !flag,
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, plain(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(plain).collect()),
        other => other,
    }
}

#[test]
fn requests_are_written_as_engines_wrote_them() {
    let mut compared = 0;
    for engine in ENGINES {
        for recorded in recorded(engine) {
            let decoded = libnetwork::decode(recorded.method, recorded.body.as_bytes());
            let Ok(Request::Do(call)) = decoded else { continue };
            assert_eq!(call.method(), recorded.method);
            let theirs: Value = serde_json::from_str(&recorded.body).unwrap();
            let ours: Value = serde_json::from_slice(&call.encode()).unwrap();
            // Docker's client changed the case of this placeholder; `{}` for an address says that
            // it is for an endpoint.
            let text = |value: Value| plain(value).to_string().replace("ifname.", "IFNAME.");
            assert_eq!(text(ours), text(theirs), "{engine}");
            compared += 1;
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn the_newest_engines_requests_are_the_same_to_the_byte() {
    let mut same = 0;
    for recorded in recorded("29") {
        let decoded = libnetwork::decode(recorded.method, recorded.body.as_bytes());
        let Ok(Request::Do(call)) = decoded else { continue };
        let ours = String::from_utf8(call.encode()).unwrap();
        same += usize::from(ours.trim_end() == recorded.body.trim_end());
        assert!(ours.ends_with("}\n"));
    }
    assert!(same > 60, "{same}");
}

proptest! {
    #[test]
    fn calls_survive_the_wire(call in any_call::call()) {
        prop_assert_eq!(&read(call.method(), &call.encode()), &call);
    }

    #[test]
    fn answers_never_panic(body in any::<Vec<u8>>(), n in 0..Method::ALL.len()) {
        let _ = Answer::decode(Method::ALL[n], &body);
        let _ = libnetwork::failure(&body);
    }
}

fn answer(method: Method, body: &str) -> Answer {
    Answer::decode(method, body.as_bytes()).unwrap_or_else(|why| panic!("{body}: {why:?}"))
}

fn unread(method: Method, body: &str) -> (String, Releasable) {
    match Answer::decode(method, body.as_bytes()) {
        Err(Unusable::Unread { error, rest }) => (error.to_string(), rest),
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn answers_are_read_as_go_reads_them() {
    for body in ["{}", "null", " {\"x\":[1,{}]} trailing", "{\"Err\":\"\",\"Error\":null}", "{}{"] {
        assert_eq!(answer(Method::Leave, body), Answer::Done {});
    }
    let body = r#"{"interface":{"address":"10.0.0.2/24","ADDRESSIPV6":"","macaddress":null}}"#;
    let Answer::Endpoint { interface } = answer(Method::CreateEndpoint, body) else { panic!() };
    assert_eq!(interface.ipv4, Some("10.0.0.2/24".parse().unwrap()));
    assert_eq!((interface.ipv6, interface.mac), (None, None));
    let body = r#"{"Address":"10.0.0.9/24","Data":null}"#;
    let Answer::Address { address, data } = answer(Method::RequestAddress, body) else { panic!() };
    assert_eq!((address.to_string().as_str(), data.len()), ("10.0.0.9/24", 0));
    let body = r#"{"Value":{"a":1,"b":"x","c":{"d":[]}}}"#;
    let Answer::Info { value } = answer(Method::EndpointOperInfo, body) else { panic!() };
    assert_eq!(value["a"], "1");
    assert_eq!(value["c"], r#"{"d":[]}"#);
    let (why, rest) = unread(Method::Leave, " \n");
    assert!(why.starts_with("EOF") && rest == Releasable::None, "{why}");
    assert!(unread(Method::Leave, "[]").0.contains("the body is a list"));
}

#[test]
fn refusals_are_reported_in_short() {
    for body in [r#"{"Err":"no"}"#, r#"{"Error":"no"}"#, r#"{"err":"no","Interface":7}"#] {
        let answered = Answer::decode(Method::CreateEndpoint, body.as_bytes());
        assert!(matches!(answered, Err(Unusable::Refused(why)) if why == "no"));
        assert_eq!(libnetwork::failure(body.as_bytes()).unwrap(), "no");
    }
    let long = format!(r#"{{"Err":"a\nb{}"}}"#, "x".repeat(9999));
    let why = libnetwork::failure(long.as_bytes()).unwrap();
    assert!(why.starts_with("a bxxx") && why.chars().count() == 1001);
    assert_eq!(libnetwork::failure(b"plain text"), None);
}

#[test]
fn a_joined_sandbox_has_an_interface_gateways_and_routes() {
    let body = r#"{"InterfaceName":{"SrcName":"veth7","DstPrefix":"eth"},"Gateway":"10.0.0.1",
        "GatewayIPv6":"fe80::1","HostsPath":"/x","StaticRoutes":[
        {"Destination":"10.9.0.7/16","RouteType":0,"NextHop":"10.0.0.9"},
        {"Destination":"10.8.0.0/16","RouteType":1,"NextHop":"10.0.0.9"}],
        "DisableGatewayService":true}"#;
    let Answer::Joined(joined) = answer(Method::Join, body) else { panic!() };
    let moved = joined.interface.unwrap();
    assert_eq!((moved.from.as_str(), moved.prefix.as_str()), ("veth7", "eth"));
    assert_eq!(joined.gateway.unwrap().to_string(), "10.0.0.1");
    assert_eq!(joined.gateway_v6.unwrap().to_string(), "fe80::1");
    let via = StaticRoute::Via("10.9.0.0/16".parse().unwrap(), "10.0.0.9".parse().unwrap());
    assert_eq!(joined.routes, [via, StaticRoute::Connected("10.8.0.0/16".parse().unwrap())]);
    assert!(joined.no_gateway_service);
    let Answer::Joined(joined) = answer(Method::Join, r#"{"InterfaceName":{"SrcName":""}}"#) else {
        panic!()
    };
    assert_eq!(joined.interface, None);
}

#[test]
fn what_cannot_be_is_named() {
    let cases = [
        (r#"{"Gateway":"10.0.0.1/24"}"#, "Gateway:"),
        (r#"{"Gateway":"fe80::1"}"#, "Gateway:"),
        (r#"{"Gateway":"0.0.0.0"}"#, "Gateway: 0.0.0.0 is no router's address"),
        (r#"{"GatewayIPv6":"ff02::1"}"#, "GatewayIPv6:"),
        (r#"{"Gateway":["10.0.0.1"]}"#, "Gateway is a list and not a text"),
        (r#"{"InterfaceName":{"SrcName":"../x"}}"#, "InterfaceName.SrcName:"),
        (r#"{"InterfaceName":{"SrcName":"a","DstPrefix":"a b"}}"#, "InterfaceName.DstPrefix:"),
        (
            r#"{"StaticRoutes":[{"Destination":"10.0.0.0/8"}]}"#,
            "StaticRoutes[0].NextHop is missing",
        ),
        (r#"{"StaticRoutes":[{"RouteType":1}]}"#, "StaticRoutes[0].Destination is missing"),
        (
            r#"{"StaticRoutes":[{"Destination":"10.0.0.0/8","NextHop":"fe80::1"}]}"#,
            "StaticRoutes[0].NextHop: fe80::1 leads to no 10.0.0.0/8",
        ),
        (
            r#"{"StaticRoutes":[{"Destination":"10.0.0.0/8","RouteType":2}]}"#,
            "StaticRoutes[0].RouteType: 2 is neither 0 nor 1",
        ),
    ];
    for (body, expected) in cases {
        let (why, rest) = unread(Method::Join, body);
        assert!(why.starts_with(expected) && rest == Releasable::None, "{body}: {why}");
    }
    let (why, _) = unread(Method::CreateEndpoint, r#"{"Interface":{"Address":"10.0.0.2"}}"#);
    assert!(why.starts_with("Interface.Address:"), "{why}");
}

#[test]
fn an_unusable_answer_says_what_is_to_be_given_back() {
    let (why, rest) = unread(Method::RequestPool, r#"{"PoolID":"p1","Pool":"10.0.0.0"}"#);
    assert!(why.starts_with("Pool:"), "{why}");
    assert_eq!(rest, Releasable::Pool("p1".parse().unwrap()));
    let (_, rest) =
        unread(Method::RequestPool, r#"{"PoolID":"p1","Pool":"10.0.0.0/8","Data":{"a":1}}"#);
    assert_eq!(rest, Releasable::Pool("p1".parse().unwrap()));
    let (why, rest) = unread(Method::RequestAddress, r#"{"Address":"10.0.0.7"}"#);
    assert!(why.starts_with("Address:"), "{why}");
    assert_eq!(rest, Releasable::Address("10.0.0.7".parse().unwrap()));
    let (why, rest) = unread(Method::RequestAddress, "{}");
    assert_eq!((why.as_str(), rest), ("Address is missing", Releasable::None));
}

#[test]
fn drivers_say_what_they_are() {
    let manifest = |body: &str| Manifest::decode(body.as_bytes());
    let both = manifest(r#"{"implements":["VolumeDriver","NetworkDriver","IpamDriver"]}"#).unwrap();
    assert_eq!(both, Manifest { network: true, ipam: true });
    assert_eq!(manifest(r#"{"Implements":null}"#).unwrap(), Manifest::default());
    assert!(manifest(r#"{"Implements":[7]}"#).is_err());

    let network = |body: &str| NetworkCapabilities::decode(body.as_bytes());
    let mixed = network(r#"{"Scope":"local","foo":"bar","ConnectivityScope":"global"}"#).unwrap();
    assert_eq!((mixed.scope, mixed.connectivity), (Scope::Local, Scope::Global));
    let global = network(r#"{"scope":"global","GwAllocChecker":true}"#).unwrap();
    assert_eq!((global.connectivity, global.checks_gateways), (Scope::Global, true));
    for bad in ["{}", "null", r#"{"Scope":"fake"}"#, r#"{"Scope":"local","ConnectivityScope":"x"}"#]
    {
        assert!(network(bad).is_err(), "{bad}");
    }
    let ipam = IpamCapabilities::decode(br#"{"RequiresMACAddress":true}"#).unwrap();
    assert!(ipam.requires_mac && !ipam.requires_replay);
    let spaces = |body: &str| AddressSpaces::decode(body.as_bytes()).unwrap();
    let both = r#"{"LocalDefaultAddressSpace":"white","GlobalDefaultAddressSpace":"blue"}"#;
    assert_eq!(spaces(both).unwrap().global.as_str(), "blue");
    assert_eq!(spaces(r#"{"LocalDefaultAddressSpace":"a"}"#).unwrap().global.as_str(), "a");
    assert_eq!(spaces("{}"), None);
}
