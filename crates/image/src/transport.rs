//! Fetching over HTTP/1.1 (RFC 9112) and TLS, with `ureq`.
//!
//! Servers are not trusted: what they send is bounded in length and time, they cannot redirect a
//! caller from TLS to plain HTTP or to this host's own services, and no other host gets the
//! credentials.

mod redirect;
mod reply;

use std::fs::File;
use std::io::{self, Seek};
use std::time::Duration;

use model::{Error, Result};
use ureq::http::{Request, Response, header};
use ureq::{Agent, Body};
use web::{Agents, Proxies, Retries, Trust};

use crate::Url;
use redirect::Hop;
pub(crate) use redirect::name;
pub(crate) use reply::Reply;

/// How long a server is waited for until it begins to answer, at most.
const ANSWER: Duration = Duration::from_secs(60);

/// How long everything of one answer may take.
const WHOLE: Duration = Duration::from_secs(1800);

/// All tries of one call are begun within that time.
const TRYING: Duration = Duration::from_secs(60);

/// A server that asks for a longer pause is not waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often an interrupted download is repeated.
const DOWNLOADS: u32 = 3;

/// Fetches, for all threads of this process.
pub(crate) struct Transport {
    /// Hosts that may be reached without TLS, besides this host itself.
    insecure: Vec<String>,
    proxies: Proxies,
    agents: Agents,
}

/// A request.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    /// Where.
    pub(crate) url: &'a Url,
    /// As what, for `Accept`.
    pub(crate) accept: &'a str,
    /// The credentials: sent to this server only.
    pub(crate) authorization: Option<&'a str>,
    /// A form that is sent, so that it's a `POST` rather than a `GET`.
    pub(crate) form: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// Asks for anything, without a name.
    pub(crate) fn get(url: &'a Url) -> Self {
        Self { url, accept: "*/*", authorization: None, form: None }
    }
}

impl Transport {
    /// Nothing is read or sent before the first call.
    pub(crate) fn new(insecure: &[String], proxies: Proxies) -> Self {
        let insecure = insecure.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { insecure, proxies, agents: Agents::default() }
    }

    /// Whether this host may be reached without TLS: it is listed, with its port or without, or it
    /// is this host.
    pub(crate) fn may_be_plain(&self, host: &str) -> bool {
        self.is_listed(host) || redirect::is_loopback(host)
    }

    /// Sends the request, follows redirects, and repeats it where servers are busy. The answer may
    /// be a refusal.
    ///
    /// # Errors
    /// [`TryAgain`](model::Kind::TryAgain) when no server answers, [`Denied`](model::Kind::Denied)
    /// when a redirect is not allowed.
    pub(crate) fn call(&self, call: &Call<'_>) -> Result<Reply> {
        self.check(call.url)?;
        let mut hop = Hop::first(call);
        loop {
            let reply = self.patiently(call, &hop)?;
            let Some(location) = reply.location() else { return Ok(reply) };
            hop = hop.follow(location, |url, from| self.may_follow(url, from))?;
        }
    }

    /// The whole body of the answer. `None` where there is no such file.
    ///
    /// # Errors
    /// As for [`call`](Self::call), when the server refuses, and when it sends more than `limit`
    /// bytes.
    pub(crate) fn bytes(&self, call: &Call<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
        let reply = self.call(call)?;
        match reply.status() {
            200 => reply.into_bytes(limit).map(Some),
            404 | 410 => Ok(None),
            _ => Err(reply.refused()),
        }
    }

