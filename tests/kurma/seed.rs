//! The seed's own example with our own image; A17 and A18.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};
use tests::kurma::Kurma;

use crate::{U, uuid};

/// Our own image in a world.
pub(crate) const OURS: &str = "file:///images/spoke.aci";

/// The network of the seed's example, with this name and number.
pub(crate) fn network(name: &str, number: u8) -> Value {
    json!({
        "name": name,
        "aci": OURS,
        "privileged": true,
        "default": true,
        "containerInterface": "eth{{num}}",
        "type": "bridge",
        "bridge": format!("{name}0"),
        "isGateway": true,
        "ipMasq": true,
        "ipam": {
            "type": "host-local",
            "subnet": format!("10.{number}.0.0/16"),
            "routes": [{"dst": "0.0.0.0/0"}]
        }
    })
}

/// A host with these networks and our own image.
#[track_caller]
pub(crate) fn ours(networks: &Value) -> Kurma {
    let kurma = Kurma::with(networks, "");
    kurma.build_image("/images/spoke.aci");
    kurma
}

/// The address of a pod's network, as `provision` says it, without its length.
pub(crate) fn address(pod: &Value, at: usize) -> String {
    let ip = &pod["networks"][at]["ip4"]["ip"];
    let ip = ip.as_str().unwrap_or_else(|| panic!("{pod}"));
    ip.split('/').next().unwrap_or_default().to_owned()
}

#[test]
fn the_seeds_example_as_it_stands() {
    let mut network = network("mynet", 10);
    network["containerInterface"] = "eth0".into();
    let kurma = ours(&json!([network]));
    let pod = kurma.json(&format!("provision {U}"));
    let ip4 = json!({"ip": "10.10.0.2/16", "gateway": "10.10.0.1",
        "routes": [{"dst": "0.0.0.0/0"}]});
    let shown = &pod["networks"][0];
    assert_eq!(shown["ip4"]["ip"], ip4["ip"], "{pod}");
    assert_eq!(shown["ip4"]["gateway"], ip4["gateway"], "{pod}");
    assert_eq!(shown["ip4"]["routes"][0]["dst"], "0.0.0.0/0", "{pod}");
    assert!(kurma.inside(U, "ip addr show dev eth0").contains("10.10.0.2/16"));
    assert!(kurma.inside(U, "ip route").contains("default via 10.10.0.1 dev eth0"));
    kurma.inside(U, "ping -c 1 -W 3 10.10.0.1");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// The book knows through whom they came, whether one plugin of ours made them or a chain did.
#[test]
fn the_book_calls_them_kurmas() {
    let mut chain = network("two", 11);
    let fields = chain.as_object_mut().unwrap();
    let keys = ["type", "bridge", "isGateway", "ipMasq", "ipam"];
    let plugin: Value =
        keys.map(|key| (key.to_owned(), fields.remove(key).unwrap())).into_iter().collect();
    fields.insert("plugins".into(), json!([plugin, {"type": "tuning", "mtu": 1400}]));
    let kurma = ours(&json!([network("one", 10), chain]));
    kurma.kurma(&format!("provision {U}"));
    let rows: Value =
        serde_json::from_str(&kurma.world.sh("/opt/cni/bin/spoke ps -o json")).unwrap();
    let rows = rows.as_array().unwrap().iter();
    let reported: Vec<_> =
        rows.map(|row| (row["network"].as_str(), row["runtime"].as_str())).collect();
    assert_eq!(reported, [(Some("one"), Some("kurma")), (Some("two"), Some("kurma"))]);
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// Ours: what is refused for a missing name leaves nothing to undo.
#[test]
fn a_network_without_an_interface_leaves_nothing() {
    let mut unnamed = network("mynet", 10);
    unnamed.as_object_mut().unwrap().remove("containerInterface");
    let kurma = ours(&json!([unnamed]));
    let validated = kurma.kurma("validate");
    assert!(validated.contains("\"mynet\" has no containerInterface"), "{validated}");
    assert!(!validated.contains("nothing wrong"), "{validated}");
    kurma.refused(&format!("provision {U}"), &["mynet", "has no containerInterface"]);
    kurma.is_clean();
}

/// A18, and two networks of one pod.
#[test]
fn a18_a_pod_with_two_networks() {
    let kurma = ours(&json!([network("one", 221), network("two", 222)]));
    let pod = kurma.json(&format!("provision {U}"));
    assert_eq!((address(&pod, 0), address(&pod, 1)), ("10.221.0.2".into(), "10.222.0.2".into()));
    let lo = kurma.inside(U, "ip addr show dev lo");
    assert!(lo.contains("127.0.0.1/8") && lo.contains("UP"), "{lo}");
    assert!(kurma.inside(U, "ip addr show dev eth1").contains("10.222.0.2/16"));
    kurma.inside(U, "ping -c 1 -W 3 10.221.0.1 && ping -c 1 -W 3 10.222.0.1");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// A17.
#[test]
fn a17_eight_pods_at_once() {
    let kurma = &ours(&json!([network("one", 10)]));
    let uuids: Vec<_> = (0..8).map(uuid).collect();
    let pods: Vec<Value> = thread::scope(|threads| {
        let each = |uuid| threads.spawn(move || kurma.json(&format!("provision {uuid}")));
        let begun: Vec<_> = uuids.iter().map(each).collect();
        begun.into_iter().map(|pod| pod.join().unwrap()).collect()
    });
    let addresses: BTreeSet<_> = pods.iter().map(|pod| address(pod, 0)).collect();
    assert_eq!(addresses.len(), 8, "{addresses:?}");
    for (uuid, pod) in uuids.iter().zip(&pods) {
        let next = pods.iter().map(|pod| address(pod, 0)).find(|it| *it != address(pod, 0));
        kurma.inside(uuid, &format!("ping -c 1 -W 3 {}", next.unwrap()));
    }
    thread::scope(|threads| {
        for uuid in &uuids {
            threads.spawn(move || kurma.kurma(&format!("deprovision {uuid}")));
        }
    });
    kurma.is_clean();
}

/// 200 pods, 16 at once: no error, no leak.
#[test]
fn two_hundred_pods() {
    let kurma = ours(&json!([network("one", 10)]));
    let uuids: Vec<_> = (0..200).map(uuid).collect();
    let each = |verb: &str| {
        thread::scope(|threads| {
            for share in uuids.chunks(uuids.len().div_ceil(16)) {
                let work =
                    || share.iter().for_each(|uuid| drop(kurma.kurma(&format!("{verb} {uuid}"))));
                threads.spawn(work);
            }
        });
    };
    each("provision");
    let pods = kurma.json("pods");
    let pods = pods.as_array().unwrap();
    let addresses: BTreeSet<_> = pods.iter().map(|pod| address(pod, 0)).collect();
    assert_eq!((pods.len(), addresses.len()), (200, 200));
    each("deprovision");
    kurma.is_clean();
}
