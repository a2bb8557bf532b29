//! What records are in etcd: version 2.
//!
//! | key below `/spoke/v1/` | value | written by |
//! |---|---|---|
//! | `layout` | `2` | `host init`; a daemon, when every member's program knows the next one |
//! | `host/HOST` | `{"address":"192.0.2.1","since":1}`, and `"draining":true`, `"labels":{"zone":"eu"}`, `"link":{"mac":"…","v6":"fe80::1"}`: by what it is known on its segment | `host init`, `host join`, `host remove`, `host drain`, `host label`; the host's daemon when it is heard anew |
//! | `alive/HOST` | `{"layout":2}`: the latest that its program knows, with the host's lease; and in a cluster with an etcd of its own `"etcd":false` where the host does not have the program, and `"authority":{"issuer":"…","trusted":["…"]}`: which has signed its certificate, and which it trusts | the host's daemon |
//! | `turn` | `{}` | `network create --hosts`, `network rm`, `host init`, `host join` |
//! | `network/NETWORK` | `{"vni":4097,"subnet":"10.64.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}`, and, of one with IPv4, `"subnet6":"fd00:8::/64"`, `"encrypted":true`, `"transport":"route"`, `"in":["docker"]`: in which engines of its hosts it is made, `"names":true`: whether it has names, `"sticky":true`: whether names keep addresses, `"rules":{"ingress":"same-bridge"}`, and in it `"internal":true`, `"egress":{"rules":["…"]}`: who reaches its containers, and where these may go; a program that does not know of these passes them over | `network create --hosts`, `network rm` |
//! | `vni/4097` | `"NETWORK"`: whose it is | as `network/NETWORK`, if the key is absent |
//! | `encrypted-vni/4097` | `"NETWORK"`: the same for a network that is encrypted, routed or of IPv6 alone. A program that does not know that finds no claim in `vni/4097`, and does not use the network | as `vni/4097` |
//! | `ruled-vni/4097` | `"NETWORK"`: the same for a network with `rules`, instead of both. A program that knows no rules finds no claim, and does not use the network | as `vni/4097` |
//! | `tunnel/HOST/2` | `"…"`: the public key of the host's tunnels while the key `turn-of-keys` has 2 | the daemon of that host |
//! | `turn-of-keys` | `2`: how often all hosts have changed their keys | `host rotate-keys` |
//! | `block/NETWORK/10.64.3.0/24` | `"HOST"` | the daemon of that host, if the key is absent |
//! | `pin/NETWORK/10.64.9.9` | `{"host":"HOST","by":"…","state":"granted"}`: which host has an address that is in no block of its own; with `"over":"HOST"` where it was taken from a lost host, and `"asked":7`, the revision of the request, where it was answered; of one that a name keeps, also of the host's own block, `"name":"db"`, and `"wanted":"HOST"` while a container of that name waits for it there | that host's daemon, if the key is absent; while it is `asked` the daemon of the host whose block has the address; while it is `wanted` the daemon of its host |
//! | `endpoint/HOST/NETWORK/10.64.3.2` | `{"mac":"…"}`, and `"names":["web"],"runtime":"docker"`: what its container is called, on networks with names | the daemon of that host |
//! | `token/ID` | `{"digest":"…","expires":1}`, with a lease; and `"used":{"host":"HOST","since":1}` from its use on, with a digest that only that host can show again | `host token create`, `host join` |
//! | `server/HOST` | `{"voter":true}`: the host runs a server of the cluster's own etcd | a daemon with the authority's key, `host remove` |
//! | `certificate/HOST/SERIAL` | `{"digest":"…","expires":1}` | who has signed it |
//! | `revoked/SERIAL` | `1`: when it would have ended | `host remove` |
//! | `authority` | `{"phase":"trust","certificate":"…","proof":"…","since":1}`, and `"without":["c"]`: the last change of the cluster's authority | `host ca`; a daemon with the authority's key, when every host has confirmed the phase |
//!
//! Values are JSON. The cluster has the version that all its members know: a program works with this one
//! and the one before, and refuses to work with others. Version 1 has neither `server`, `certificate`, `revoked`,
//! `encrypted-vni`, `ruled-vni`, `tunnel` nor `turn-of-keys`, `{}` for `alive`, addresses of IPv4 only, and of `host`,
//! `network` and `pin` only what stands before "and" or "with".

use std::net::IpAddr;

use model::{Error, HostName, IpNet, NetworkName, Result, Vni};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::{HostRecord, Key, Record, TokenId};
use crate::trust::Serial;

