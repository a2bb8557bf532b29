//! Which container a command means by a name.

use model::{Phase, Runtime};

use super::network::two_networks;
use super::*;

const LONG: &str = "92ddfa92f5a2aa";
const OTHER: &str = "92ddfa92f5a2bb";

/// A container of this runtime on `front`.
fn attach(host: &Fixture, runtime: Runtime, container: &str, owner: Option<&str>) -> Attachment {
    let front = host.engine().records.network(&"front".parse().unwrap()).unwrap();
    let theirs = Network { runtime, ..front };
    host.engine().attachments.attach(&request(&theirs, container, owner)).unwrap()
}

/// To whom a port is added by that name, as that is called; or the exit code, and what was said.
fn meant(host: &Fixture, name: &str) -> std::result::Result<BTreeSet<String>, (u8, String)> {
    let before = added(host);
    let port = format!("{}:443", 9000 + before.len());
    let (code, _, said) = host.try_spoke(&["port", "add", name, &port]);
    match code {
        0 => Ok(added(host).difference(&before).map(|(_, name)| name.clone()).collect()),
        _ => Err((code, said)),
    }
}

/// The ports that were added, and to whom.
fn added(host: &Fixture) -> BTreeSet<(u16, String)> {
    let records = host.engine().records.attachments().unwrap();
    let of = |record: &Attachment| {
        let added = record.wiring.publish.iter().flat_map(|publish| publish.added.clone());
        let name = record.container_name();
        added.map(move |map| (map.host_port.get(), name.clone())).collect::<Vec<_>>()
    };
    records.iter().flat_map(of).collect()
}

#[track_caller]
fn means(host: &Fixture, name: &str, called: &str) {
    assert_eq!(meant(host, name), Ok(BTreeSet::from([called.to_owned()])), "{name}");
}

#[track_caller]
fn is_refused(host: &Fixture, name: &str, expected: u8, words: &str) {
    let (code, said) = meant(host, name).unwrap_err();
    assert!(code == expected && said.contains(words), "{name}: {code} {said}");
    for command in ["port ls", "limit", "port add --ip 10.0.0.1", "egress set --container"] {
        let rest = match command {
            "port add --ip 10.0.0.1" => " 8443:443",
            "egress set --container" => " 10.9.0.7:443",
            _ => "",
        };
        let (code, said) = host.refused(&format!("{command} {name}{rest}"));
        assert!(code == expected && said.contains(words), "{command} {name}: {code} {said}");
    }
}

#[test]
fn an_id_may_be_cut_and_the_whole_one_goes_before() {
    let host = two_networks();
    attach(&host, Runtime::Cni, LONG, None);
    means(&host, LONG, LONG);
    means(&host, "92ddfa", LONG);
    is_refused(&host, "92ddf", 3, "no container '92ddf' is attached");
    is_refused(&host, "2ddfa92f5a2aa", 3, "no container");
    is_refused(&host, "podman:92ddfa", 3, "no container");
    attach(&host, Runtime::Podman, OTHER, None);
    means(&host, "92ddfa92f5a2a", LONG);
    means(&host, "podman:92ddfa", OTHER);
    is_refused(&host, "92ddfa", 4, &format!("cni:{LONG}, podman:{OTHER}; name one of them"));
    attach(&host, Runtime::Cni, "92ddfa", None);
    means(&host, "92ddfa", "92ddfa");
}

#[test]
fn a_name_of_two_runtimes_is_of_neither() {
    let host = two_networks();
    attach(&host, Runtime::Cni, "c1", Some("default/shop"));
    for name in ["shop", "default/shop", "cni/shop", "cni:default/shop", "c1", "cni/c1"] {
        means(&host, name, "default/shop");
    }
    is_refused(&host, "podman/shop", 3, "no container");
    is_refused(&host, "default", 3, "no container");
    attach(&host, Runtime::Podman, "c2", Some("shop"));
    is_refused(&host, "shop", 4, "cni:default/shop, podman:shop; name one of them");
    means(&host, "podman/shop", "shop");
    means(&host, "default/shop", "default/shop");
    attach(&host, Runtime::Cni, "c5", Some("pod/prod/web"));
    for name in ["web", "prod/web", "pod/prod/web", "cni:prod/web", "cni:pod/prod/web"] {
        means(&host, name, "pod/prod/web");
    }
    is_refused(&host, "test/web", 3, "no container");
    // An id of one is the name of another.
    attach(&host, Runtime::Kurma, "default", None);
    attach(&host, Runtime::Podman, "c3", Some("default"));
    is_refused(&host, "default", 4, "kurma:default, podman:default");
    means(&host, "kurma:default", "default");
    // Of one runtime, in two of its own spaces.
    attach(&host, Runtime::Cni, "c4", Some("other/shop"));
    is_refused(&host, "cni:shop", 4, "cni:default/shop, cni:other/shop");
}

#[test]
fn who_is_renamed_is_called_otherwise() {
    let host = two_networks();
    let id = attach(&host, Runtime::Cni, "c1", Some("shop")).id;
    attach(&host, Runtime::Podman, "c2", Some("shop"));
    is_refused(&host, "shop", 4, "cni:shop, podman:shop");
    host.engine().attachments.set_owner(&id, &"store".parse().unwrap()).unwrap();
    means(&host, "shop", "shop");
    means(&host, "store", "store");
    means(&host, "c1", "store");
}

#[test]
fn who_is_not_attached_is_not_meant() {
    use engine::port::{Key, Record, Store, Txn};
    let host = two_networks();
    let mut record = attach(&host, Runtime::Cni, "c1", Some("shop"));
    attach(&host, Runtime::Podman, "c2", Some("shop"));
    record.phase = Phase::Reserved;
    let key = Key::Attachment(record.id.clone(), record.layer);
    host.store.commit(&Txn::new().put(key, Record::Attachment(Box::new(record)))).unwrap();
    means(&host, "shop", "shop");
    is_refused(&host, "c1", 3, "no container");
}

/// A name with characters that records write otherwise.
#[test]
fn any_printable_name_is_found() {
    let host = two_networks();
    for (at, name) in ["a\"b", "a\\b", "zähler", "a/b\"c"].into_iter().enumerate() {
        attach(&host, Runtime::Docker, &format!("c{at}"), Some(name));
        means(&host, name, name);
    }
}

/// Each endpoint of a container of Docker's has an id of its own; the first of them may be on the last network.
#[test]
fn each_endpoint_of_one_has_its_own_rows() {
    let host = two_networks();
    attach(&host, Runtime::Spoke, "1aaa", Some("web"));
    host.attach("back", "9bbb", Some("web"));
    host.spoke("port add --network front web 8443:443");
    let of_one = host.spoke("port ls web -o json");
    let all: Vec<_> = host.spoke("port ls -o json").lines().map(str::to_owned).collect();
    assert_eq!(of_one.lines().collect::<Vec<_>>(), all);
    assert!(of_one.contains("\"web\"") && !of_one.contains("waiting"), "{of_one}");
}

/// Each layer of the container is shown, and those of no other one.
#[test]
fn what_is_shown_of_one_is_all_of_it() {
    let host = two_networks();
    let web = attach(&host, Runtime::Cni, "c1", Some("web"));
    attach(&host, Runtime::Podman, "c2", Some("db"));
    host.attach("back", "c1", Some("shop"));
    host.spoke("port add cni:web 8443:443");
    assert_eq!(host.spoke("port ls -q cni:web"), "8080/tcp\n8443/tcp\n");
    assert_eq!(host.spoke("port ls -q db"), "");
    assert_eq!(host.engine().records.attachments_of(&web.id.container).unwrap().len(), 2);
}
