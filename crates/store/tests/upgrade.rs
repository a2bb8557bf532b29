//! Records of earlier builds are read, whose fields and values had other names.
#![allow(clippy::unwrap_used, clippy::panic)]

use model::{
    Attachment, GatewayRole, GatewayState, Layer, LinkKind, Phase, Process, Runtime, SandboxRecord,
    Stage, Timestamp,
};
use serde_json::{Value, json};

/// What a build wrote that called `new` by its `old` name.
fn older(mut record: Value, names: &[(&str, &str)]) -> Value {
    let map = record.as_object_mut().unwrap();
    for (new, old) in names {
        let value = map.remove(*new).unwrap_or_else(|| panic!("no field {new}"));
        map.insert((*old).to_owned(), value);
    }
    record
}

#[test]
fn an_attachment() {
    let id = doubles::attachment_id("front", "web");
    let phase = Phase::Attaching { by: Process { pid: 1, start: 2 } };
    let mut record = Attachment::new(id, Layer::Link, Runtime::Spoke, Timestamp(1), phase);
    record.spec = Some(record.spec());
    record.gateway_role = Some(GatewayRole { priority: 7, ..GatewayRole::default() });
    let names = [("spec", "wish"), ("gateway_role", "lead")];
    let before = older(serde_json::to_value(&record).unwrap(), &names);
    assert_eq!(serde_json::from_value::<Attachment>(before).unwrap(), record);
}

#[test]
fn a_sandbox() {
    for (state, old) in
        [(GatewayState::Determined, "settled"), (GatewayState::Undetermined, "unsettled")]
    {
        let record = SandboxRecord { gateway_state: state, ..SandboxRecord::default() };
        let mut before =
            older(serde_json::to_value(&record).unwrap(), &[("gateway_state", "steering")]);
        before["steering"] = json!(old);
        assert_eq!(serde_json::from_value::<SandboxRecord>(before).unwrap(), record);
    }
}

#[test]
fn values_and_links() {
    assert_eq!(serde_json::from_value::<Stage>(json!("left")).unwrap(), Stage::Failed);
    assert_eq!(serde_json::from_value::<Stage>(json!("unsupported")).unwrap(), Stage::Draining);
    let kind: LinkKind = serde_json::from_value(json!({"ready": {"source": "x0"}})).unwrap();
    assert!(matches!(kind, LinkKind::ExternalInterface(_)), "{kind:?}");
}