/// Where everything is.
pub const ROOT: &str = "/spoke/v1/";
/// Longer values are left out, in bytes: a placement may name some hundred hosts.
pub const LONGEST_VALUE: usize = 64 << 10;
/// A host whose record has more that this version does not know is left out, in bytes.
pub const LONGEST_REST: usize = 4 << 10;
/// Longer keys are left out, in bytes.
pub const LONGEST_KEY: usize = 512;

/// The key in etcd.
pub fn path(key: &Key) -> String {
    let rest = match key {
        Key::Layout => "layout".to_owned(),
        Key::Turn => "turn".to_owned(),
        Key::Host(host) => format!("host/{host}"),
        Key::Alive(host) => format!("alive/{host}"),
        Key::Network(network) => format!("network/{network}"),
        Key::Vni(vni) => format!("vni/{vni}"),
        Key::EncryptedVni(vni) => format!("encrypted-vni/{vni}"),
        Key::RuledVni(vni) => format!("ruled-vni/{vni}"),
        Key::Tunnel(host, turn) => format!("tunnel/{host}/{turn}"),
        Key::KeyTurn => "turn-of-keys".to_owned(),
        Key::Block(network, net) => format!("block/{network}/{net}"),
        Key::Pin(network, address) => format!("pin/{network}/{address}"),
        Key::Endpoint(host, network, address) => format!("endpoint/{host}/{network}/{address}"),
        Key::Token(id) => format!("token/{}", id.as_str()),
        Key::Server(host) => format!("server/{host}"),
        Key::Certificate(host, serial) => format!("certificate/{host}/{}", serial.as_str()),
        Key::Revoked(serial) => format!("revoked/{}", serial.as_str()),
        Key::Authority => "authority".to_owned(),
    };
    format!("{ROOT}{rest}")
}

/// What every [`Key::Endpoint`] of a host begins with.
pub(crate) fn endpoints_of(host: &HostName) -> String {
    format!("{ROOT}endpoint/{host}/")
}

/// What the keys of a host's certificates begin with.
pub(crate) fn certificates_of(host: &HostName) -> String {
    format!("{ROOT}certificate/{host}/")
}

/// The name that a key in etcd is; `Invalid` where it is none.
pub fn key(path: &str) -> Result<Key> {
    let none = || Error::invalid("no key of this layout");
    if path.len() > LONGEST_KEY {
        return Err(Error::invalid("the key is too long"));
    }
    let rest = path.strip_prefix(ROOT).ok_or_else(none)?;
    let parts: Vec<&str> = rest.split('/').collect();
    let key = match parts.as_slice() {
        ["layout"] => Key::Layout,
        ["turn"] => Key::Turn,
        ["host", host] => Key::Host(member(host)?),
        ["alive", host] => Key::Alive(host.parse()?),
        ["network", network] => Key::Network(network.parse()?),
        ["vni", vni] => Key::Vni(vni.parse::<Vni>()?),
        ["encrypted-vni", vni] => Key::EncryptedVni(vni.parse::<Vni>()?),
        ["ruled-vni", vni] => Key::RuledVni(vni.parse::<Vni>()?),
        ["tunnel", host, turn] => Key::Tunnel(host.parse()?, turn.parse().map_err(|_| none())?),
        ["turn-of-keys"] => Key::KeyTurn,
        ["block", network, net, length] => Key::Block(network.parse()?, block(net, length)?),
        ["pin", network, address] => {
            Key::Pin(network.parse()?, address.parse().map_err(|_| none())?)
        }
        ["endpoint", host, network, address] => {
            let address: IpAddr = address.parse().map_err(|_| none())?;
            Key::Endpoint(host.parse()?, network.parse::<NetworkName>()?, address)
        }
        ["token", id] => Key::Token(TokenId::try_from((*id).to_owned())?),
        ["server", host] => Key::Server(host.parse()?),
        ["certificate", host, serial] => {
            Key::Certificate(host.parse()?, Serial::try_from((*serial).to_owned())?)
        }
        ["authority"] => Key::Authority,
        ["revoked", serial] => Key::Revoked(Serial::try_from((*serial).to_owned())?),
        _ => return Err(none()),
    };
    // One name has one key: who writes it otherwise means to be seen twice.
    match self::path(&key) == path {
        true => Ok(key),
        false => Err(none()),
    }
}

/// The name of a member. `all` is what `--hosts` calls every host.
///
/// # Errors
/// `Invalid` where it is no name, or that one.
pub fn member(name: &str) -> Result<HostName> {
    match name {
        "all" => Err(Error::invalid(
            "a host cannot be called all: `--hosts all` means every host; choose another name with --name",
        )),
        name => name.parse(),
    }
}

fn block(net: &str, length: &str) -> Result<IpNet> {
    let net = format!("{net}/{length}").parse::<IpNet>();
    net.map_err(|_| Error::invalid("no block of addresses"))
}

