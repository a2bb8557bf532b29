//! Driver `ovs`: the field of that name, and the segment that it describes.

use model::{Error, Ovs, Result};
use spec::ovs::{self, OvsTexts};

use super::extras::object_of;
use crate::wire::{Node, Object};

/// The field.
const FIELD: &str = "ovs";

/// The segment of Open vSwitch that the configuration describes.
pub(super) fn segment(root: &Object<'_>) -> Result<Ovs> {
    let node = root.get(FIELD).ok_or_else(|| {
        Error::invalid(
            "driver ovs needs \"ovs\", an object with at least \"bridge\": one of Open vSwitch's",
        )
    })?;
    let object = object_of(&node, "which is not an object", &ovs::names())?;
    let mut given = Vec::new();
    for name in ovs::names() {
        let Some(node) = object.get(name) else { continue };
        match node.value().is_array() {
            true if name == "remote" => {
                for one in node.list()? {
                    given.push((name, one.text()?.to_owned()));
                }
            }
            _ => given.push((name, text(&node)?)),
        }
    }
    OvsTexts { before: "\"ovs.", after: "\"", given }.segment()
}

fn text(node: &Node<'_>) -> Result<String> {
    match node.value().is_number() {
        true => node.integer().map(|number| number.to_string()),
        false => node.text().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(ovs: &Value) -> Result<Ovs> {
        let document = json!({ "ovs": ovs });
        segment(&Object::new("", document.as_object().unwrap()))
    }

    #[test]
    fn each_field_is_understood() {
        let ovs = read(&json!({"bridge": "br0", "vlan": 10, "vni": 5000,
            "remote": ["192.0.2.2", "192.0.2.3"], "database": "unix:/run/db.sock"}))
        .unwrap();
        assert_eq!((ovs.bridge.as_str(), ovs.vlan.unwrap().number()), ("br0", 10));
        assert_eq!(ovs.tunnel.unwrap().remotes.len(), 2);
        assert_eq!(ovs.database, "unix:/run/db.sock");
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        for (ovs, words) in [
            (json!({}), "\"ovs.bridge\""),
            (json!("br0"), "which is not an object"),
            (json!({"bridge": "br0", "vlan": 4095}), "\"ovs.vlan\" is 4095"),
            (json!({"bridge": "br0", "remotes": []}), "\"ovs.remotes\""),
            (json!({"bridge": ["br0"]}), "\"ovs.bridge\""),
            (json!({"bridge": "br0", "remote": [7]}), "\"ovs.remote[0]\""),
        ] {
            let error = read(&ovs).unwrap_err().to_string();
            assert!(error.contains(words), "{ovs}: {error}");
        }
    }
}
