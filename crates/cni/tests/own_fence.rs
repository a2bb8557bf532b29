//! The rules of one container of type `spoke`, as its author and its runtime write them.

#![allow(clippy::unwrap_used)]

mod rig;

use cni::Plugin;
use rig::{Rig, config};
use serde_json::{Value, json};

const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

fn described(fields: &Value) -> Value {
    let mut all = json!({"names": true, "ipam": {"subnet": "10.9.0.0/24"}});
    for (key, value) in fields.as_object().unwrap() {
        all[key] = value.clone();
    }
    config(all)
}

fn refused(fields: &Value) -> String {
    let rig = Rig::new();
    let (_, said) = rig.refused(Plugin::Spoke, "", &described(fields));
    assert!(rig.driver.calls.borrow().is_empty(), "nothing was done");
    said
}

fn check(rig: &Rig, fields: &Value, answer: &Value) {
    let mut asked = described(fields);
    asked["prevResult"] = answer.clone();
    let output = rig.command("CHECK", Plugin::Spoke, "c1", &asked);
    assert_eq!(output.code, 0, "{fields}: {output:?}");
}

fn annotated(annotations: &Value) -> Value {
    json!({"runtimeConfig": {ANNOTATIONS: annotations}})
}

#[test]
fn a_mistyped_annotation_is_refused() {
    for wrong in ["spoke.egres", "Spoke.Egress-strict.", "spoke/egress", "spoke."] {
        let said = refused(&annotated(&json!({wrong: "none"})));
        for words in
            [wrong, "Spoke has no such annotation", "it has spoke.egress and spoke.egress-strict"]
        {
            assert!(said.contains(words), "{said}");
        }
        if wrong == "spoke.egres" {
            assert!(said.contains("did you mean spoke.egress?"), "{said}");
        }
    }
    let rig = Rig::new();
    let others = json!({"spoke.example/team": "x", "app": "y", "spoke.egress": "none"});
    rig.add(Plugin::Spoke, "c1", &described(&annotated(&others)));
    assert!(rig.last().1.wiring.own_fence.unwrap().rules.is_empty());
    // What is wrong keeps no pod from going.
    let wrong = described(&annotated(&json!({"spoke.egres": "none"})));
    rig.command("DEL", Plugin::Spoke, "c1", &wrong);
    assert!(rig.engine(|engine| engine.records.attachments().unwrap().is_empty()));
}

#[test]
fn rules_beside_their_place_are_refused() {
    for (fields, named) in [
        (json!({"args": {"egress": ["a.example:443"]}}), "\"args.egress\" is"),
        (
            json!({"args": {"egressStrict": true, "cni": {"egress": "none"}}}),
            "\"args.egressStrict\" is",
        ),
        (json!({"args": {"egress": "none", "cni": {"egress": "none"}}}), "\"args.egress\" is"),
    ] {
        let said = refused(&fields);
        assert!(
            said.contains(named) && said.contains("belongs into \"args\": {\"cni\":"),
            "{said}"
        );
    }
}

#[test]
fn null_opens_nothing() {
    let front = json!({"name": "front", "egress": null});
    for (fields, named) in [
        (json!({"egress": null}), "\"egress\" is null"),
        (json!({"Egress": null}), "\"Egress\" is null"),
        (json!({"egressStrict": null}), "\"egressStrict\" is null"),
        (json!({"via": null}), "\"via\" is null"),
        (json!({"ingressPolicy": null}), "\"ingressPolicy\" is null"),
        (json!({"networks": null}), "\"networks\" is null"),
        (json!({"args": {"cni": {"egress": null}}}), "\"args.cni.egress\" is null"),
        (json!({"args": {"cni": {"egressStrict": null}}}), "\"args.cni.egressStrict\" is null"),
        (json!({"runtimeConfig": {"egress": null}}), "\"runtimeConfig.egress\" is null"),
        (annotated(&json!({"spoke.egress": null})), "spoke.egress\" is null"),
    ] {
        let said = refused(&fields);
        assert!(said.contains(named) && said.contains("leave it out"), "{said}");
    }
    let rig = Rig::new();
    let (_, said) = rig.refused(Plugin::Spoke, "", &config(json!({"networks": [front]})));
    assert!(said.contains("\"networks[0].egress\" is null"), "{said}");
    // A container that is there goes all the same.
    rig.add(Plugin::Spoke, "c1", &described(&json!({})));
    rig.command("DEL", Plugin::Spoke, "c1", &described(&json!({"egress": null})));
    assert!(rig.engine(|engine| engine.records.attachments().unwrap().is_empty()));
}

/// No command makes a list: it comes with each container, and is refused with each.
#[test]
fn a_list_that_an_earlier_version_took_goes_on() {
    let empty = json!({"ingressPolicy": ""});
    let named = json!({"egress": ["0x0a000001:443"]});
    let beside = json!({"args": {"egress": "none"}});
    let own = json!({"args": {"cni": {"egress": "0x0a000001:443"}}});
    for fields in [&empty, &named] {
        let rig = Rig::new();
        let answer = rig.add(Plugin::Spoke, "c1", &described(fields));
        check(&rig, fields, &answer);
        rig.command("DEL", Plugin::Spoke, "c1", &described(fields));
        assert!(rig.engine(|engine| engine.records.attachments().unwrap().is_empty()));
    }
    for fields in [&beside, &own] {
        let rig = Rig::new();
        refused(fields);
        let answer = rig.add(Plugin::Spoke, "c1", &described(&json!({})));
        check(&rig, fields, &answer);
    }
}
