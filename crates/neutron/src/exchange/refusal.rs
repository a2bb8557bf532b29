//! The error that a status means.

use std::time::Duration;

use model::{Error, Kind};
use serde_json::Value;

use super::Answer;

/// Longer reasons are cut.
const LONGEST: usize = 1000;

/// Neutron's names of what is used up; their status is the one of a conflict.
const EXHAUSTED: [&str; 5] = [
    "OverQuota",
    "IpAddressGenerationFailure",
    "IpAddressGenerationFailureAllSubnets",
    "SubnetPoolQuotaExceeded",
    "ExternalIpAddressExhausted",
];

/// Neutron's names of what is taken, though its status says something else.
const TAKEN: [&str; 1] = ["SubnetAllocationError"];

/// The error that a refusal is. `server` is who refused, `doing` what was asked.
pub(crate) fn refusal(server: &str, doing: &str, answer: &Answer) -> Error {
    let (name, reason) = reason(&answer.body);
    let status = answer.status;
    let mut what = format!("{server} refuses {doing} with {status}");
    if let Some(name) = name.as_deref() {
        what.push_str(&format!(" {name}"));
    }
    match (&reason, &answer.location) {
        (Some(reason), _) => what.push_str(&format!(": {reason}")),
        (None, Some(location)) => {
            what.push_str(&format!(": it sends to {}; set that URL", clean(location)));
        }
        (None, None) => {}
    }
    if let Some(id) = &answer.request {
        what.push_str(&format!(" ({id})"));
    }
    Error::new(kind(status, name.as_deref()), what).with_status(status)
}

fn kind(status: u16, name: Option<&str>) -> Kind {
    let is_one_of = |names: &[&str]| name.is_some_and(|name| names.contains(&name));
    match status {
        _ if is_one_of(&EXHAUSTED) => Kind::Exhausted,
        _ if is_one_of(&TAKEN) => Kind::Conflict,
        401 | 403 | 407 => Kind::Denied,
        404 => Kind::NotFound,
        409 => Kind::Conflict,
        408 | 412 | 425 | 429 => Kind::TryAgain,
        501 => Kind::Unsupported,
        500.. => Kind::TryAgain,
        _ => Kind::Invalid,
    }
}

/// The error's name and message: Neutron's `{"NeutronError": {"type", "message"}}`, Keystone's
/// `{"error": {"title", "message"}}`, that of programs in front of them, or plain text.
fn reason(body: &Value) -> (Option<String>, Option<String>) {
    let text = |value: &Value| value.as_str().map(clean).filter(|text| !text.is_empty());
    if let Value::String(plain) = body {
        return (None, Some(clean(plain)).filter(|text| !text.is_empty()));
    }
    let inner = body.as_object().and_then(|fields| fields.values().find(|value| !value.is_null()));
    let known = body.get("NeutronError").or_else(|| body.get("error")).or(inner);
    let Some(known) = known else { return (None, None) };
    if known.is_string() {
        return (None, text(body.get("message").unwrap_or(known)));
    }
    let name = known.get("type").and_then(text).or_else(|| known.get("title").and_then(text));
    (name, known.get("message").and_then(text))
}

/// One line without control characters, cut.
fn clean(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = plain.take(LONGEST).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Retry-After` in seconds; a date is passed over.
pub(super) fn retry_after(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(status: u16, body: Value) -> Error {
        let answer =
            Answer { status, body, request: Some("req-1".to_owned()), ..Answer::default() };
        refusal("Neutron at http://n", "POST v2.0/ports", &answer)
    }

    #[test]
    fn says_what_neutron_says() {
        let body = json!({"NeutronError": {
            "type": "IpAddressAlreadyAllocated", "message": "IP address 10.0.0.5\nis taken", "detail": ""
        }});
        let error = refused(409, body);
        assert_eq!((error.kind(), error.status()), (Kind::Conflict, Some(409)));
        assert_eq!(
            error.to_string(),
            "Neutron at http://n refuses POST v2.0/ports with 409 IpAddressAlreadyAllocated: \
             IP address 10.0.0.5 is taken (req-1)"
        );
    }

    #[test]
    fn kinds_follow_status_and_name() {
        let named = |name: &str| json!({"NeutronError": {"type": name, "message": "m"}});
        for (status, name, kind) in [
            (409, "OverQuota", Kind::Exhausted),
            (409, "IpAddressGenerationFailure", Kind::Exhausted),
            (409, "NetworkInUse", Kind::Conflict),
            (500, "SubnetAllocationError", Kind::Conflict),
            (400, "InvalidIpForNetwork", Kind::Invalid),
            (403, "PolicyNotAuthorized", Kind::Denied),
            (404, "PortNotFound", Kind::NotFound),
            (412, "RevisionNumberConstraintFailed", Kind::TryAgain),
            (413, "", Kind::Invalid),
            (302, "", Kind::Invalid),
            (429, "", Kind::TryAgain),
            (500, "HTTPInternalServerError", Kind::TryAgain),
            (501, "", Kind::Unsupported),
        ] {
            assert_eq!(refused(status, named(name)).kind(), kind, "{status} {name}");
        }
    }

    #[test]
    fn any_body_will_do() {
        for body in [
            json!(null),
            json!([]),
            json!("<html>\u{7}"),
            json!({"error": {"message": null}}),
            json!({"NeutronError": "it broke"}),
            json!({"message": "no", "code": 1}),
            json!({"x": null}),
            json!({"badRequest": {"message": "m"}}),
            Value::String("x".repeat(100_000)),
        ] {
            assert!(refused(500, body).to_string().len() < 1200);
        }
        let location = Some("x".repeat(100_000));
        let answer = Answer { status: 302, location, ..Answer::default() };
        assert!(refusal("Neutron", "GET", &answer).to_string().len() < 1200);
    }
}
