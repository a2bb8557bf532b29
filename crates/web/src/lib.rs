//! The common part of HTTP clients (RFC 9110, RFC 9112).
//!
//! For remote servers: `ureq` agents with proxies, trust and retries. For plugins and engines on
//! this host: one request at a time over a socket, its answer read within bounds and until a
//! deadline. `ureq` does not serve those, as it does not report whether a request was sent, and
//! keeps no connection whose answer never ends.

mod agent;
mod body;
mod head;
mod proxies;
mod retries;
mod timed;

pub use agent::{Agents, ClientFiles, Trust, config, is_lookup, is_unsent, tls, tls_error, why};
pub use body::{Body, Framing};
pub use head::Head;
pub use proxies::Proxies;
pub use retries::Retries;
pub use timed::{Timed, connect_unix};

/// `text` with every byte but letters, digits and those of `plain` escaped (RFC 3986, 2.1).
pub fn escape(text: &str, plain: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
