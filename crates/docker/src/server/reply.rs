//! Answers as HTTP responses.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use model::Error;

use super::{Manner, Outcome};
use libnetwork::{Answer, Failure};

/// For connections that cannot be served.
pub(super) const CROWDED: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/vnd.docker.plugins.v1.2+json\r\n\
    connection: close\r\n\
    content-length: 81\r\n\r\n\
    {\"Err\":\"there are too many connections\",\"Error\":\"there are too many connections\"}";

/// The answer, and its description for the log.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) error: Option<String>,
    status: StatusCode,
    body: Vec<u8>,
    /// Nothing that follows on the connection can be understood.
    closes: bool,
}

impl Reply {
    /// JSON that says what was asked for.
    pub(super) fn json(json: serde_json::Result<Vec<u8>>, manner: &Manner) -> Self {
        match json {
            Ok(body) => {
                let (outcome, status) = (Outcome::Done, StatusCode::OK);
                Self { outcome, error: None, status, body, closes: false }
            }
            Err(error) => Self::failed(&Error::bug("an answer is no JSON").because(error), manner),
        }
    }

    /// A call's result.
    pub(super) fn of(result: Result<Answer, Error>, manner: &Manner) -> Self {
        match result {
            Ok(answer) => Self::json(serde_json::to_vec(&answer), manner),
            Err(error) => Self::failed(&error, manner),
        }
    }

    /// A request that was understood and failed.
    pub(super) fn failed(error: &Error, manner: &Manner) -> Self {
        let status = StatusCode::from_u16((manner.status)(error));
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::reported(Outcome::Failed(error.kind()), status, error.to_string())
    }

    /// A request that was not carried out.
    pub(super) fn refused(status: StatusCode, why: String) -> Self {
        Self::reported(Outcome::Refused(status.as_u16()), status, why)
    }

    /// The same, and the rest of the connection is lost.
    pub(super) fn given_up(status: StatusCode, why: String) -> Self {
        Self { closes: true, ..Self::refused(status, why) }
    }

    fn reported(outcome: Outcome, status: StatusCode, why: String) -> Self {
        // Two texts in a fixed shape: there is nothing in it that could fail.
        let body = serde_json::to_vec(&Failure::new(&why)).unwrap_or_default();
        Self { outcome, error: Some(why), status, body, closes: false }
    }

    pub(super) fn into_response(self, manner: &Manner) -> Response<Full<Bytes>> {
        let status = self.status;
        let content = if self.error.is_some() { manner.failed } else { manner.done };
        let mut response = Response::new(Full::from(self.body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
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
}
