//! One request and its answer, as it is checked and shown.

use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

/// Longer texts are cut where they are shown.
const SHOWN: usize = 2000;

/// A request, and its answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Exchange {
    /// The method, or CNI's command.
    pub method: String,
    /// The body of the request.
    pub request: String,
    /// The HTTP status or the exit code; none where there was no answer.
    pub status: Option<i32>,
    /// The body of the answer.
    pub answer: String,
    /// How long it took, in milliseconds.
    pub ms: f64,
    /// Why it is no success; none where it is one.
    pub fault: Option<String>,
    /// The answer's body, where it is JSON.
    #[serde(skip)]
    pub(super) value: Value,
}

impl Exchange {
    /// A request that has taken the time since `started`, without its answer.
    pub(super) fn asked(method: &str, body: &str, started: Instant) -> Self {
        Self {
            method: method.to_owned(),
            request: body.to_owned(),
            ms: started.elapsed().as_secs_f64() * 1e3,
            ..Self::default()
        }
    }

    /// The answer's value at `path`, `Key/Key`, as text; empty where it is missing or `null`.
    pub(super) fn text(&self, path: &str) -> String {
        match find(&self.value, path) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// The exchange with texts of readable length.
    pub(super) fn shown(&self) -> Self {
        let cut = |text: &str| match text.char_indices().nth(SHOWN) {
            Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
            None => text.to_owned(),
        };
        Self { request: cut(&self.request), answer: cut(&self.answer), ..self.clone() }
    }
}

/// As Go reads: keys in any case, the exact one first.
fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('/').filter(|key| !key.is_empty()).try_fold(value, |at, key| match at {
        Value::Object(map) => map.get(key).or_else(|| {
            let mut entries = map.iter();
            entries.find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
        }),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_go_does() {
        let value = serde_json::json!({"interface": {"Address": "a", "x": null}, "l": [1, true]});
        let exchange = Exchange { value, ..Exchange::default() };
        let read = ["Interface/Address", "interface/X", "l/1", "l/2", "none/at/all", ""];
        let read = read.map(|path| exchange.text(path));
        assert_eq!(&read[..5], ["a", "", "true", "", ""]);
        assert!(read[5].starts_with('{'));
    }
}
