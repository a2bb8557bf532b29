//! One exchange over HTTP/1.1 (RFC 9112), with `ureq`.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::{Error, Result};
use serde_json::Value;
use ureq::http::{HeaderMap, Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body, SendBody, Timeout};

use super::gate::Gate;
use super::retries::Retries;
use super::{refusal, url};
use crate::api::Verb;
use crate::config::Access;
use crate::deadline;

/// Longer answers are refused, in bytes.
const LONGEST: u64 = 16 << 20;

/// A larger file of authorities is refused, in bytes.
const LARGEST_AUTHORITIES: u64 = 16 << 20;

/// How long a server is waited for until it accepts, at most.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(55);

/// What all requests go through: connections that are kept, and the limit of how many are under way.
pub(crate) struct Wire {
    access: Access,
    gate: Gate,
    /// One for each server: few, as there are Keystone and Neutron.
    agents: Mutex<Vec<(String, Agent)>>,
}

/// What is sent.
pub(crate) struct Exchange<'a> {
    /// Who is called, for sentences: `Neutron`, `Keystone`.
    pub(crate) server: &'static str,
    /// How.
    pub(crate) verb: Verb,
    /// Where, whole and escaped.
    pub(crate) url: &'a str,
    /// Besides those of every request.
    pub(crate) headers: &'a [(&'static str, &'a str)],
    /// JSON.
    pub(crate) body: Option<Vec<u8>>,
    /// Whether it does no harm to do it twice.
    pub(crate) is_repeatable: bool,
    /// By when it has to be answered.
    pub(crate) until: Option<Instant>,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The body; a text where it is no JSON, `null` where there is none.
    pub(crate) body: Value,
    /// Neutron's name of the request.
    pub(crate) request: Option<String>,
    /// Where it sends to instead.
    pub(crate) location: Option<String>,
    /// Keystone's token.
    pub(crate) token: Option<String>,
    /// When to come back.
    pub(crate) retry_after: Option<Duration>,
    /// Whether this was not the first try, so that it may answer what an earlier one did.
    pub(crate) is_again: bool,
}

/// Why there is no answer.
enum Failure {
    /// The server cannot have done anything.
    Unsent(String),
    /// Nobody knows.
    Lost(String),
}

impl Answer {
    /// Whether it was done.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Wire {
    pub(crate) fn new(access: &Access) -> Self {
        let gate = Gate::new(access.concurrency);
        Self { access: access.clone(), gate, agents: Mutex::default() }
    }

    /// Sends it and waits for the answer, whatever that is; again, where nobody answers or the
    /// server is busy, and where that does no harm.
    pub(crate) fn carry(&self, exchange: &Exchange<'_>) -> Result<Answer> {
        let agent = self.agent(exchange.url)?;
        let mut retries = Retries::new(deadline::left(exchange.until, self.access.timeout));
        loop {
            let is_again = retries.is_again();
            let outcome = self.exchange(&agent, exchange);
            let asked = match &outcome {
                Ok(answer) if !may_repeat(exchange, answer) => None,
                Ok(answer) => Some(answer.retry_after),
                Err(Failure::Unsent(_)) => Some(None),
                Err(Failure::Lost(_)) => exchange.is_repeatable.then_some(None),
            };
            let Some(pause) = asked.and_then(|asked| retries.pause(asked)) else {
                let answer = outcome.map_err(|failure| failure.error(exchange))?;
                return Ok(Answer { is_again, ..answer });
            };
            std::thread::sleep(pause);
        }
    }

