//! What the database has of segments' ports, and the end of those whose device went with a boot: the database
//! outlasts it, and the records of attachments do not.

use std::time::Duration;

use model::{IfName, Result};
use serde_json::{Value, json};

use super::operation::{Table, is_named, select, wait};
use super::segment::OWNER;
use super::{MADE_BY, Ovsdb, deletion, value};

/// How a network's tunnels are owned: this, and its name.
const NETWORK: &str = "network ";

/// A port that Spoke made, of a container or a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The interface.
    pub end: IfName,
    /// Its owner.
    pub owner: String,
    /// Whether the switch does not find the device.
    pub is_dead: bool,
}

impl Listed {
    /// Whether it is a tunnel, which goes with its network.
    pub fn is_tunnel(&self) -> bool {
        self.owner.starts_with(NETWORK)
    }
}

impl Ovsdb {
    /// Every port of a segment that Spoke made.
    ///
    /// # Errors
    /// As [`Ovsdb::bridge`].
    pub fn listed(&mut self) -> Result<Vec<Listed>> {
        let ours = json!([["external_ids", "includes", ["map", [["made-by", MADE_BY]]]]]);
        let columns = ["name", "external_ids", "ofport"];
        let results = self.carry_out(&[select(Table::Interface, ours, &columns)])?;
        Ok(value::rows(&results, 0).iter().filter_map(listed).collect())
    }

    /// Removes the owner's port of this name, provided that the switch still does not find its device; whether
    /// it was removed.
    ///
    /// # Errors
    /// As [`Ovsdb::remove`].
    pub fn remove_dead(&mut self, end: &IfName, owner: &str) -> Result<bool> {
        let results = self.carry_out(&[
            select(Table::Interface, is_named(end), &["name", "external_ids", "ofport"]),
            select(Table::Port, is_named(end), &["_uuid"]),
        ])?;
        let interface = value::rows(&results, 0).first();
        let row = value::rows(&results, 1).first();
        let row = row.and_then(|row| value::uuid(row.get("_uuid")?));
        let (Some(interface), Some(row)) = (interface, row) else { return Ok(false) };
        let is_it = listed(interface).is_some_and(|it| it.is_dead && it.owner == owner);
        let (true, Some(ids)) = (is_it, interface.get("external_ids")) else { return Ok(false) };
        let mut operations = deletion(end, ids, row);
        // Its attachment may be made again meanwhile: then the switch finds it.
        let unfound = json!([{ "ofport": -1 }]);
        let still = wait(Table::Interface, end, "==", (&["ofport"], unfound), Duration::ZERO);
        operations.insert(0, still);
        match self.session.transact(&operations)? {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.is_timeout() => Ok(false),
            Err(refusal) => Err(refusal.into_error(&format!("removing {end}"))),
        }
    }
}

fn listed(row: &Value) -> Option<Listed> {
    let mut ids = value::map(row.get("external_ids")?);
    Some(Listed {
        end: row.get("name")?.as_str()?.parse().ok()?,
        owner: ids.remove(OWNER)?,
        is_dead: row.get("ofport").and_then(Value::as_i64) == Some(-1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_switch_looked_for_in_vain_is_dead() {
        let row = |ofport: Value, owner: &str| {
            let ids = json!(["map", [["made-by", "spoke"], ["spoke-owner", owner]]]);
            listed(&json!({ "name": "sp1", "external_ids": ids, "ofport": ofport })).unwrap()
        };
        assert!(row(json!(-1), "ten/a/eth0").is_dead);
        assert!(!row(json!(7), "ten/a/eth0").is_dead);
        assert!(!row(json!(["set", []]), "ten/a/eth0").is_dead, "the switch does not run");
        assert!(
            row(json!(3), "network ten").is_tunnel() && !row(json!(3), "network/a/b").is_tunnel()
        );
        // A port of Neutron's has no such owner.
        let neutrons = json!(["map", [["made-by", "spoke"], ["owner", "kuryr"]]]);
        let row = json!({ "name": "tap1", "external_ids": neutrons, "ofport": -1 });
        assert_eq!(listed(&row), None);
    }
}
