//! JSON values written as YAML 1.2 in block style. Strings that YAML could read as something else
//! are double-quoted as in JSON, which YAML includes.

use serde_json::Value;

/// One document.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    node(value, 0, &mut text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.trim_start_matches('\n').to_owned()
}

/// Writes `value` after a `:` or `-`, or at the start.
fn node(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                line(depth, "- ", text);
                let mut below = String::new();
                node(item, depth + 1, &mut below);
                text.push_str(below.trim_start_matches(['\n', ' ']));
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                line(depth, &format!("{}:", scalar(name)), text);
                entry(field, depth, text);
            }
        }
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
        Value::String(string) => text.push_str(&scalar(string)),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn line(depth: usize, start: &str, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
    text.push_str(start);
}

fn entry(value: &Value, depth: usize, text: &mut String) {
    let nested = match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if !nested {
        text.push(' ');
    }
    node(value, depth + 1, text);
}

/// Plain only if it starts with a letter, holds nothing special, and is no word of YAML.
fn scalar(string: &str) -> String {
    const WORDS: [&str; 11] =
        ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan"];
    let plain = string.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && string
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/'))
        && !WORDS.contains(&string.to_ascii_lowercase().as_str());
    if plain { string.to_owned() } else { quoted(string) }
}

fn quoted(string: &str) -> String {
    let json = Value::from(string).to_string();
    let printable = |c: char| !c.is_control() && !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}');
    json.chars()
        .map(|c| if printable(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_quotes() {
        let value = serde_json::json!([
            {"name": "front", "mtu": 1500, "subnets": [{"subnet": "10.0.0.0/24"}], "dns": {}},
            {"name": "no", "none": null, "list": [], "odd": "a: b\u{7f}\n"},
        ]);
        assert_eq!(
            text(&value),
            r#"- dns: {}
  mtu: 1500
  name: front
  subnets:
    - subnet: "10.0.0.0/24"
- list: []
  name: "no"
  none: null
  odd: "a: b\u007f\n"
"#
        );
        assert_eq!(text(&serde_json::json!([])), "[]\n");
    }
}
