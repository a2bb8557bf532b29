//! Requests to one of several servers.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

use super::access::Access;
use super::url::Url;
use super::wire::{Authenticated, Refusal};

/// Longer answers are refused, in bytes.
const LONGEST: u64 = 64 << 20;
/// A longer sentence of etcd's is cut, in bytes.
const LONGEST_REFUSAL: u64 = 16 << 10;
/// How long a server has to accept a connection. The kernel asks again only after a second: a new attempt
/// is as good.
const CONNECT: Duration = Duration::from_secs(1);
/// How long one exchange may take. A server without a leader does not answer for longer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The servers, and connections to them that are kept.
#[derive(Debug)]
pub(super) struct Http {
    servers: Vec<Url>,
    /// The one that answered last.
    good: AtomicUsize,
    agent: Agent,
    access: Access,
    /// By which etcd knows the user, for some minutes.
    token: Mutex<Option<String>>,
}

impl Http {
    pub(super) fn new(servers: Vec<Url>, access: Access) -> Result<Self> {
        access.check()?;
        if servers.is_empty() {
            return Err(Error::invalid("no server of etcd is named"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("spoke/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_resolve(Some(CONNECT));
        if let Some(bare) = servers.iter().find(|url| access.user.is_some() && !url.is_https()) {
            return Err(Error::invalid(format!(
                "a password is not sent to {bare} in clear text; name https:// servers only"
            )));
        }
        if servers.iter().any(Url::is_https) {
            config = config.tls_config(access.tls()?);
        }
        let (good, agent) = (AtomicUsize::new(0), config.build().into());
        Ok(Self { servers, good, agent, access, token: Mutex::default() })
    }

    /// Asks the server that answered last, and the others where it cannot be connected to. Fails with
    /// `TryAgain` where none answers: then it is unknown whether it was done. `Exhausted` where the answer is too long.
    pub(super) fn ask<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        self.ask_within(TIMEOUT, path, body)
    }

    /// The same, for at most this long.
    pub(super) fn ask_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        path: &str,
        body: &Value,
    ) -> Result<T> {
        self.known(|token| self.ask_as(token, limit, path, body))
    }

    /// Works with the user's token, and once more with a new one where etcd knows that one no more.
    fn known<T>(&self, work: impl Fn(Option<&str>) -> Result<T>) -> Result<T> {
        let Some((user, password)) = self.access.credentials()? else { return work(None) };
        let lock = || self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lock().clone();
        if let Some(kept) = kept {
            match work(Some(&kept)) {
                Err(error) if error.kind() == Kind::Denied => {}
                done => return done,
            }
        }
        let body = json!({"name": user, "password": password});
        let given: Authenticated = self.ask_as(None, TIMEOUT, "/v3/auth/authenticate", &body)?;
        *lock() = Some(given.token.clone());
        work(Some(&given.token))
    }

    fn ask_as<T: DeserializeOwned>(
        &self,
        token: Option<&str>,
        limit: Duration,
        path: &str,
        body: &Value,
    ) -> Result<T> {
        let text = body.to_string();
        let (url, answer) = self.first(|url| {
            let request = with(self.agent.post(format!("{url}{path}")), token);
            let request = request.config().timeout_global(Some(limit)).build();
            request.content_type("application/json").send(text.as_str())
        })?;
        let mut answer = accepted(url, path, answer)?;
        let read = answer.body_mut().with_config().limit(LONGEST).read_to_vec();
        let bytes = read.map_err(|cause| match cause {
            ureq::Error::BodyExceedsLimit(most) => Error::exhausted(format!(
                "etcd at {url} answers {path} with more than {most} bytes"
            )),
            cause => unreachable((url, &self.access), &cause),
        })?;
        serde_json::from_slice(&bytes).map_err(|cause| {
            Error::try_again(format!("{url} does not answer {path} as etcd does")).because(cause)
        })
    }

    /// Begins a stream, whose next piece is waited for at most `quiet`.
    pub(super) fn stream(&self, path: &str, body: &Value, quiet: Duration) -> Result<impl Read> {
        let text = body.to_string();
        self.known(|token| {
            let (url, answer) = self.first(|url| {
                let request = with(self.agent.post(format!("{url}{path}")), token);
                let request = request.config().timeout_per_read(Some(quiet)).build();
                request.content_type("application/json").send(text.as_str())
            })?;
            Ok(accepted(url, path, answer)?.into_body().into_reader())
        })
    }

    fn first(
        &self,
        send: impl Fn(&Url) -> std::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<(&Url, Response<Body>)> {
        let begin = self.good.load(Ordering::Relaxed);
        let mut failure = None;
        for at in (0..self.servers.len()).map(|step| (begin + step) % self.servers.len()) {
            let url = &self.servers[at];
            match send(url) {
                Ok(answer) => {
                    self.good.store(at, Ordering::Relaxed);
                    return Ok((url, answer));
                }
                Err(cause) => {
                    failure = Some(unreachable((url, &self.access), &cause));
                    if !web::is_unsent(&cause) {
                        // The next call asks another one.
                        self.good.store((at + 1) % self.servers.len(), Ordering::Relaxed);
                        break;
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::bug("etcd without servers")))
    }
}

fn with(request: RequestBuilder<WithBody>, token: Option<&str>) -> RequestBuilder<WithBody> {
    match token {
        Some(token) => request.header("Authorization", token),
        None => request,
    }
}

/// A server that wants a certificate ends the connection, and the alert that says so may be lost.
const NO_CERTIFICATE: &str =
    "; where it wants a certificate of its clients, name one with --etcd-cert";

/// A host that was not waited for while the cluster changed its authority sees it so, and so does one whose --etcd-ca is
/// another one's.
const OTHER_AUTHORITY: &str = ", and this host trusts no authority that has signed its certificate. Where the cluster has \
    changed its authority without this host, remove it (`spoke host remove`, on another host and with --force here) and \
    join it again; of an etcd that was there, --etcd-ca names the authority";

fn unreachable((url, access): (&Url, &Access), cause: &ureq::Error) -> Error {
    let hint = match () {
        () if is_other_authority(cause) => OTHER_AUTHORITY,
        () if url.is_https() && access.certificate.is_none() => NO_CERTIFICATE,
        () => "",
    };
    Error::try_again(format!("etcd at {url} does not answer: {}{hint}", web::why(cause)))
}

fn is_other_authority(cause: &ureq::Error) -> bool {
    let known = match cause {
        ureq::Error::Io(error) => web::tls_error(error),
        ureq::Error::Rustls(error) => Some(error),
        _ => None,
    };
    matches!(
        known,
        Some(rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature
        ))
    )
}

fn accepted(url: &Url, path: &str, mut answer: Response<Body>) -> Result<Response<Body>> {
    let status = answer.status().as_u16();
    if status == 200 {
        return Ok(answer);
    }
    let given = answer.body_mut().with_config().limit(LONGEST_REFUSAL).read_to_vec();
    let refusal: Refusal =
        given.ok().and_then(|given| serde_json::from_slice(&given).ok()).unwrap_or_default();
    let words = if refusal.message.is_empty() { refusal.error } else { refusal.message };
    let kind = match status {
        401 | 403 => Kind::Denied,
        404 => Kind::Unsupported,
        // Without room it answers, and takes no writes.
        429 => Kind::Exhausted,
        // Also a server without a leader.
        _ => Kind::TryAgain,
    };
    let words = model::text::shown(&words);
    Err(Error::new(kind, format!("etcd at {url} answers {path} with status {status}: {words}")))
}
