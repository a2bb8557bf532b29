//! A request's way to the plugin and back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method as Verb, Response, StatusCode};
use tokio::time::timeout;

use super::body::{self, Unread};
use super::reply::Reply;
use super::{Answered, Shared};
use crate::wire::{self, Call, Method, Refusal, Request};

/// Answers a request; that never fails.
pub(super) async fn respond(
    shared: &Arc<Shared>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let began = Instant::now();
    let method = Method::from_path(request.uri().path());
    let reply = match take(shared, method, request).await {
        Ok((method, call)) => work(shared, began, method, call).await,
        Err(reply) => {
            report(shared, began, method, None, &reply);
            reply
        }
    };
    Ok(reply.into_response())
}

/// The call of a request that has to be worked on, or the answer to any other.
async fn take(
    shared: &Shared,
    method: Option<Method>,
    request: hyper::Request<Incoming>,
) -> Result<(Method, Box<Call>), Reply> {
    let Some(method) = method else {
        let why = format!("there is no {:.80}", request.uri().path());
        return Err(Reply::refused(StatusCode::NOT_FOUND, why));
    };
    if request.method() != Verb::POST {
        let why = format!("{} is called with POST", method.name());
        return Err(Reply::refused(StatusCode::METHOD_NOT_ALLOWED, why));
    }
    let body = body::read(shared, request.into_body()).await;
    let body = body.map_err(|unread| given_up(method, unread))?;
    match wire::decode(method, &body) {
        Ok(Request::Do(call)) => Ok((method, call)),
        Ok(Request::Ask(question)) => Err(Reply::json(shared.plugin.profile().answer(question))),
        Err(Refusal::Syntax(why)) => Err(Reply::refused(StatusCode::BAD_REQUEST, why)),
        Err(Refusal::Value(error)) => Err(Reply::failed(&error)),
    }
}

fn given_up(method: Method, unread: Unread) -> Reply {
    let (status, why) = match unread {
        Unread::TooLong => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {} bytes", wire::LONGEST_BODY),
        ),
        Unread::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body came too slowly".to_owned()),
        Unread::Broken(error) => (StatusCode::BAD_REQUEST, format!("the body broke off: {error}")),
    };
    Reply::given_up(status, format!("{}: {why}", method.name()))
}

/// The bridge: carries the call out on a thread of its own, when it is its turn. From then on
/// nothing that happens to the connection ends it.
async fn work(shared: &Arc<Shared>, began: Instant, method: Method, call: Box<Call>) -> Reply {
    let turn = Arc::clone(&shared.calls).acquire_owned();
    let Ok(Ok(turn)) = timeout(shared.limits.patience, turn).await else {
        let why = format!("{}: too many calls are at work; try again", method.name());
        let reply = Reply::refused(StatusCode::SERVICE_UNAVAILABLE, why);
        report(shared, began, Some(method), call.subject(), &reply);
        return reply;
    };
    let on_thread = Arc::clone(shared);
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let subject = call.subject().map(str::to_owned);
        let reply = Reply::of(on_thread.plugin.call(*call));
        report(&on_thread, began, Some(method), subject.as_deref(), &reply);
        reply
    });
    work.await.unwrap_or_else(|error| {
        let why = format!("{}: {error}", method.name());
        let reply = Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, why);
        report(shared, began, Some(method), None, &reply);
        reply
    })
}

fn report(
    shared: &Shared,
    began: Instant,
    method: Option<Method>,
    subject: Option<&str>,
    reply: &Reply,
) {
    shared.observe.answered(&Answered {
        method,
        subject,
        outcome: reply.outcome,
        error: reply.error.as_deref(),
        took: began.elapsed(),
    });
}
