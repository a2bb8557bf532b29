//! Several networks in one call of type `spoke`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use cni::Plugin;
use model::*;
use rig::{Rig, config, json_of};
use serde_json::{Value, json};

/// Declared networks: two bridges and a macvlan.
fn rig() -> Rig {
    let rig = Rig::new();
    for (name, fields) in [
        ("front", json!({"ipam": {"subnet": "10.8.1.0/24"}})),
        ("back", json!({"ipam": {"subnet": "10.8.2.0/24"}})),
        ("lan", json!({"driver": "macvlan", "parent": "eth9", "ipam": {"subnet": "10.8.3.0/24"}})),
    ] {
        let mut described = config(fields);
        (described["type"], described["name"]) = ("spoke".into(), name.into());
        rig.add(Plugin::Spoke, "first", &described);
        rig.command("DEL", Plugin::Spoke, "first", &described);
        rig.engine(|engine| {
            let network = engine.records.network(&name.parse().unwrap()).unwrap();
            engine.networks.create(&Network { runtime: Runtime::Spoke, ..network }).unwrap();
        });
    }
    rig
}

fn joining(networks: &Value) -> Value {
    config(json!({"name": "pods", "networks": networks}))
}

fn attachments(rig: &Rig) -> Vec<(String, String, String)> {
    let shown = |a: Attachment| {
        (a.id.container.to_string(), a.id.network.to_string(), a.id.ifname.to_string())
    };
    rig.engine(|engine| engine.records.attachments().unwrap().into_iter().map(shown).collect())
}

fn on(container: &str, network: &str, ifname: &str) -> (String, String, String) {
    (container.into(), network.into(), ifname.into())
}

#[test]
fn an_interface_on_each() {
    let rig = rig();
    let mut config = joining(&json!(["front", {"name": "lan", "ifname": "lan0"}, "back"]));
    config["runtimeConfig"] = json!({"ips": ["10.8.2.77"], "mac": "02:00:00:00:00:42",
        "portMappings": [{"hostPort": 8, "containerPort": 8, "protocol": "tcp"}]});
    let result = rig.add(Plugin::Spoke, "c1", &config);
    let names: Vec<&str> = result["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sp-front", "eth0", "lan0", "sp-back", "net1"]);
    let ips = result["ips"].as_array().unwrap();
    let places: Vec<u64> = ips.iter().map(|ip| ip["interface"].as_u64().unwrap()).collect();
    assert_eq!(places, [1, 2, 4]);
    assert_eq!(ips[2]["address"], "10.8.2.77/24");
    // The bridge of the recorder's first network has no route to tell; the LAN's is the first.
    assert_eq!(
        attachments(&rig),
        [on("c1", "back", "net1"), on("c1", "front", "eth0"), on("c1", "lan", "lan0")]
    );
    rig.engine(|engine| {
        let publishing = |record: &&Attachment| record.wiring.publish.is_some();
        let records = engine.records.attachments().unwrap();
        assert_eq!(records.iter().filter(publishing).count(), 1);
        let with_mac = |record: &&Attachment| record.wiring.link.as_ref().unwrap().mac.is_some();
        let named: Vec<&str> =
            records.iter().filter(with_mac).map(|record| record.id.ifname.as_str()).collect();
        assert_eq!(named, ["eth0"]);
    });
}

/// Where the first network cannot publish, the next one that can does.
#[test]
fn ports_are_published_where_that_is_possible() {
    let rig = rig();
    let mut config = joining(&json!(["lan", "front"]));
    let port = json!([{"hostPort": 8, "containerPort": 8, "protocol": "tcp"}]);
    config["runtimeConfig"] = json!({"portMappings": port});
    rig.add(Plugin::Spoke, "c1", &config);
    rig.engine(|engine| {
        let records = engine.records.attachments().unwrap().into_iter();
        let publishing = records.filter(|record| record.wiring.publish.is_some());
        let names: Vec<String> = publishing.map(|record| record.id.network.to_string()).collect();
        assert_eq!(names, ["front"]);
    });
    config["networks"] = json!(["lan"]);
    let (code, msg) = rig.refused(Plugin::Spoke, "", &config);
    assert!(code == 7 && msg.starts_with("\"runtimeConfig.portMappings\""), "{msg}");
}

#[test]
fn all_or_nothing() {
    let rig = rig();
    rig.engine(|engine| {
        engine.addresses.reserve_address(&Space::Host, "10.8.2.9".parse().unwrap(), None)
    })
    .unwrap();
    let mut config = joining(&json!(["front", {"name": "back", "ips": ["10.8.2.9"]}]));
    let (code, msg) = rig.refused(Plugin::Spoke, "", &config);
    assert!(code == 101 && msg.contains("10.8.2.9 is reserved"), "{msg}");
    assert!(attachments(&rig).is_empty());
    config["networks"] = json!(["front", "nothing"]);
    assert_eq!(rig.refused(Plugin::Spoke, "", &config).0, 104);
}

