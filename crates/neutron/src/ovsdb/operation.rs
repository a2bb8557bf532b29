//! Operations of a transaction (RFC 7047 §5.2).

use std::time::Duration;

use model::IfName;
use serde_json::{Value, json};

/// A table of `Open_vSwitch` (ovs-vswitchd.conf.db(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Bridge,
    Port,
    Interface,
    /// The one row about the switch itself.
    Switch,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Bridge => "Bridge",
            Table::Port => "Port",
            Table::Interface => "Interface",
            Table::Switch => "Open_vSwitch",
        }
    }
}

/// The condition that a row is of this name.
pub(super) fn is_named(name: &IfName) -> Value {
    json!([["name", "==", name.as_str()]])
}

pub(super) fn select(table: Table, condition: Value, columns: &[&str]) -> Value {
    json!({ "op": "select", "table": table.name(), "where": condition, "columns": columns })
}

/// Adds a row that the same transaction calls `name`.
pub(super) fn insert(table: Table, name: &str, row: Value) -> Value {
    json!({ "op": "insert", "table": table.name(), "uuid-name": name, "row": row })
}

pub(super) fn mutate(table: Table, condition: Value, mutations: Value) -> Value {
    json!({ "op": "mutate", "table": table.name(), "where": condition, "mutations": mutations })
}

/// Lets the transaction continue only once the columns of the rows of this name are, or are not,
/// those.
pub(super) fn wait(
    table: Table,
    name: &IfName,
    until: &str,
    (columns, rows): (&[&str], Value),
    timeout: Duration,
) -> Value {
    json!({
        "op": "wait",
        "table": table.name(),
        "where": is_named(name),
        "columns": columns,
        "until": until,
        "rows": rows,
        "timeout": u64::try_from(timeout.as_millis()).unwrap_or(0),
    })
}

/// The comment on the transaction in the database's log.
pub(super) fn comment(text: &str) -> Value {
    json!({ "op": "comment", "comment": text })
}
