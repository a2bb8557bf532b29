//! Neutron over HTTP.

mod page;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use model::{Error, Result};
use serde_json::Value;
use web::Retries;

use crate::api::{Request, Transport, Verb};
use crate::auth::{Auth, Session};
use crate::config::Access;
use crate::deadline;
use crate::exchange::{Answer, Exchange, LONGEST_PAUSE, Wire, refused, url};

/// Carries requests to Neutron, for all threads of this process.
pub(crate) struct Http {
    wire: Wire,
    auth: Auth,
    /// How long one request may take.
    timeout: Duration,
}

/// The status of a server that is busy, or behind one that is (RFC 9110, 15.6.4).
const BUSY: u16 = 503;

impl Http {
    /// Nothing is read or sent before the first request.
    pub(crate) fn new(access: &Access, directory: &Path) -> Result<Self> {
        let (wire, auth) = (Wire::new(access), Auth::new(access, directory)?);
        Ok(Self { wire, auth, timeout: access.timeout })
    }

    /// Sends it, with a new token where the old one is no longer taken; what is answered.
    fn ask(
        &self,
        request: &Request<'_>,
        body: Option<&[u8]>,
        query: &str,
    ) -> Result<(Arc<Session>, Answer)> {
        let session = self.auth.session(&self.wire, request.until)?;
        let answer = self.try_with(&session, request, body, query)?;
        match answer.status {
            401 if self.auth.is_renewable() => {
                let session = self.auth.renew(&self.wire, &session, request.until)?;
                let answer = self.try_with(&session, request, body, query)?;
                Ok((session, answer))
            }
            _ => Ok((session, answer)),
        }
    }

    /// The body of an answer, or the error that it is.
    fn read(session: &Session, request: &Request<'_>, answer: Answer) -> Result<Value> {
        match answer.status {
            404 if answer.is_again && request.verb == Verb::Delete => Ok(Value::Null),
            _ if !answer.is_success() => {
                let url = url_of(session, request, "");
                Err(refused(&exchange(request, &url, &[], None), &answer))
            }
            _ if answer.body.is_string() => Err(Error::try_again(format!(
                "{} does not answer as Neutron does; is endpoint right?",
                session.endpoint()
            ))),
            _ => Ok(answer.body),
        }
    }

    fn send(&self, request: &Request<'_>, body: Option<&[u8]>, query: &str) -> Result<Value> {
        let (session, answer) = self.ask(request, body, query)?;
        Self::read(&session, request, answer)
    }

    /// Makes a resource. A server that is busy may answer so before or after it did it: so the
    /// resource is searched, and the request is repeated only where there is none.
    fn post(&self, request: &Request<'_>, body: Option<&[u8]>) -> Result<Value> {
        let mut retries =
            Retries::new(deadline::remaining(request.until, self.timeout), LONGEST_PAUSE);
        loop {
            let (session, answer) = self.ask(request, body, "")?;
            if answer.status != BUSY {
                return Self::read(&session, request, answer);
            }
            let may_repeat = match request.find.map(|find| self.made(request, find)) {
                Some(Ok(Some(made))) => return Ok(made),
                Some(Ok(None)) => true,
                Some(Err(_)) => false,
                None => answer.retry_after.is_some(),
            };
            match retries.pause(answer.retry_after).filter(|_| may_repeat) {
                Some(pause) => thread::sleep(pause),
                None => return Self::read(&session, request, answer),
            }
        }
    }

    /// The resource that a POST has made, as its answer would have it.
    fn made(&self, request: &Request<'_>, find: &[(&str, String)]) -> Result<Option<Value>> {
        let path = request.path;
        let search = Request { query: find, until: request.until, ..Request::of(Verb::Get, path) };
        let mut found = self.carry(&search)?;
        let collection = path.rsplit('/').next().unwrap_or(path).replace('-', "_");
        let first = found.get_mut(&collection).and_then(|all| all.get_mut(0)).map(Value::take);
        let singular = collection.trim_end_matches('s').to_owned();
        Ok(first.map(|first| Value::Object([(singular, first)].into_iter().collect())))
    }

    fn try_with(
        &self,
        session: &Session,
        request: &Request<'_>,
        body: Option<&[u8]>,
        query: &str,
    ) -> Result<Answer> {
        let url = url_of(session, request, query);
        let revision = request.revision.map(|number| format!("revision_number={number}"));
        let mut headers = session.headers();
        headers.extend(revision.as_deref().map(|revision| ("if-match", revision)));
        self.wire.carry(&exchange(request, &url, &headers, body))
    }
}

impl Transport for Http {
    fn carry(&self, request: &Request<'_>) -> Result<Value> {
        let body = request.body.as_ref().map(|body| body.to_string().into_bytes());
        if request.verb == Verb::Post {
            return self.post(request, body.as_deref());
        }
        let query = url::query(request.query);
        let first = self.send(request, body.as_deref(), &query)?;
        if request.verb != Verb::Get {
            return Ok(first);
        }
        let mut pages = page::Pages::default();
        let mut next = pages.add(first)?;
        while let Some(query) = next {
            next = pages.add(self.send(request, None, &query)?)?;
        }
        Ok(pages.whole())
    }

    fn project(&self) -> Result<Option<String>> {
        let session = self.auth.session(&self.wire, None)?;
        Ok(session.project().map(str::to_owned))
    }
}

fn url_of(session: &Session, request: &Request<'_>, query: &str) -> String {
    format!("{}/{}{query}", session.endpoint(), url::path(request.path))
}

fn exchange<'a>(
    request: &Request<'_>,
    url: &'a str,
    headers: &'a [(&'static str, &'a str)],
    body: Option<&[u8]>,
) -> Exchange<'a> {
    Exchange {
        server: "Neutron",
        verb: request.verb,
        url,
        headers,
        body: body.map(<[u8]>::to_vec),
        is_repeatable: request.verb != Verb::Post,
        until: request.until,
    }
}