/// The value of a record.
///
/// # Errors
/// `Bug` where it cannot be written as JSON, which no record can cause.
pub fn value(record: &Record) -> Result<String> {
    match record {
        Record::Layout(version) => json(version),
        Record::Host(host) => json(host),
        Record::Mark => Ok("{}".to_owned()),
        Record::Network(network) => json(network),
        Record::Vni(network) => json(network),
        Record::Tunnel(key) => json(key),
        Record::KeyTurn(turn) => json(turn),
        Record::Block(host) => json(host),
        Record::Pin(pin) => json(pin),
        Record::Endpoint(endpoint) => json(endpoint),
        Record::Token(token) => json(token),
        Record::Alive(alive) => json(alive),
        Record::Server(server) => json(server),
        Record::Certificate(certificate) => json(certificate),
        Record::Revoked(until) => json(until),
        Record::Authority(authority) => json(authority),
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|cause| Error::bug("a record as JSON").because(cause))
}

/// The record that a value of this key is; `Invalid` where it is none.
pub fn record(key: &Key, value: &[u8]) -> Result<Record> {
    if value.len() > LONGEST_VALUE {
        return Err(Error::invalid(format!("the value is longer than {LONGEST_VALUE} bytes")));
    }
    Ok(match key {
        Key::Layout => Record::Layout(read(value)?),
        Key::Host(_) => {
            let host: HostRecord = read(value)?;
            host.host.check()?;
            if !host.rest.is_empty() && json(&host.rest)?.len() > LONGEST_REST {
                return Err(Error::invalid(format!(
                    "what this version does not know of it is longer than {LONGEST_REST} bytes"
                )));
            }
            Record::Host(host)
        }
        Key::Turn => Record::Mark,
        Key::Alive(_) => Record::Alive(read(value)?),
        Key::Network(name) => {
            let network: model::SharedNetwork = read(value)?;
            network.check(name)?;
            Record::Network(Box::new(network))
        }
        Key::Vni(_) | Key::EncryptedVni(_) | Key::RuledVni(_) => Record::Vni(read(value)?),
        Key::Tunnel(..) => Record::Tunnel(read(value)?),
        Key::KeyTurn => Record::KeyTurn(read(value)?),
        Key::Block(..) => Record::Block(read(value)?),
        Key::Pin(..) => {
            let pin: model::AddressPin = read(value)?;
            pin.check()?;
            Record::Pin(pin)
        }
        Key::Endpoint(..) => {
            let endpoint: model::SharedEndpoint = read(value)?;
            endpoint.check()?;
            Record::Endpoint(endpoint)
        }
        Key::Token(_) => Record::Token(read(value)?),
        Key::Server(_) => Record::Server(read(value)?),
        Key::Certificate(..) => Record::Certificate(read(value)?),
        Key::Revoked(_) => Record::Revoked(read(value)?),
        Key::Authority => Record::Authority(read(value)?),
    })
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|cause| {
        let cause = cause.to_string();
        Error::invalid(format!(
            "the value is not as the layout has it: {}",
            model::text::shown(&cause)
        ))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_one_path_and_back() {
        for path in [
            "layout",
            "turn",
            "host/a",
            "alive/a.example.com",
            "network/front",
            "vni/4097",
            "encrypted-vni/4097",
            "ruled-vni/4097",
            "tunnel/a/2",
            "turn-of-keys",
            "authority",
            "block/front/10.8.3.0/24",
            "pin/front/10.8.9.9",
            "endpoint/a/front/10.8.3.2",
            "endpoint/a/front/fd00:8::2",
            "pin/front/fd00:8::9",
            "token/0123456789abcdef",
        ] {
            let path = format!("{ROOT}{path}");
            assert_eq!(self::path(&key(&path).unwrap()), path);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = format!("network/{}", "a".repeat(600));
        for path in [
            "",
            "host/",
            "host/a/b",
            "host/../a",
            "host/all",
            "vni/0",
            "vni/007",
            "tunnel/a/02",
            "tunnel/a/-1",
            "pin/front/10.8.9",
            "network/-x",
            "block/front/10.8.3.0/024",
            "block/front/10.8.3.0",
            "endpoint/a/front/10.8.3.300",
            "endpoint/a/front/10.08.3.3",
            "token/0123",
            "unknown/a",
            long.as_str(),
        ] {
            assert!(key(&format!("{ROOT}{path}")).is_err(), "{path}");
        }
        assert!(key("/other/host/a").is_err());
    }

    #[test]
    fn values_are_checked() {
        let network = Key::Network("front".parse().unwrap());
        let good =
            r#"{"vni":7,"subnet":"10.8.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}"#;
        let read = record(&network, good.as_bytes()).unwrap();
        assert_eq!(value(&read).unwrap(), good);
        let encrypted = good.replace(",\"since\"", ",\"encrypted\":true,\"since\"");
        let read = record(&network, encrypted.as_bytes()).unwrap();
        assert_eq!(value(&read).unwrap(), encrypted);
        for (from, to) in [
            ("\"vni\":7", "\"vni\":0"),
            ("\"block\":24", "\"block\":15"),
            ("10.8.0.0/16", "10.8.0.1/16"),
            ("\"mtu\":1450", "\"mtu\":10"),
        ] {
            assert!(record(&network, good.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        let pin = Key::Pin("front".parse().unwrap(), [10, 8, 9, 9].into());
        for good in [
            r#"{"host":"a","by":"docker/db","state":"granted"}"#,
            r#"{"host":"a","by":"docker/db","state":{"held":"podman/web"}}"#,
            r#"{"host":"a","by":"db","state":"granted","name":"db","wanted":"b"}"#,
        ] {
            assert_eq!(value(&record(&pin, good.as_bytes()).unwrap()).unwrap(), good);
        }
        let later = record(&pin, br#"{"host":"a","by":"x","state":"mine"}"#).unwrap();
        assert!(matches!(later, Record::Pin(pin) if pin.state == model::PinState::Other));
        let long = format!(r#"{{"host":"a","by":"{}","state":"asked"}}"#, "x".repeat(300));
        assert!(record(&pin, long.as_bytes()).is_err());
        let host = Key::Host("a".parse().unwrap());
        assert!(record(&host, &vec![b' '; LONGEST_VALUE + 1]).is_err());
    }

    #[test]
    fn what_later_versions_say_of_a_host_is_bounded() {
        let key = Key::Host("a".parse().unwrap());
        let of = |length: usize| {
            let text = "x".repeat(length);
            let text = format!(r#"{{"address":"192.0.2.1","since":1,"later":"{text}"}}"#);
            record(&key, text.as_bytes())
        };
        assert!(of(4000).is_ok() && of(4096).is_err());
    }

    #[test]
    fn a_link_of_a_later_form_is_none() {
        let key = Key::Host("a".parse().unwrap());
        let link = |link: &str| {
            let text = format!(r#"{{"address":"192.0.2.1","since":1,"link":{link}}}"#);
            let Ok(Record::Host(read)) = record(&key, text.as_bytes()) else { panic!("{text}") };
            read.host.link
        };
        for later in ["null", "7", r#"{"mac":"x"}"#, r#"{"guid":1}"#, r#"[{"v6":"fe80::1"}]"#] {
            assert_eq!(link(later), None, "{later}");
        }
        let known = link(r#"{"mac":"02:00:00:00:00:01","v6":"fe80::1"}"#).unwrap();
        assert_eq!(known.v6, "fe80::1".parse().ok());
    }

    fn endpoint(rest: &str) -> Result<Record> {
        let key = key(&format!("{ROOT}endpoint/a/front/10.8.3.2")).unwrap();
        record(&key, format!(r#"{{"mac":"02:00:00:00:00:01"{rest}}}"#).as_bytes())
    }

    #[test]
    fn endpoints_of_programs_before_and_after_are_read() {
        let old = endpoint("").unwrap();
        assert_eq!(value(&old).unwrap(), r#"{"mac":"02:00:00:00:00:01"}"#);
        let own = r#","names":["web","web-1"],"runtime":"docker""#;
        assert!(value(&endpoint(own).unwrap()).unwrap().contains(own));
        for word in [r#""moby""#, "1", "null", "{}"] {
            let said = endpoint(&format!(r#","names":["web"],"runtime":{word},"more":[1]"#));
            let Record::Endpoint(read) = said.unwrap() else { panic!("an endpoint") };
            assert_eq!((read.names[0].as_str(), read.runtime), ("web", None), "{word}");
        }
    }

    #[test]
    fn names_that_no_container_has_are_refused() {
        let long = "a".repeat(254);
        for name in ["", ".", "-a", ".a", "a b", "a\\u0000", "a\\n", "Web", "a/b", "ä", &*long] {
            assert!(endpoint(&format!(r#","names":["{name}"]"#)).is_err(), "{name}");
        }
        let many = vec!["\"a\""; model::SharedEndpoint::MOST_NAMES + 1].join(",");
        assert!(endpoint(&format!(r#","names":[{many}]"#)).is_err());
    }

    proptest! {
        #[test]
        fn anything_is_read(path in ".{0,80}", value in proptest::collection::vec(any::<u8>(), 0..200)) {
            for begin in ["", "host/", "block/n/", "endpoint/h/n/", "network/"] {
                if let Ok(key) = key(&format!("{ROOT}{begin}{path}")) {
                    let _ = record(&key, &value);
                }
            }
        }
    }
}
