//! URLs (RFC 3986), as far as they are made and taken apart here.

use model::{Error, Result};
use ureq::http::Uri;
use web::escape;

/// Longer ones are refused.
const LONGEST: usize = 2048;

/// A server's URL, checked, without a slash at the end. `key` is where it was set.
pub(crate) fn base(key: &str, url: &str) -> Result<String> {
    // The text before an @ may be a password, whatever is wrong with the rest.
    if url.contains('@') {
        return Err(Error::invalid(format!("{key}: the URL has a user name in it; set it apart")));
    }
    let bad = |why: &str| Error::invalid(format!("{key}: {url:?} is no URL of a server: {why}"));
    let trimmed = url.trim().trim_end_matches('/');
    if trimmed.len() > LONGEST {
        return Err(Error::invalid(format!("{key} is longer than {LONGEST} bytes")));
    }
    let uri: Uri = trimmed.parse().map_err(|_| bad("give http://HOST or https://HOST"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("give http:// or https://"));
    }
    let has_rest = uri.query().is_some() || trimmed.contains('#');
    match has_rest || uri.host().is_none_or(str::is_empty) {
        true => Err(bad("give a host, and no query")),
        false => Ok(trimmed.to_owned()),
    }
}

/// The origin of a URL: `https://HOST:PORT`.
pub(crate) fn origin(url: &str) -> &str {
    let after = url.find("://").map_or(0, |at| at + 3);
    let end = url[after..].find(['/', '?']).map_or(url.len(), |at| after + at);
    &url[..end]
}

/// A path, escaped.
pub(crate) fn path(path: &str) -> String {
    escape(path, b"-._~!$&'()*+,;=:@/")
}

/// `?a=b&c=d`, escaped; nothing where there is nothing.
pub(crate) fn query(pairs: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(&escape(key, b"-._~:"));
        text.push('=');
        text.push_str(&escape(value, b"-._~:"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_servers_only() {
        assert_eq!(base("endpoint", " https://neutron:9696/ ").unwrap(), "https://neutron:9696");
        assert_eq!(base("endpoint", "http://[::1]:9696/net").unwrap(), "http://[::1]:9696/net");
        for bad in [
            "",
            "neutron:9696",
            "ftp://x",
            "http://",
            "http://a?b=c",
            "/v3",
            "http://a b",
            "http://a#b",
        ] {
            let error = base("endpoint", bad).unwrap_err().to_string();
            assert!(error.starts_with("endpoint: "), "{error}");
        }
        for url in ["http://me:secret@host/", "me:secret@host:5000/v3", "http://me:secret@ho st/"] {
            let error = base("auth_url", url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(query(&[]), "");
        let pairs = [("name", "a b&c=ü".to_owned()), ("tags", "x:y,z".to_owned())];
        assert_eq!(query(&pairs), "?name=a%20b%26c%3D%C3%BC&tags=x:y%2Cz");
        assert_eq!(path("v2.0/ports/1/tags/a:b?c%#"), "v2.0/ports/1/tags/a:b%3Fc%25%23");
        assert_eq!(origin("http://a:1/b/c"), "http://a:1");
        assert_eq!(origin("http://a:1"), "http://a:1");
    }
}