    /// Fetches it into an empty file, again where the download breaks off. Returns whether it
    /// exists.
    ///
    /// # Errors
    /// As for [`bytes`](Self::bytes).
    pub(crate) fn download(&self, url: &Url, file: &mut File, limit: u64) -> Result<bool> {
        let mut tries = 1;
        loop {
            let reply = self.call(&Call::get(url))?;
            match reply.status() {
                200 => {}
                404 | 410 => return Ok(false),
                _ => return Err(reply.refused()),
            }
            match io::copy(&mut reply.into_reader(limit), file) {
                Ok(_) => return Ok(true),
                Err(error) if tries == DOWNLOADS => return Err(reply::broken(url, error)),
                Err(error) if reply::is_too_long(&error) => return Err(reply::broken(url, error)),
                Err(_) => tries += 1,
            }
            file.set_len(0)
                .and_then(|()| file.rewind())
                .map_err(|error| Error::os("emptying a file", error))?;
        }
    }

    /// Whether a server answers there, with any status.
    pub(crate) fn is_there(&self, url: &Url) -> bool {
        let call = Call::get(url);
        self.agent(url).is_ok_and(|agent| send(&agent, &call, &Hop::first(&call)).is_ok())
    }

    fn patiently(&self, call: &Call<'_>, hop: &Hop) -> Result<Reply> {
        let agent = self.agent(hop.url())?;
        let mut retries = Retries::new(TRYING, LONGEST_PAUSE);
        loop {
            let outcome = send(&agent, call, hop);
            let asked = match &outcome {
                Ok(reply) => reply.is_busy().then(|| reply.retry_after()),
                Err(error) => reply::is_passing(error).then_some(None),
            };
            match asked.and_then(|asked| retries.pause(asked)) {
                Some(pause) => std::thread::sleep(pause),
                None => {
                    let proxy = agent.config().proxy();
                    return outcome.map_err(|cause| reply::failure(hop.url(), proxy, &cause));
                }
            }
        }
    }

    fn check(&self, url: &Url) -> Result<()> {
        match url.is_secure() || self.may_be_plain(url.host()) {
            true => Ok(()),
            false => Err(refuse(url)),
        }
    }

    /// Other hosts cannot make this one ask itself.
    fn may_follow(&self, url: &Url, from: &Url) -> Result<()> {
        let is_inward = redirect::is_loopback(url.host())
            && !redirect::is_loopback(from.host())
            && !self.is_listed(url.host());
        match is_inward {
            true => Err(refuse(url)),
            false => self.check(url),
        }
    }

    fn is_listed(&self, host: &str) -> bool {
        let name = name(host);
        self.insecure.iter().any(|listed| listed == host || listed == name)
    }

    fn agent(&self, url: &Url) -> Result<Agent> {
        let (scheme, host) = (if url.is_secure() { "https" } else { "http" }, url.host());
        let trust = match self.is_listed(host) {
            true => Trust::Anybody,
            false => Trust::Host { otherwise: "list the image's host as insecure" },
        };
        self.agents.of(&format!("{scheme}://{host}"), || {
            let config = web::config((scheme, name(host)), &self.proxies, WHOLE, trust)?;
            Ok(config.timeout_recv_response(Some(ANSWER)).build().into())
        })
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("insecure", &self.insecure).finish_non_exhaustive()
    }
}

fn send(agent: &Agent, call: &Call<'_>, hop: &Hop) -> Result<Reply, ureq::Error> {
    let mut request =
        Request::builder().uri(hop.url().to_string()).header(header::ACCEPT, call.accept);
    if let Some(who) = call.authorization.filter(|_| hop.is_trusted()) {
        request = request.header(header::AUTHORIZATION, who);
    }
    let answer: Response<Body> = match call.form {
        Some(form) => {
            let kind = "application/x-www-form-urlencoded";
            let request = request.method("POST").header(header::CONTENT_TYPE, kind);
            agent.run(request.body(form)?)?
        }
        None => agent.run(request.body(())?)?,
    };
    Ok(Reply::new(hop.url().clone(), answer))
}

fn refuse(url: &Url) -> Error {
    Error::new(
        model::Kind::Denied,
        format!(
            "{url} is not asked without TLS: list {} as insecure if that is meant so",
            url.host()
        ),
    )
}