    fn exchange(&self, agent: &Agent, exchange: &Exchange<'_>) -> Result<Answer, Failure> {
        let mut body = Watched { rest: exchange.body.as_deref().unwrap_or_default(), began: false };
        let limit = || deadline::left(exchange.until, self.access.timeout);
        let Some(passage) = self.gate.pass(exchange.until.map(|_| limit())) else {
            return Err(Failure::Unsent("it takes too long".to_owned()));
        };
        let outcome = match limit() {
            Duration::ZERO => Err(ureq::Error::Timeout(Timeout::Connect)),
            limit => send(agent, exchange, &mut body, limit),
        };
        let began = body.began || matches!(exchange.verb, Verb::Get | Verb::Delete);
        let answer = outcome.map_err(|cause| failure(&cause, began)).and_then(|answer| {
            let (parts, mut body) = answer.into_parts();
            let read = body.with_config().limit(LONGEST).read_to_vec();
            let bytes = read.map_err(|cause| Failure::Lost(why(&cause)))?;
            Ok(answer_of(parts.status.as_u16(), &parts.headers, &bytes))
        });
        drop(passage);
        answer
    }

    fn agent(&self, url: &str) -> Result<Agent> {
        let origin = url::origin(url);
        let find = |agents: &[(String, Agent)]| {
            agents.iter().find(|(known, _)| known == origin).map(|(_, agent)| agent.clone())
        };
        let lock = || self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = find(&lock()) {
            return Ok(agent);
        }
        let made = self.make_agent(origin)?;
        let mut agents = lock();
        Ok(find(&agents).unwrap_or_else(|| {
            agents.push((origin.to_owned(), made.clone()));
            made
        }))
    }

    fn make_agent(&self, origin: &str) -> Result<Agent> {
        let (scheme, host) = origin.split_once("://").unwrap_or(("http", origin));
        let host = match host.rfind(']') {
            Some(end) => &host[..=end],
            None => host.split(':').next().unwrap_or(host),
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("spoke/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .proxy(self.access.proxies.way(scheme, host)?)
            .timeout_global(Some(self.access.timeout))
            .timeout_connect(Some(self.access.timeout.min(CONNECT)))
            .max_idle_age(IDLE)
            .max_idle_connections_per_host(self.access.concurrency.max(1));
        if scheme == "https" {
            config = config.tls_config(self.tls()?);
        }
        Ok(config.build().into())
    }

    fn tls(&self) -> Result<TlsConfig> {
        let roots = match &self.access.authorities {
            _ if self.access.insecure => Vec::new(),
            Some(path) => authorities_of(path)?,
            None => authorities_of_the_system()?,
        };
        Ok(TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .disable_verification(self.access.insecure)
            .build())
    }
}

impl Failure {
    fn error(self, exchange: &Exchange<'_>) -> Error {
        let (server, origin) = (exchange.server, url::origin(exchange.url));
        Error::try_again(match self {
            Failure::Unsent(why) => format!("{server} at {origin} cannot be reached: {why}"),
            Failure::Lost(why) if exchange.is_repeatable => {
                format!("{server} at {origin} does not answer {}: {why}", doing(exchange))
            }
            Failure::Lost(why) => format!(
                "{server} at {origin} does not answer {}: {why}; nobody knows whether it was done",
                doing(exchange)
            ),
        })
    }
}

/// What was asked, for sentences: `POST v2.0/ports`.
pub(crate) fn doing(exchange: &Exchange<'_>) -> String {
    let after = &exchange.url[url::origin(exchange.url).len()..];
    let path = after.split('?').next().unwrap_or(after);
    format!("{} {}", method(exchange.verb), path.trim_start_matches('/'))
}

/// The error that this answer is.
pub(crate) fn refused(exchange: &Exchange<'_>, answer: &Answer) -> Error {
    let server = format!("{} at {}", exchange.server, url::origin(exchange.url));
    refusal::refusal(&server, &doing(exchange), answer)
}

/// Whoever is told that he asks too often was not served (RFC 6585, 4); a server that is busy, out of
/// order or behind a broken gateway may have done it.
fn may_repeat(exchange: &Exchange<'_>, answer: &Answer) -> bool {
    match answer.status {
        429 => true,
        502..=504 => exchange.is_repeatable,
        _ => false,
    }
}

fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::Post => "POST",
        Verb::Put => "PUT",
        Verb::Delete => "DELETE",
    }
}

