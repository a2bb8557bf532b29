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

/// An option as it was given.
pub(crate) fn pair(key: &str, value: &str) -> String {
    match value {
        "" => shown(key),
        value => format!("{}={}", shown(key), shown(value)),
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
