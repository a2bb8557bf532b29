//! Answers as HTTP responses.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use model::{Error, Kind};

use super::Outcome;
use crate::wire::{Answer, Failure};

const JSON: HeaderValue = HeaderValue::from_static("application/vnd.docker.plugins.v1.2+json");

/// For connections that nobody has time for.
pub(super) const CROWDED: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/vnd.docker.plugins.v1.2+json\r\n\
    connection: close\r\n\
    content-length: 81\r\n\r\n\
    {\"Err\":\"there are too many connections\",\"Error\":\"there are too many connections\"}";

/// What is sent, and what is said about it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) error: Option<String>,
    body: Vec<u8>,
    /// Nothing that follows on the connection can be understood.
    closes: bool,
}

impl Reply {
    /// JSON that says what was asked for.
    pub(super) fn json(json: serde_json::Result<Vec<u8>>) -> Self {
        match json {
            Ok(body) => Self { outcome: Outcome::Done, error: None, body, closes: false },
            Err(error) => Self::failed(&Error::bug("an answer is no JSON").because(error)),
        }
    }

    /// A call's result.
    pub(super) fn of(result: Result<Answer, Error>) -> Self {
        match result {
            Ok(answer) => Self::json(serde_json::to_vec(&answer)),
            Err(error) => Self::failed(&error),
        }
    }

    /// A request that was understood and failed.
    pub(super) fn failed(error: &Error) -> Self {
        Self::told(Outcome::Failed(error.kind()), error.to_string())
    }

    /// A request that was not carried out.
    pub(super) fn refused(status: StatusCode, why: String) -> Self {
        Self::told(Outcome::Refused(status.as_u16()), why)
    }

    /// The same, and the rest of the connection is lost.
    pub(super) fn given_up(status: StatusCode, why: String) -> Self {
        Self { closes: true, ..Self::refused(status, why) }
    }

    fn told(outcome: Outcome, why: String) -> Self {
        // Two texts in a fixed shape: there is nothing in it that could fail.
        let body = serde_json::to_vec(&Failure::new(&why)).unwrap_or_default();
        Self { outcome, error: Some(why), body, closes: false }
    }

    fn status(&self) -> StatusCode {
        match self.outcome {
            Outcome::Done => StatusCode::OK,
            Outcome::Failed(kind) => status(kind),
            Outcome::Refused(status) => {
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let status = self.status();
        let mut response = Response::new(Full::from(self.body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}

/// A request that was understood is answered with 200 and an error's text, so that the engine
/// shows the text and nothing else.
fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid
        | Kind::Unsupported
        | Kind::NotFound
        | Kind::Conflict
        | Kind::Exhausted
        | Kind::TryAgain
        | Kind::Denied
        | Kind::Kernel => StatusCode::OK,
        Kind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farewell_is_as_long_as_it_says() {
        let (head, body) = CROWDED.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        assert_eq!(
            body.as_bytes(),
            serde_json::to_vec(&Failure::new("there are too many connections")).unwrap()
        );
    }

    #[test]
    fn only_bugs_are_no_answer() {
        assert_eq!(Reply::failed(&Error::conflict("taken")).status(), StatusCode::OK);
        assert_eq!(Reply::failed(&Error::bug("broken")).status().as_u16(), 500);
    }
}
