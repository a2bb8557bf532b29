//! Neutron over HTTP.

mod gate;
mod page;
mod patience;
mod proxy;
mod refusal;
mod url;
mod wire;

use std::path::Path;

use model::{Error, Result};
use serde_json::Value;

use crate::api::{Request, Transport, Verb};
use crate::auth::{Auth, Session};
use crate::config::Access;
pub use proxy::Proxies;
pub(crate) use url::base;
pub(crate) use wire::{Answer, Exchange, Wire, refused};

/// Carries requests to Neutron, for all threads of this process.
pub(crate) struct Http {
    wire: Wire,
    auth: Auth,
}

impl Http {
    /// Nothing is read or sent before the first request.
    pub(crate) fn new(access: &Access, directory: &Path) -> Result<Self> {
        Ok(Self { wire: Wire::new(access), auth: Auth::new(access, directory)? })
    }

    /// Sends it, with a new token where the old one is no longer taken.
    fn send(&self, request: &Request<'_>, body: Option<&[u8]>, query: &str) -> Result<Value> {
        let session = self.auth.session(&self.wire)?;
        let answer = self.try_with(&session, request, body, query)?;
        let (session, answer) = match answer.status {
            401 if self.auth.is_renewable() => {
                let session = self.auth.renew(&self.wire, &session)?;
                let answer = self.try_with(&session, request, body, query)?;
                (session, answer)
            }
            _ => (session, answer),
        };
        match answer.status {
            404 if answer.is_again && request.verb == Verb::Delete => Ok(Value::Null),
            _ if !answer.is_success() => {
                let url = url_of(&session, request, "");
                Err(refused(&exchange(request, &url, &[], None), &answer))
            }
            _ if answer.body.is_string() => Err(Error::try_again(format!(
                "{} does not answer as Neutron does; is endpoint right?",
                session.endpoint()
            ))),
            _ => Ok(answer.body),
        }
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
    }
}
