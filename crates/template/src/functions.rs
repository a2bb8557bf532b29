//! Go's functions (`text/template`, "Functions"), and those that Docker adds.

use std::cmp::Ordering;

use model::{Error, Result};
use serde_json::Value;

use super::format::format;
use super::parse::Function as F;
use super::value::{field, is_true, shown, spaced};
use super::{expected, wrong_count};

pub(super) fn apply(function: F, arguments: &[Value]) -> Result<Value> {
    let count = |want: &str| Err(wrong_count(function.name(), want, arguments.len()));
    Ok(match (function, arguments) {
        (F::Json, [value]) => json(value).into(),
        (F::Upper, [value]) => shown(value).to_uppercase().into(),
        (F::Lower, [value]) => shown(value).to_lowercase().into(),
        (F::Len, [value]) => length(value)?.into(),
        (F::Not, [value]) => (!is_true(value)).into(),
        (F::Json | F::Upper | F::Lower | F::Len | F::Not, _) => return count("1"),
        (F::Join, [Value::Array(items), Value::String(between)]) => {
            items.iter().map(shown).collect::<Vec<_>>().join(between).into()
        }
        (F::Join, [Value::Array(_), other]) => return Err(expected("string", other)),
        (F::Join, [other, _]) => return Err(expected("list", other)),
        (F::Index, [within, at]) => index(within, at)?.clone(),
        (F::Ne, [one, other]) => (!equal(one, other)?).into(),
        (F::Lt, [one, other]) => order(one, other)?.is_lt().into(),
        (F::Le, [one, other]) => order(one, other)?.is_le().into(),
        (F::Gt, [one, other]) => order(one, other)?.is_gt().into(),
        (F::Ge, [one, other]) => order(one, other)?.is_ge().into(),
        (F::Join | F::Index | F::Ne | F::Lt | F::Le | F::Gt | F::Ge, _) => return count("2"),
        (F::Eq, [first, second, rest @ ..]) => {
            let mut is_equal = equal(first, second)?;
            for other in rest {
                is_equal |= equal(first, other)?;
            }
            is_equal.into()
        }
        (F::Eq, _) => return Err(Error::invalid("missing argument for comparison")),
        (F::And | F::Or, [.., last]) => {
            let decides = |value: &&Value| is_true(value) == (function == F::Or);
            arguments.iter().find(decides).unwrap_or(last).clone()
        }
        (F::Print, values) => print(values).into(),
        (F::Println, values) => (spaced(values) + "\n").into(),
        (F::Printf, [Value::String(layout), rest @ ..]) => format(layout, rest)?.into(),
        (F::Printf, [value, ..]) => return Err(expected("string", value)),
        (F::And | F::Or | F::Printf, _) => return count("at least 1"),
    })
}

/// JSON leaves DEL and the control characters from U+0080 to U+009F as they are, of which some steer a
/// terminal.
fn json(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        match c.is_control() {
            true => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => text.push(c),
        }
    }
    text
}

fn length(value: &Value) -> Result<usize> {
    match value {
        Value::Array(items) => Ok(items.len()),
        Value::Object(fields) => Ok(fields.len()),
        Value::String(text) => Ok(text.len()),
        other => Err(Error::invalid(format!("len of {}", shown(other)))),
    }
}

fn index<'a>(within: &'a Value, at: &Value) -> Result<&'a Value> {
    match (within, at) {
        (within, Value::String(name)) => field(within, name),
        (Value::Array(items), Value::Number(at)) => {
            let item = at.as_u64().and_then(|at| items.get(usize::try_from(at).ok()?));
            item.ok_or_else(|| Error::invalid(format!("no element {at}")))
        }
        (other, _) => Err(Error::invalid(format!("can't index {}", shown(other)))),
    }
}

/// A missing value differs from every other one.
fn equal(one: &Value, other: &Value) -> Result<bool> {
    let is_list = |value: &Value| value.is_array() || value.is_object();
    let is_same = std::mem::discriminant(one) == std::mem::discriminant(other);
    match one.is_null() || other.is_null() || is_same && !is_list(one) {
        true => Ok(one == other),
        false => Err(Error::invalid("incompatible types for comparison")),
    }
}

fn order(one: &Value, other: &Value) -> Result<Ordering> {
    match (one, other) {
        (Value::String(one), Value::String(other)) => Ok(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => Ok(match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
        }),
        (Value::Bool(_), Value::Bool(_)) => Err(Error::invalid("invalid type for comparison")),
        _ => Err(Error::invalid("incompatible types for comparison")),
    }
}

/// `fmt.Sprint`: a space between two of which neither is text.
fn print(values: &[Value]) -> String {
    let mut out = String::new();
    let mut before = None;
    for value in values {
        if before.is_some_and(|before: &Value| !before.is_string() && !value.is_string()) {
            out.push(' ');
        }
        out += &shown(value);
        before = Some(value);
    }
    out
}
