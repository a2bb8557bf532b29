//! Options of networks of many hosts by name, and options in sentences.

use model::text::shown;

/// Where the network is to be.
pub const HOSTS: &str = "hosts";
/// In which engines besides the caller's own, between commas.
pub(crate) const ENGINES: &str = "in";
/// How packets go from host to host.
pub(crate) const TRANSPORT: &str = "transport";
/// Those that say nothing without [`HOSTS`].
pub(crate) const OF_MANY: [&str; 3] = [HOSTS, ENGINES, TRANSPORT];

/// An option that is not known, without its value: a runtime writes refusals to its log, and the value of a mistyped option
/// may be a secret.
pub(crate) fn unknown(key: &str, value: &str) -> String {
    match value {
        "" => shown(key),
        _ => format!("{}=…", shown(key)),
    }
}

/// Words in a sentence.
pub(crate) fn listed(words: &[&str]) -> String {
    let (last, others) = words.split_last().unwrap_or((&"", &[]));
    match others.is_empty() {
        true => (*last).to_owned(),
        false => format!("{} or {last}", others.join(", ")),
    }
}
