//! Values as the database writes them (RFC 7047 §5.1): a set of one element stands without its set.

use std::collections::BTreeMap;

use serde_json::Value;

/// The rows that the operation with this index has selected.
pub(super) fn rows(results: &[Value], index: usize) -> &[Value] {
    let rows = results.get(index).and_then(|result| result.get("rows")?.as_array());
    rows.map_or(&[], Vec::as_slice)
}

/// A map of texts; what is no text is left out.
pub(super) fn map(value: &Value) -> BTreeMap<String, String> {
    let pairs = tagged(value, "map").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let pair =
        |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_str()?.to_owned()));
    pairs.iter().filter_map(pair).collect()
}

/// The row that a value refers to.
pub(super) fn uuid(value: &Value) -> Option<&str> {
    tagged(value, "uuid")?.as_str()
}

/// The rows that a value refers to: one, or a set.
pub(super) fn uuids(value: Option<&Value>) -> Vec<&str> {
    let Some(value) = value else { return Vec::new() };
    match tagged(value, "set").and_then(Value::as_array) {
        Some(set) => set.iter().filter_map(uuid).collect(),
        None => uuid(value).into_iter().collect(),
    }
}

/// A text, where there is one.
pub(super) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn tagged<'a>(value: &'a Value, tag: &str) -> Option<&'a Value> {
    match value.as_array()?.as_slice() {
        [first, value] if first.as_str() == Some(tag) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read() {
        let ids = map(&json!(["map", [["iface-id", "a"], ["n", 1], ["owner", "kuryr"], 7]]));
        assert_eq!(ids.len(), 2);
        assert_eq!(ids["owner"], "kuryr");
        assert_eq!(uuids(Some(&json!(["uuid", "a"]))), ["a"]);
        assert_eq!(uuids(Some(&json!(["set", [["uuid", "a"], ["uuid", "b"], 3]]))), ["a", "b"]);
        assert!(uuids(Some(&json!(["set", []]))).is_empty() && uuids(None).is_empty());
        assert_eq!(text(&json!(["set", []])), None);
        let results = [json!({}), json!({ "rows": [{ "name": "a" }] }), json!(null)];
        assert_eq!(rows(&results, 1).len(), 1);
        assert!(rows(&results, 0).is_empty() && rows(&results, 2).is_empty());
        assert!(rows(&results, 9).is_empty());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop_oneof![Just("map"), Just("set"), Just("uuid"), Just("x")].prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 5, |inner| {
            proptest::collection::vec(inner, 0..5).prop_map(Value::from)
        })
    }

    proptest! {
        #[test]
        fn any_value_is_read(value in any_value()) {
            let _ = (map(&value), uuid(&value), uuids(Some(&value)), text(&value));
            let _ = rows(std::slice::from_ref(&value), 0);
        }
    }
}
