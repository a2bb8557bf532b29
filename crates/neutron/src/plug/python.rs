//! Values as Python writes them: kuryr's scripts get `binding:vif_details` in the form of `str()`,
//! and search it for texts such as `'ovs_hybrid_plug': True`.

use serde_json::Value;

/// A value as Python's `repr` writes it.
pub(super) fn repr(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, to: &mut String) {
    match value {
        Value::Null => to.push_str("None"),
        Value::Bool(true) => to.push_str("True"),
        Value::Bool(false) => to.push_str("False"),
        Value::Number(number) => to.push_str(&number.to_string()),
        Value::String(text) => quote(text, to),
        Value::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, to);
                write(item, to);
            }
            to.push(']');
        }
        Value::Object(members) => {
            to.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                separate(index, to);
                quote(key, to);
                to.push_str(": ");
                write(member, to);
            }
            to.push('}');
        }
    }
}

fn separate(index: usize, to: &mut String) {
    if index > 0 {
        to.push_str(", ");
    }
}

/// In single quotes, unless only those are in the text.
fn quote(text: &str, to: &mut String) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    to.push(mark);
    for c in text.chars() {
        match c {
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            c if c == mark => to.extend(['\\', c]),
            c if c.is_control() => to.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => to.push(c),
        }
    }
    to.push(mark);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_as_python_writes_them() {
        let details = json!({ "ovs_hybrid_plug": true, "port_filter": false, "vlan": 7,
            "none": null, "list": ["a", 1.5], "connectivity": "l2" });
        assert_eq!(
            repr(&details),
            "{'connectivity': 'l2', 'list': ['a', 1.5], 'none': None, 'ovs_hybrid_plug': True, \
             'port_filter': False, 'vlan': 7}"
        );
        assert_eq!(repr(&json!("it's")), "\"it's\"");
        assert_eq!(repr(&json!("a'b\"c\\d\n\u{7}é")), r#"'a\'b"c\\d\n\x07é'"#);
        assert_eq!(repr(&json!([])), "[]");
    }
}
