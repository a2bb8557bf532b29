//! CNI's containers.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, World};

use crate::bed::Bed;

fn list(names: bool) -> Value {
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{
        "type": "spoke", "names": names, "capabilities": {"aliases": true, "dns": true},
        "dns": {"nameservers": ["127.0.0.1"], "search": ["lan.example"], "options": ["ndots:2"]},
        "ipam": {"ranges": [[{"subnet": "10.72.1.0/24"}], [{"subnet": "fd72::/64"}]]},
    }]})
}

#[track_caller]
fn added(cni: &mut Cni<'_>, list: &Value) -> Value {
    let answers = cni.add(list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    cni.result.clone().expect("a result")
}

/// The result names the gateways as servers; what the configuration names is whom these ask.
#[test]
fn the_result_says_where_names_are() {
    let bed = Bed::of(World::new(&Plugins::subject()));
    let list = list(true);
    let mut web = Cni::container(&bed.world, "web");
    web.runtime = json!({"aliases": ["www", "not a name"]});
    let result = added(&mut web, &list);
    let expected = json!({
        "nameservers": ["10.72.1.1", "fd72::1"], "search": ["pods.spoke", "lan.example"],
        "options": ["ndots:2"],
    });
    assert_eq!(result["dns"], expected);
    let mut api = Cni::container(&bed.world, "api");
    // As Podman 4 says it.
    api.runtime = json!({"aliases": {"pods": ["v1", "www"], "others": ["no"]}});
    added(&mut api, &list);
    bed.until_answers("10.72.1.1");
    for (server, name, expected) in [
        ("10.72.1.1", "api", "10.72.1.3"),
        ("10.72.1.1", "v1.pods.spoke AAAA", "fd72::3"),
        ("10.72.1.1", "no", "REFUSED"),
        ("10.72.1.1", "outside.example", "192.0.2.7"),
        ("fd72::1", "www", "10.72.1.2 10.72.1.3"),
        ("fd72::1", "2.1.72.10.in-addr.arpa PTR", "web.pods.spoke"),
    ] {
        assert_eq!(bed.ask_at("web", server, name), expected, "{name} at {server}");
    }
    let shown = bed.spoke("dns ls");
    let rows: Vec<Vec<&str>> = shown.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["api", "pods", "cni", "10.72.1.3,fd72::3", "v1,www"], "{shown}");
    let found = bed.spoke("dns query --as web --format '{{.Name}}' www.pods.spoke");
    assert_eq!(found, "api\nweb\n");
    let unknown = bed.world.try_sh("/opt/cni/bin/spoke dns query nobody");
    assert_eq!(unknown.status, 3, "{unknown:?}");

    assert!(api.del(&list).iter().all(Answer::ok));
    assert_eq!(bed.ask_at("web", "10.72.1.1", "api.pods.spoke"), "NXDOMAIN");
    assert_eq!(bed.ask_at("web", "10.72.1.1", "www"), "10.72.1.2");
}

/// What the runtime says of a container goes before what the configuration says of the network: its servers are those
/// that Spoke asks, and other containers have those of the network.
#[test]
fn the_runtime_says_who_is_asked_for_the_rest() {
    let bed = Bed::of(World::new(&Plugins::subject()));
    bed.spoke("network create --subnet 10.71.3.0/24 plain");
    bed.world.netns("server");
    bed.spoke("network connect --ip 10.71.3.53 plain server");
    bed.world.sh(
        "ip netns exec server /usr/sbin/dnsmasq --user=root --pid-file= --no-resolv --no-hosts \
        --host-record=outside.example,192.0.2.8",
    );
    let list = list(true);
    let [mut web, mut api] = ["web", "api"].map(|name| Cni::container(&bed.world, name));
    let dns =
        json!({"servers": ["10.71.3.53"], "searches": ["corp.example"], "options": ["ndots:5"]});
    web.runtime = json!({ "dns": dns });
    let result = added(&mut web, &list);
    let expected = json!({
        "nameservers": ["10.72.1.1", "fd72::1"], "search": ["pods.spoke", "corp.example"],
        "options": ["ndots:5"],
    });
    assert_eq!(result["dns"], expected);
    added(&mut api, &list);
    bed.until_answers("10.72.1.1");
    assert_eq!(bed.ask_at("web", "10.72.1.1", "outside.example"), "192.0.2.8");
    assert_eq!(bed.ask_at("api", "10.72.1.1", "outside.example"), "192.0.2.7");
    assert_eq!(bed.ask_at("web", "10.72.1.1", "api"), "10.72.1.3");
}

#[test]
fn without_it_the_result_is_what_the_configuration_says() {
    let bed = Bed::of(World::new(&Plugins::subject()));
    let mut web = Cni::container(&bed.world, "web");
    let result = added(&mut web, &list(false));
    let expected = json!({
        "nameservers": ["127.0.0.1"], "search": ["lan.example"], "options": ["ndots:2"],
    });
    assert_eq!(result["dns"], expected);
    assert_eq!(bed.spoke("dns ls --quiet"), "");
    let mut api = Cni::container(&bed.world, "api");
    api.runtime = json!({"dns": {"servers": ["192.0.2.1"], "searches": null}});
    let expected = json!({
        "nameservers": ["192.0.2.1"], "search": ["lan.example"], "options": ["ndots:2"],
    });
    assert_eq!(added(&mut api, &list(false))["dns"], expected);
}
