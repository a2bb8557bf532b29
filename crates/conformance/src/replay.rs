//! A trace again: as the plugin, for an engine; or as the engine, for a plugin.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{Error, Result};
use remote::address::Address;
use serde::Serialize;
use serde_json::Value;

use super::http::{Connection, Message, connect};
use super::record::{Tap, bytes, listen, value};

/// How long a plugin may be silent.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A larger file is no trace.
const LARGEST: u64 = 256 << 20;

/// A different answer of a plugin.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The line of the trace.
    pub line: usize,
    pub method: String,
    /// Whether one of the two is an error and the other is not.
    pub is_outcome: bool,
    pub recorded: Value,
    pub heard: Value,
}

fn read(trace: &Path) -> Result<Vec<Tap>> {
    let failed = |cause| file::failed(format!("reading {}", trace.display()), cause);
    let text = file::text(trace, LARGEST).map_err(failed)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let tap = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| Error::invalid(format!("{}:{}: {error}", trace.display(), number + 1)))
    };
    lines.map(tap).collect()
}

/// Answers at `socket` as the recorded plugin did: each call with the answer to the same body that
/// was not given yet, or else with the next one of its method, the last one again when they are
/// used up; 404 for methods that were never called. Until SIGINT or SIGTERM.
///
/// # Errors
/// Where the trace cannot be read, or it cannot listen there.
pub fn serve(trace: &Path, socket: &Path) -> Result<()> {
    let taps: Vec<(bool, Tap)> = read(trace)?.into_iter().map(|tap| (false, tap)).collect();
    let taps = Arc::new(Mutex::new(taps));
    listen(socket, move |mut engine, _| {
        while let Ok(request) = engine.receive(false) {
            let mut taps = taps.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = answer(&mut taps, &request);
            drop(taps);
            if say(&mut engine, answer).is_err() || request.ends() {
                return;
            }
        }
    })
}

fn answer(taps: &mut [(bool, Tap)], request: &Message) -> Option<(u16, Vec<u8>)> {
    let body = value(&request.body);
    let of_method = |tap: &Tap| tap.method() == request.method();
    let same = taps
        .iter()
        .position(|(used, tap)| !used && of_method(tap) && value(&bytes(&tap.body)) == body);
    let next = || taps.iter().position(|(used, tap)| !used && of_method(tap));
    let last = || taps.iter().rposition(|(_, tap)| of_method(tap));
    let (used, tap) = taps.get_mut(same.or_else(next).or_else(last)?)?;
    *used = true;
    Some((tap.code, bytes(&tap.resp)))
}

fn say(engine: &mut Connection, answer: Option<(u16, Vec<u8>)>) -> std::io::Result<()> {
    match answer {
        Some((code, body)) => engine.send(&format!("HTTP/1.1 {code} Recorded"), "", &body),
        None => engine.send("HTTP/1.1 404 Not Found", "", b"never recorded"),
    }
}

/// Sends the recorded engine's calls to a live plugin, one after the other, and returns the
/// different answers. Ids of pools, and addresses, are those that the live plugin allocates.
///
/// # Errors
/// Where the trace cannot be read, or the plugin does not answer.
pub fn against(trace: &Path, plugin: &Address) -> Result<(usize, Vec<Difference>)> {
    let taps = read(trace)?;
    let mut renamed: Vec<(String, String)> = Vec::new();
    let mut differences = Vec::new();
    for (index, tap) in taps.iter().enumerate() {
        let mut body = String::from_utf8_lossy(&bytes(&tap.body)).into_owned();
        for (old, new) in &renamed {
            body = body.replace(&format!("\"{old}\""), &format!("\"{new}\""));
        }
        let heard = connect(plugin, TIMEOUT).and_then(|mut connection| {
            connection.post(tap.method(), "", body.as_bytes())?;
            connection.receive(true)
        });
        let heard = heard.map_err(|error| {
            let method = tap.method();
            Error::try_again(format!("line {}: {method} is not answered: {error}", index + 1))
        })?;
        let (recorded, heard_value) = (value(&bytes(&tap.resp)), value(&heard.body));
        learn(&mut renamed, &recorded, &heard_value);
        let is_outcome = is_error(tap.code, &recorded)
            != is_error(heard.status().unwrap_or_default(), &heard_value);
        if is_outcome || recorded != heard_value {
            let (line, method) = (index + 1, tap.method().to_owned());
            differences.push(Difference { line, method, is_outcome, recorded, heard: heard_value });
        }
    }
    Ok((taps.len(), differences))
}

fn is_error(code: u16, answer: &Value) -> bool {
    let texts = |key: &str| answer.get(key).and_then(Value::as_str).is_some_and(|s| !s.is_empty());
    code != 200 || texts("Err") || texts("Error")
}

/// Ids that differ now, so that later calls use the new ones.
fn learn(renamed: &mut Vec<(String, String)>, old: &Value, new: &Value) {
    let pair = |key: &str| {
        let text = |value: &Value| value.get(key).and_then(Value::as_str).map(str::to_owned);
        text(old).zip(text(new)).filter(|(old, new)| old != new)
    };
    renamed.extend(pair("PoolID"));
    if let Some((old, new)) = pair("Address") {
        // It is released without its mask.
        let bare = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
        renamed.push((bare(&old), bare(&new)));
        renamed.push((old, new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tap(method: &str, body: &str, resp: &str) -> (bool, Tap) {
        let line = serde_json::json!({
            "t": 0.0, "conn": 1, "ms": 0.1, "req": format!("POST /{method} HTTP/1.1"),
            "body": body, "code": 200, "resp": resp,
        });
        (false, serde_json::from_value(line).unwrap())
    }

    #[test]
    fn answers_as_recorded() {
        let mut taps = vec![tap("A", "{\"x\":1}", "1"), tap("A", "{\"x\":2}", "2")];
        let mut ask = |method: &str, body: &str| {
            let first = format!("POST /{method} HTTP/1.1");
            let request = Message { first, headers: Vec::new(), body: body.into() };
            answer(&mut taps, &request).map(|(_, body)| String::from_utf8(body).unwrap())
        };
        assert_eq!(ask("A", "{\"x\": 2}").as_deref(), Some("2"), "the same body");
        assert_eq!(ask("A", "{\"x\":3}").as_deref(), Some("1"), "the next one");
        assert_eq!(ask("A", "{\"x\":3}").as_deref(), Some("2"), "the last one again");
        assert_eq!(ask("B", ""), None);
    }

    #[test]
    fn learns_names() {
        let mut renamed = Vec::new();
        let old = serde_json::json!({"PoolID": "a", "Address": "10.0.0.2/24"});
        let new = serde_json::json!({"PoolID": "b", "Address": "10.0.0.3/24"});
        learn(&mut renamed, &old, &new);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let all =
            [pair("a", "b"), pair("10.0.0.2", "10.0.0.3"), pair("10.0.0.2/24", "10.0.0.3/24")];
        assert_eq!(renamed, all);
    }
}
