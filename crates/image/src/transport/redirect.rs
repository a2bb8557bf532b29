//! Where servers send to (RFC 9110 15.4, RFC 3986 section 5).

use std::net::{IpAddr, Ipv6Addr};

use model::{Error, Result};

use super::Call;
use crate::Url;

/// More than that in a row are not followed.
const MOST: u32 = 10;

/// Where a call has got to.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    url: Url,
    /// Whether this is still the host of the caller's URL: once elsewhere, it stays false.
    is_trusted: bool,
    /// A form is not carried elsewhere: it may have secrets in it.
    has_form: bool,
    count: u32,
}

impl Hop {
    pub(super) fn first(call: &Call<'_>) -> Self {
        Self { url: call.url.clone(), is_trusted: true, has_form: call.form.is_some(), count: 0 }
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// The next one, where `may` lets it go there from here.
    pub(super) fn follow(
        &self,
        location: &str,
        may: impl FnOnce(&Url, &Url) -> Result<()>,
    ) -> Result<Self> {
        let doing = || format!("{} sends elsewhere", self.url);
        if self.has_form {
            return Err(Error::invalid("a form is not sent elsewhere").context(doing()));
        }
        if self.count == MOST {
            return Err(Error::invalid(format!("more than {MOST} times")).context(doing()));
        }
        let url = join(&self.url, location).map_err(|error| error.context(doing()))?;
        may(&url, &self.url).map_err(|error| error.context(doing()))?;
        let is_same = url.host() == self.url.host() && url.is_secure() == self.url.is_secure();
        let is_trusted = self.is_trusted && is_same;
        Ok(Self { url, is_trusted, has_form: false, count: self.count + 1 })
    }
}

/// The URL of `location` on the page `base`.
fn join(base: &Url, location: &str) -> Result<Url> {
    let has_scheme = location.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if has_scheme {
        return location.parse();
    }
    if location.starts_with("//") {
        let scheme = if base.is_secure() { "https" } else { "http" };
        return format!("{scheme}:{location}").parse();
    }
    let path = base.path().split('?').next().unwrap_or_default();
    let path = match location.chars().next() {
        Some('/') => location.to_owned(),
        Some('?') => format!("{path}{location}"),
        _ => format!("{}/{location}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    Url::new(base.is_secure(), base.host(), &path)
}

/// A host without its port and brackets.
pub(crate) fn name(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Whether that is this host itself.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = name(host).trim_end_matches('.');
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_unspecified(),
        Ok(IpAddr::V6(address)) => is_loopback_6(address),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

fn is_loopback_6(address: Ipv6Addr) -> bool {
    let mapped = address.to_ipv4_mapped();
    address.is_loopback()
        || address.is_unspecified()
        || mapped.is_some_and(|address| address.is_loopback() || address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn joins_as_browsers_do() {
        let base = url("https://a.example:1/b/c?d");
        for (location, expected) in [
            ("/x", "https://a.example:1/x"),
            ("/x:y", "https://a.example:1/x:y"),
            ("x?y", "https://a.example:1/b/x?y"),
            ("?y=http://z", "https://a.example:1/b/c?y=http://z"),
            ("//b.example/x", "https://b.example/x"),
            ("http://b.example/x", "http://b.example/x"),
        ] {
            assert_eq!(join(&base, location).unwrap(), url(expected), "{location}");
        }
        assert!(join(&base, "file:///etc/passwd").is_err());
        assert!(join(&base, "javascript:x").is_err());
        assert!(join(&base, "https://me:pw@b.example/").is_err());
    }

    #[test]
    fn trust_ends_at_the_border() {
        let start = url("https://a.example/");
        let call = Call { authorization: Some("x"), ..Call::get(&start) };
        let may = |_: &Url, _: &Url| Ok(());
        let same = Hop::first(&call).follow("/b", may).unwrap();
        assert!(same.is_trusted());
        for other in ["https://b.example/", "https://a.example:444/", "http://a.example/"] {
            let there = same.follow(other, may).unwrap();
            assert!(!there.is_trusted());
            let back = there.follow("https://a.example/", may).unwrap();
            assert!(!back.is_trusted());
        }
        let form = Call { form: Some("x"), ..Call::get(&start) };
        assert!(Hop::first(&form).follow("/b", may).is_err());
    }

    #[test]
    fn ends_in_time() {
        let start = url("https://a.example/");
        let mut hop = Hop::first(&Call::get(&start));
        let mut count = 0;
        while let Ok(next) = hop.follow("/", |_, _| Ok(())) {
            hop = next;
            count += 1;
        }
        assert_eq!(count, MOST);
    }

    #[test]
    fn knows_this_host() {
        for host in [
            "localhost",
            "localhost:1",
            "127.0.0.1:5000",
            "127.9.9.9",
            "[::1]:1",
            "[::ffff:127.0.0.1]",
            "x.localhost",
            "0.0.0.0:1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "128.0.0.1", "[fd00::1]:1", "127.0.0.1.example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
