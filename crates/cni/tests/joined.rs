//! Networks of another caller, joined by name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use cni::Plugin;
use model::{Alias, AliasId, Handoff, NetworkName};
use rig::{Rig, config};
use serde_json::{Value, json};

fn joining(network: &str) -> Value {
    config(json!({"name": "pods", "type": "spoke", "network": network}))
}

/// Makes the network `name` as a configuration describes it, which Docker calls `title`.
fn make(rig: &Rig, name: &str, subnet: &str, title: &str) {
    let described =
        config(json!({"name": name, "type": "spoke", "ipam": {"subnet": subnet}, "mtu": 1400}));
    rig.add(Plugin::Spoke, "first", &described);
    rig.command("DEL", Plugin::Spoke, "first", &described);
    rig.engine(|engine| {
        let network = engine.records.network(&name.parse().unwrap()).unwrap();
        let id: AliasId = format!("{name}-id").parse().unwrap();
        let alias = Alias { handoff: Handoff::Caller, ..doubles::alias(id.as_str(), &network) };
        engine.networks.enroll(&alias, &network).unwrap();
        engine.networks.set_title(&id, &title.parse().unwrap(), None).unwrap();
    });
}

fn networks(rig: &Rig) -> Vec<(String, String)> {
    let shown = |a: model::Attachment| (a.id.container.to_string(), a.id.network.to_string());
    rig.engine(|engine| engine.records.attachments().unwrap().into_iter().map(shown).collect())
}

#[test]
fn by_its_own_name_and_by_that_which_docker_has() {
    let rig = Rig::new();
    make(&rig, "docker-10.9.0.0-24", "10.9.0.0/24", "front");
    for (container, network, address) in
        [("a", "front", "10.9.0.3/24"), ("b", "docker-10.9.0.0-24", "10.9.0.4/24")]
    {
        let result = rig.add(Plugin::Spoke, container, &joining(network));
        assert_eq!(result["ips"][0]["address"], address);
        let (_, reported) = rig.last();
        assert_eq!(reported.id.network.as_str(), "docker-10.9.0.0-24");
        assert!(reported.wiring.link.unwrap().mtu.is_some(), "as it was made");
    }
    assert_eq!(networks(&rig).len(), 2);
}

/// A name may be another network's by the time at which a container leaves.
#[test]
fn left_is_what_was_joined() {
    let rig = Rig::new();
    make(&rig, "one", "10.9.0.0/24", "front");
    make(&rig, "two", "10.9.1.0/24", "back");
    rig.add(Plugin::Spoke, "a", &joining("front"));
    rig.engine(|engine| {
        let title: NetworkName = "front".parse().unwrap();
        engine
            .networks
            .set_title(&"one-id".parse().unwrap(), &"gone".parse().unwrap(), None)
            .unwrap();
        engine.networks.set_title(&"two-id".parse().unwrap(), &title, None).unwrap();
    });
    rig.add(Plugin::Spoke, "b", &joining("front"));
    let held = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(networks(&rig), [held("a", "one"), held("b", "two")]);
    let left = rig.command("DEL", Plugin::Spoke, "a", &joining("front"));
    assert_eq!(left.code, 0, "{left:?}");
    assert_eq!(networks(&rig), [held("b", "two")]);
    for container in ["b", "b", "never"] {
        let left = rig.command("DEL", Plugin::Spoke, container, &joining("nothing"));
        assert_eq!(left.code, 0, "{left:?}");
    }
    assert!(networks(&rig).is_empty());
}

#[test]
fn refused_with_a_reason() {
    let rig = Rig::new();
    make(&rig, "one", "10.9.0.0/24", "front");
    let (code, message) = rig.refused(Plugin::Spoke, "", &joining("nothing"));
    assert!(code == 104 && message.contains("no network nothing"), "{code} {message}");
    for extra in [json!({"mtu": 1500}), json!({"ipam": {"subnet": "10.8.0.0/24"}})] {
        let mut both = joining("front");
        for (key, value) in extra.as_object().unwrap() {
            both[key] = value.clone();
        }
        let (code, message) = rig.refused(Plugin::Spoke, "", &both);
        assert!(code == 7 && message.contains("joined as it was made"), "{code} {message}");
    }
    let (code, _) = rig.refused(Plugin::Spoke, "", &config(json!({"type": "spoke", "network": 5})));
    assert_eq!(code, 7);
    assert!(networks(&rig).is_empty());
}