/// A body that knows whether anybody asked for it. Nobody does before there is a connection, and no
/// server carries out a request whose body it has not got.
struct Watched<'a> {
    rest: &'a [u8],
    began: bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.began = true;
        self.rest.read(out)
    }
}

fn send(
    agent: &Agent,
    exchange: &Exchange<'_>,
    body: &mut Watched<'_>,
    limit: Duration,
) -> Result<Response<Body>, ureq::Error> {
    let mut request = Request::builder().method(method(exchange.verb)).uri(exchange.url);
    for (name, value) in exchange.headers {
        request = request.header(*name, *value);
    }
    if matches!(exchange.verb, Verb::Get | Verb::Delete) {
        let request = agent.configure_request(request.body(())?);
        return agent.run(request.timeout_global(Some(limit)).build());
    }
    let request = request
        .header("content-type", "application/json")
        .header("content-length", body.rest.len());
    let request = agent.configure_request(request.body(SendBody::from_reader(body))?);
    agent.run(request.timeout_global(Some(limit)).build())
}

fn answer_of(status: u16, headers: &HeaderMap, bytes: &[u8]) -> Answer {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
    let body = match bytes.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned())),
    };
    Answer {
        status,
        body,
        request: header("x-openstack-request-id").filter(|id| id.len() <= 64),
        location: header("location"),
        token: header("x-subject-token"),
        retry_after: header("retry-after").as_deref().and_then(refusal::retry_after),
        is_again: false,
    }
}

fn failure(cause: &ureq::Error, began: bool) -> Failure {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    const UNREACHABLE: [io::ErrorKind; 4] =
        [ConnectionRefused, HostUnreachable, NetworkUnreachable, AddrNotAvailable];
    let is_unsent = match cause {
        _ if !began => true,
        ureq::Error::Io(error) => {
            UNREACHABLE.contains(&error.kind()) || is_lookup(error) || tls(error).is_some()
        }
        ureq::Error::Timeout(timeout) => matches!(timeout, Timeout::Resolve | Timeout::Connect),
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::BadUri(_) => true,
        _ => false,
    };
    match is_unsent {
        true => Failure::Unsent(why(cause)),
        false => Failure::Lost(why(cause)),
    }
}

fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// The resolver's errors have no kind of their own.
fn is_lookup(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.to_string().starts_with("failed to lookup address")
}

fn why(cause: &ureq::Error) -> String {
    match cause {
        ureq::Error::Io(error)
            if matches!(tls(error), Some(rustls::Error::InvalidCertificate(_))) =>
        {
            format!("{error}; name the authority that signed it as cafile")
        }
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "its name is not known".to_owned(),
        ureq::Error::Timeout(Timeout::Resolve) => "its name is not found in time".to_owned(),
        ureq::Error::Timeout(Timeout::Connect) => "it does not accept in time".to_owned(),
        ureq::Error::Timeout(_) => "it takes too long".to_owned(),
        ureq::Error::BodyExceedsLimit(_) => "its answer is longer than 16 MiB".to_owned(),
        other => other.to_string(),
    }
}

fn authorities_of(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let doing = || format!("reading the authorities {}", path.display());
    let pem =
        file::read(path, LARGEST_AUTHORITIES).map_err(|error| file::failed(doing(), error))?;
    let found = ureq::tls::parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    match found.is_empty() {
        true => Err(Error::invalid("it has no certificate in PEM").context(doing())),
        false => Ok(found),
    }
}

fn authorities_of_the_system() -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    let roots: Vec<_> =
        found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    match roots.is_empty() {
        true => Err(Error::invalid(
            "this host trusts no certificate authority: install its ca-certificates, or name the \
             cloud's as cafile",
        )),
        false => Ok(roots),
    }
}
