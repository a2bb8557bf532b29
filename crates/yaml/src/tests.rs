//! What is read, and what is refused.

use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn reads_clouds() {
    let text = r#"---
# ours
clouds:
  lab:   # the lab
    auth: {auth_url: "http://k:5000/v3", username: 'it''s', x: [1, two, {a: b}]}
    password: p#ss:w"rd
    verify: no
    empty:
    "quoted key": "a	bé # no comment"
    regions:
    - one
    - name: two
      values:
        - deep

    -
      last: ~
"#;
    let expected = json!({"clouds": {"lab": {
        "auth": {"auth_url": "http://k:5000/v3", "username": "it's", "x": ["1", "two", {"a": "b"}]},
        "password": "p#ss:w\"rd",
        "verify": false,
        "empty": null,
        "quoted key": "a\tbé # no comment",
        "regions": ["one", {"name": "two", "values": ["deep"]}, {"last": null}],
    }}});
    assert_eq!(read(text).unwrap(), expected);
    assert_eq!(read("# nothing\n").unwrap(), Value::Null);
    assert_eq!(
        read("\u{feff}a: |\n  two\n  lines\nb: one\n  more\n").unwrap(),
        json!({"a": "two\nlines\n", "b": "one more"})
    );
}

#[test]
fn refuses_by_name_what_it_cannot_read() {
    for (text, word) in [
        ("a: &x 1", "anchors"),
        ("a:\n  <<: *x", "merge"),
        ("a: !!str 1", "tags"),
        ("a: *x", "unknown anchor"),
        ("? [a]\n: 1", "text for the key"),
        ("a: 1\n---\nb: 2", "one document"),
        ("a:\n\tb: 1", "tabs"),
        ("a: 1\na: 2", "twice"),
        ("a: 1\n  b: 2", "not allowed"),
        ("a: 'x", "end of stream"),
        ("a: [1", "expected ',' or ']'"),
        ("a: 1\nb", "key expected"),
        ("a: \"\\q\"", "escape"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with("line ") && error.contains(word), "{text}: {error}");
    }
    assert!(read(&"[".repeat(5000)).is_err());
    let steep = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>();
    assert!(read(&steep).is_err());
    for deep in ["- ", "? ", "{a: ", "a:\n", "&x ", "!x "] {
        assert!(read(&deep.repeat((LONGEST - 2) / deep.len())).is_err(), "{deep}");
    }
}

proptest! {
    #[test]
    fn never_fails_otherwise(text in "(?s)([-:a#'\"\\[\\]{},&*!|>%\t ]|\n {0,4}|.){0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn reads_what_json_writes(text in "[ -~]{0,40}", list in prop::collection::vec("[a-z#: ]{1,9}", 0..4)) {
        let value = json!({ "text": text, "list": list });
        prop_assert_eq!(read(&value.to_string()).unwrap(), value);
    }
}
