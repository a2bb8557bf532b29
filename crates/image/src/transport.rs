//! Fetching over HTTP/1.1 (RFC 9112) and TLS, with `ureq`.
//!
//! Servers are not trusted: what they send is bounded in length and time, they cannot redirect a
//! caller from TLS to plain HTTP or to this host's own services, and no other host gets the
//! credentials.

mod redirect;
mod reply;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
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
    /// The server that said so; none where the operator did.
    pub(crate) from: Option<&'a Url>,
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
        Self { url, from: None, accept: "*/*", authorization: None, form: None }
    }

    /// The same for a URL that the server at `from` named.
    pub(crate) fn named_by(url: &'a Url, from: &'a Url) -> Self {
        Self { from: Some(from), ..Self::get(url) }
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
    /// when a redirect, or the URL that another server named, is not allowed.
    pub(crate) fn call(&self, call: &Call<'_>) -> Result<Reply> {
        match call.from {
            Some(from) => self.may_follow(call.url, from)?,
            None => self.check(call.url)?,
        }
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
    /// As for [`bytes`](Self::bytes); the file cannot be written.
    pub(crate) fn download(&self, call: &Call<'_>, file: &mut File, limit: u64) -> Result<bool> {
        let (url, mut tries) = (call.url, 1);
        loop {
            let reply = self.call(call)?;
            match reply.status() {
                200 => {}
                404 | 410 => return Ok(false),
                _ => return Err(reply.refused()),
            }
            match save(&mut reply.into_reader(limit), file)? {
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
            true => Err(Error::new(
                model::Kind::Denied,
                format!(
                    "{} leads to this host itself, to {url}: list {} as insecure if that is meant so",
                    from.host(),
                    url.host()
                ),
            )),
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
    Ok(Reply::new(hop.url().clone(), hop.is_trusted(), answer))
}

/// Writes a body into a file, and gives how many bytes. The server's failure is in the answer, the
/// file's is the error: to ask again is no remedy for a full disk.
pub(crate) fn save(body: &mut impl Read, file: &mut File) -> Result<io::Result<u64>> {
    let mut disk = Disk { file, failed: None };
    let copied = io::copy(body, &mut disk);
    match disk.failed {
        Some(error) => Err(Error::os("writing what was fetched", error)),
        None => Ok(copied),
    }
}

/// A file that keeps why it could not be written.
struct Disk<'f> {
    file: &'f mut File,
    failed: Option<io::Error>,
}

impl Write for Disk<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            // One that was interrupted is repeated.
            if error.kind() != io::ErrorKind::Interrupted {
                self.failed =
                    Some(error.raw_os_error().map_or_else(
                        || io::Error::from(error.kind()),
                        io::Error::from_raw_os_error,
                    ));
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use ::tests::registry::Registry;

    use super::*;

    /// A full disk is no fault of the server's, which is not asked again.
    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let server = Registry::start();
        server.serve("/x", &[7; 100_000]);
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let url = format!("{}/x", server.origin()).parse().unwrap();
        let transport = Transport::new(&[], Proxies::default());
        let error = transport.download(&Call::get(&url), &mut full, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), model::Kind::Kernel, "{error}");
        assert!(error.to_string().starts_with("writing what was fetched"), "{error}");
        assert_eq!(server.take().len(), 1);
    }
}
