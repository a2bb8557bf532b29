//! A server's answer.

use std::io::{self, Read};
use std::time::Duration;

use model::{Error, Kind, Result};
use ureq::http::Response;
use ureq::{Body, Proxy};

use crate::Url;

/// So much of a refusal is shown, in bytes.
const SHOWN: u64 = 300;

/// An answer whose body is still to come.
pub(crate) struct Reply {
    url: Url,
    /// Whether the host that the caller named has answered, and no redirect led elsewhere.
    is_own: bool,
    answer: Response<Body>,
}

impl Reply {
    pub(super) fn new(url: Url, is_own: bool, answer: Response<Body>) -> Self {
        Self { url, is_own, answer }
    }

    /// Whether the host that the caller named has answered. What another one asks for, a redirect's
    /// target, gets no credentials.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.answer.status().as_u16()
    }

    /// The first header of that name, as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.answer.headers().get(name)?.to_str().ok()
    }

    /// All headers of that name.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.answer.headers().get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// Where it sends to.
    pub(super) fn location(&self) -> Option<&str> {
        match self.status() {
            301 | 302 | 303 | 307 | 308 => self.header("location"),
            _ => None,
        }
    }

    /// Whether it may answer otherwise soon.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.status(), 429 | 502..=504)
    }

    /// When to come back.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?.trim().parse().ok().map(Duration::from_secs)
    }

    /// The whole body.
    ///
    /// # Errors
    /// When it is longer than `limit` bytes, or breaks off.
    pub(crate) fn into_bytes(self, limit: u64) -> Result<Vec<u8>> {
        let url = self.url.clone();
        let mut bytes = Vec::new();
        match self.into_reader(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(broken(&url, error)),
        }
    }

    /// The body, which fails where it is longer than `limit` bytes or breaks off.
    pub(crate) fn into_reader(self, limit: u64) -> impl Read + use<> {
        self.answer.into_body().into_with_config().limit(limit).reader()
    }

    /// The error that this answer is.
    pub(crate) fn refused(self) -> Error {
        let (status, url) = (self.status(), self.url.clone());
        let kind = match status {
            401 | 403 | 407 => Kind::Denied,
            404 | 410 => Kind::NotFound,
            408 | 425 | 429 | 500.. => Kind::TryAgain,
            _ => Kind::Invalid,
        };
        let mut words = Vec::new();
        // The readable part is shown, whatever comes after it.
        let _ = self.into_reader(u64::MAX).take(SHOWN).read_to_end(&mut words);
        let words = plain(&String::from_utf8_lossy(&words));
        let words = if words.is_empty() { words } else { format!(": {words}") };
        Error::new(kind, format!("HTTP {status} on retrieving {url}{words}")).with_status(status)
    }
}

/// One line without control characters.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The error of a body that breaks off.
pub(crate) fn broken(url: &Url, error: io::Error) -> Error {
    match is_too_long(&error) {
        true => Error::invalid(format!("{url} is longer than it may be")).because(error),
        false => Error::try_again(format!("retrieving {url} breaks off")).because(error),
    }
}

/// Whether a body has more bytes than are wanted.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    matches!(inner, Some(ureq::Error::BodyExceedsLimit(_)))
}

/// Whether the same call may succeed later.
pub(super) fn is_passing(error: &ureq::Error) -> bool {
    let ureq::Error::Io(error) = error else { return false };
    let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
    web::tls_error(error).is_none() && !is_refused && !web::is_lookup(error)
}

/// The error of a call that got no answer. It may be the proxy that is meant.
pub(super) fn failure(url: &Url, proxy: Option<&Proxy>, cause: &ureq::Error) -> Error {
    // The user and password in it must not be shown.
    let through =
        proxy.map(|proxy| format!(" through the proxy {}:{}", proxy.host(), proxy.port()));
    Error::try_again(format!(
        "{url} cannot be retrieved{}: {}",
        through.unwrap_or_default(),
        web::why(cause)
    ))
}
