//! What a value is in a template: its fields, whether it is true, and how it is printed.

use model::{Error, Result};
use serde_json::Value;

/// A field by its name in JSON, or by the name that Go would give it: `.HostPort` is `host_port`.
pub(super) fn field<'a>(within: &'a Value, name: &str) -> Result<&'a Value> {
    let Value::Object(fields) = within else {
        return Err(Error::invalid(format!(".{name}: there are no fields in it")));
    };
    let folded = |name: &str| name.replace('_', "").to_lowercase();
    let found = fields.iter().find(|(known, _)| folded(known) == folded(name));
    found.map(|(_, value)| value).ok_or_else(|| {
        let known: Vec<&str> = fields.keys().map(String::as_str).collect();
        Error::invalid(format!("no field .{name}; there are {}", known.join(", ")))
    })
}

pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// As Go prints it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", spaced(items)),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}:{}", shown(value));
            format!("map[{}]", fields.iter().map(field).collect::<Vec<_>>().join(" "))
        }
    }
}

/// With a space between two.
pub(super) fn spaced(values: &[Value]) -> String {
    values.iter().map(shown).collect::<Vec<_>>().join(" ")
}
