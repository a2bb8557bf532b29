//! One exchange over HTTP/1.1 (RFC 9112), with `ureq`.

mod concurrency;
mod refusal;
pub(crate) mod url;

use std::io::{self, Read};
use std::time::{Duration, Instant};

use model::{Error, Result};
use serde_json::Value;
use ureq::http::{HeaderMap, Request, Response};
use ureq::{Agent, Body, SendBody, Timeout};
use web::{Agents, Retries, Trust, is_unsent, tls_error};

use concurrency::Concurrency;
pub(crate) use url::base;

use crate::api::Verb;
use crate::config::Access;
use crate::deadline;

/// Longer answers are refused, in bytes.
const LONGEST: u64 = 16 << 20;

/// A server that asks for a longer pause is not waited for: containers wait.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(55);

/// The shared state of all requests: idle connections, and the limit of concurrent requests.
pub(crate) struct Wire {
    access: Access,
    concurrency: Concurrency,
    agents: Agents,
}

/// A request.
pub(crate) struct Exchange<'a> {
    /// The server's name in messages: `Neutron`, `Keystone`.
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

/// An answer.
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
    /// The effect is unknown.
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
        let concurrency = Concurrency::new(access.concurrency);
        Self { access: access.clone(), concurrency, agents: Agents::default() }
    }

    /// Sends the request and waits for any answer. Repeats it where there is no answer or the
    /// server is busy, and repetition does no harm.
    pub(crate) fn carry(&self, exchange: &Exchange<'_>) -> Result<Answer> {
        let agent = self.agent(exchange.url)?;
        let mut retries =
            Retries::new(deadline::remaining(exchange.until, self.access.timeout), LONGEST_PAUSE);
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
        let limit = || deadline::remaining(exchange.until, self.access.timeout);
        let Some(passage) = self.concurrency.pass(exchange.until.map(|_| limit())) else {
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
        self.agents.of(origin, || self.make_agent(origin))
    }

    fn make_agent(&self, origin: &str) -> Result<Agent> {
        let access = &self.access;
        let (scheme, host) = origin.split_once("://").unwrap_or(("http", origin));
        let host = match host.rfind(']') {
            Some(end) => &host[..=end],
            None => host.split(':').next().unwrap_or(host),
        };
        let trust = match &access.authorities {
            _ if access.insecure => Trust::Anybody,
            Some(path) => Trust::File(path),
            None => Trust::Host { otherwise: "name the cloud's as cafile" },
        };
        let config = web::config((scheme, host), &access.proxies, access.timeout, trust)?
            .accept("application/json")
            .max_idle_age(IDLE)
            .max_idle_connections_per_host(access.concurrency.max(1));
        Ok(config.build().into())
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
                "{server} at {origin} does not answer {}: {why}; whether it was done is not known",
                doing(exchange)
            ),
        })
    }
}

/// The request in messages: `POST v2.0/ports`.
pub(crate) fn doing(exchange: &Exchange<'_>) -> String {
    let after = &exchange.url[url::origin(exchange.url).len()..];
    let path = after.split('?').next().unwrap_or(after);
    format!("{} {}", exchange.verb.as_str(), path.trim_start_matches('/'))
}

/// The error that this answer is.
pub(crate) fn refused(exchange: &Exchange<'_>, answer: &Answer) -> Error {
    let server = format!("{} at {}", exchange.server, url::origin(exchange.url));
    refusal::refusal(&server, &doing(exchange), answer)
}

/// A request that was refused as too frequent was not carried out (RFC 6585, 4). A server that is
/// busy, out of order or behind a broken gateway may have done it.
fn may_repeat(exchange: &Exchange<'_>, answer: &Answer) -> bool {
    match answer.status {
        429 => true,
        502..=504 => exchange.is_repeatable,
        _ => false,
    }
}

/// A body that records whether it was read. It is not read before there is a connection, and no
/// server carries out a request without its body.
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
    let mut request = Request::builder().method(exchange.verb.as_str()).uri(exchange.url);
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
    match !began || is_unsent(cause) {
        true => Failure::Unsent(why(cause)),
        false => Failure::Lost(why(cause)),
    }
}

fn why(cause: &ureq::Error) -> String {
    match cause {
        ureq::Error::Io(error)
            if matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_))) =>
        {
            format!("{error}; name the authority that signed it as cafile")
        }
        ureq::Error::BodyExceedsLimit(_) => "its answer is longer than 16 MiB".to_owned(),
        other => web::why(other),
    }
}
