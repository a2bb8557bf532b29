//! Where something is on the web.

use std::fmt;
use std::str::FromStr;

use model::{Error, Result};

/// An `http://` or `https://` address without credentials and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    secure: bool,
    host: String,
    path: String,
}

impl Url {
    /// Of `path` (with its query, after the slash) on `host`.
    pub(crate) fn new(secure: bool, host: &str, path: &str) -> Result<Self> {
        let scheme = if secure { "https" } else { "http" };
        format!("{scheme}://{host}/{}", path.trim_start_matches('/')).parse()
    }

    /// Whether TLS protects it.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host, with its port if one was named.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Path and query; starts with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same with `suffix` behind its path, in front of its query.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        let path = match self.path.split_once('?') {
            Some((path, query)) => format!("{path}{suffix}?{query}"),
            None => format!("{}{suffix}", self.path),
        };
        Self { secure: self.secure, host: self.host.clone(), path }
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::invalid(format!("URL {text:?} {why}"));
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("has no http:// or https:// in front"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("is neither http nor https")),
        };
        if text.len() > 4096 || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("holds a blank or is longer than 4096 bytes"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.contains('@') {
            return Err(wrong("holds credentials: they belong into the auth file"));
        }
        if !is_host(host) {
            return Err(wrong("has no host"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { secure, host: host.to_ascii_lowercase(), path: format!("{slash}{path}") })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.host, self.path)
    }
}

/// Whether `text` is a host name or address with or without a port: `[::1]:5000`, `a.b`, `a:80`.
pub(crate) fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
            ("v6", if rest.is_empty() { None } else { rest.strip_prefix(':').or(Some("")) })
        }
        Some(_) => return false,
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let numbered = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 253
        && name.bytes().all(named)
        && numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown() {
        for (text, shown) in [
            ("http://a.b/c", "http://a.b/c"),
            ("HTTPS://A.b:8443", "https://a.b:8443/"),
            ("http://[::1]:80/x?y=z#f", "http://[::1]:80/x?y=z"),
            ("http://a?b", "http://a/?b"),
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), shown);
        }
        for text in
            ["a.b/c", "ftp://a/", "http:///x", "http://u:p@h/", "http://a b/", "http://a:0/"]
        {
            assert_eq!(text.parse::<Url>().unwrap_err().kind(), model::Kind::Invalid, "{text}");
        }
    }

    #[test]
    fn a_suffix_stands_before_the_query() {
        let url: Url = "http://a/b.aci?c=d".parse().unwrap();
        assert_eq!(url.with_suffix(".asc").to_string(), "http://a/b.aci.asc?c=d");
    }
}