#[test]
fn one_del_removes_all_whatever_the_configuration_says_by_then() {
    let rig = rig();
    let made = joining(&json!(["front", "back"]));
    for now in [
        made.clone(),
        joining(&json!(["back"])),
        joining(&json!(["lan"])),
        joining(&json!([])),
        joining(&json!([{"nome": "front"}])),
        joining(&json!(["gone", "back"])),
        config(json!({"name": "pods", "network": "front"})),
        config(json!({"name": "pods", "ipam": {"subnet": "10.7.0.0/24"}})),
        config(json!({"name": "pods", "unknown": true})),
    ] {
        rig.add(Plugin::Spoke, "c1", &made);
        rig.add(Plugin::Spoke, "c2", &made);
        for _ in 0..2 {
            let left = rig.command("DEL", Plugin::Spoke, "c1", &now);
            assert_eq!(left.code, 0, "{now}: {left:?}");
            assert_eq!(attachments(&rig), [on("c2", "back", "net1"), on("c2", "front", "eth0")]);
        }
        rig.command("DEL", Plugin::Spoke, "c2", &now);
        assert!(attachments(&rig).is_empty(), "{now}");
    }
}

#[test]
fn check_looks_at_all() {
    let rig = rig();
    let mut config = joining(&json!(["front", "back"]));
    config["prevResult"] = rig.add(Plugin::Spoke, "c1", &config);
    let checked = |config: &Value| rig.command("CHECK", Plugin::Spoke, "c1", config);
    assert_eq!(checked(&config).code, 0);
    let was = rig.driver.calls.borrow().iter().filter(|(verb, _)| *verb == "check").count();
    assert_eq!(was, 2);
    rig.engine(|engine| {
        let holders = engine.records.holders().unwrap();
        engine.repair.evict(&holders[1]).unwrap();
    });
    let output = checked(&config);
    assert_eq!(output.code, 1, "{output:?}");
}

fn gc(rig: &Rig, network: &Value, valid: &[&str]) {
    let member = |id: &&str| json!({"containerID": id, "ifname": "eth0"});
    let valid: Vec<Value> = valid.iter().map(member).collect();
    let mut config = network.clone();
    config["cni.dev/valid-attachments"] = valid.into();
    let output = rig.command("GC", Plugin::Spoke, "", &config);
    assert_eq!(output.code, 0, "{output:?}");
}

#[test]
fn gc_keeps_every_interface_of_a_valid_container_and_what_others_joined() {
    let rig = rig();
    let made = joining(&json!(["front", "back"]));
    let other = config(json!({"name": "others", "networks": ["front", "lan"]}));
    rig.add(Plugin::Spoke, "c1", &made);
    rig.add(Plugin::Spoke, "c2", &made);
    rig.add(Plugin::Spoke, "o1", &other);
    let others = [on("o1", "front", "eth0"), on("o1", "lan", "net1")];
    let c1 = [on("c1", "back", "net1"), on("c1", "front", "eth0")];
    gc(&rig, &made, &["c1"]);
    let [back, front] = c1.clone();
    let [of_front, of_lan] = others.clone();
    assert_eq!(attachments(&rig), [back, front, of_front, of_lan]);
    // Also on networks that it does not name any more.
    gc(&rig, &joining(&json!(["lan"])), &[]);
    assert_eq!(attachments(&rig), others);
    gc(&rig, &other, &["o1"]);
    assert_eq!(attachments(&rig), others);
    gc(&rig, &other, &[]);
    assert!(attachments(&rig).is_empty());
}

#[test]
fn refused_by_name_and_value() {
    let rig = rig();
    for (fields, code, msg) in [
        (json!({"networks": []}), 7, "\"networks\" is [], which names no network"),
        (json!({"networks": "front"}), 7, "\"networks\" is \"front\", which is not a list"),
        (
            json!({"networks": [5]}),
            7,
            "\"networks[0]\" is 5, which is neither a name nor an object",
        ),
        (json!({"networks": [{}]}), 7, "\"networks[0]\" is {}, which has no \"name\""),
        (
            json!({"networks": [{"name": "front", "subnet": "x"}]}),
            2,
            "\"networks[0].subnet\" is \"x\", but a network to join has no such option; it has name",
        ),
        (
            json!({"networks": [{"name": "front", "ifname": "net1"}]}),
            7,
            "\"networks[0].ifname\" is net1, but the interface on the first network is the runtime's",
        ),
        (
            json!({"networks": ["front", {"name": "back", "ifname": "eth0"}]}),
            7,
            "\"networks[1].ifname\" is eth0, which another of the networks has",
        ),
        (
            json!({"networks": ["front"], "network": "back"}),
            7,
            "\"network\" is \"back\", but \"networks\" names networks",
        ),
        (json!({"networks": ["front"], "mtu": 1400}), 7, "\"mtu\" is 1400, but \"networks\""),
        (
            json!({"networks": ["lan", {"name": "lan", "ifname": "x", "bandwidth":
                {"egressRate": 8, "egressBurst": 8}}]}),
            7,
            "\"bandwidth\" is for drivers bridge and ptp",
        ),
        (
            json!({"networks": ["front"], "runtimeConfig": {"ips": ["10.1.1.1"]}}),
            7,
            "requested address 10.1.1.1 is in no range of the \"networks\"",
        ),
    ] {
        let (was_code, was) = rig.refused(Plugin::Spoke, "", &config(fields.clone()));
        assert!(was_code == code && was.starts_with(msg), "{fields}: {was_code} {was}");
    }
}

#[test]
fn names_that_were_not_given() {
    let rig = rig();
    let networks = json!(["front", "back", {"name": "lan", "ifname": "net1"}]);
    let result = json_of(&rig.command("ADD", Plugin::Spoke, "c1", &joining(&networks)));
    let text = result.to_string();
    assert!(text.contains("\"net1\"") && text.contains("\"net2\""), "{text}");
    assert_eq!(attachments(&rig)[0], on("c1", "back", "net2"));
}
