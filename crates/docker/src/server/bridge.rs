//! A request's way to the plugin and back.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method as Verb, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::body::{self, Unread};
use super::in_flight::{Flight, PAUSE, Recalled};
use super::reply::Reply;
use super::{Answered, Plugin, Shared};
use libnetwork::{Answer, Call, Method, Question, Refusal, Request};

/// A request that has to be worked on.
struct Task {
    method: Method,
    call: Box<Call>,
    kept: KeptRequest,
}

/// Keeps a request until both its users are done with it: the thread that works on it, and the task
/// that sends the answer.
pub(super) type KeptRequest = Option<Arc<Flight>>;

/// Answers a request; that never fails. The request is to be kept until the answer is sent.
pub(super) async fn respond(
    shared: &Arc<Shared>,
    request: hyper::Request<Incoming>,
) -> (Response<Full<Bytes>>, KeptRequest) {
    let began = Instant::now();
    let method = Method::from_path(request.uri().path());
    let (reply, kept) = match take(shared, method, request).await {
        Ok(task) => {
            let kept = task.kept.clone();
            (work(shared, began, task).await, kept)
        }
        Err(reply) => {
            report(shared, began, method, None, &reply);
            (reply, None)
        }
    };
    (reply.into_response(&shared.plugin.manner()), kept)
}

/// Carries out the releases that an earlier process was about to do, before the addresses can get
/// another holder. No engine is answered before, so nothing waits for third parties: what one of those
/// has to release stays allocated until the reconciler finds that it is unused.
pub(super) fn settle(shared: &Shared) {
    let carry_out = |method: Method, body: &[u8]| match libnetwork::decode(method, body) {
        Ok(Request::Do(call)) if shared.plugin.asks_others(&call) => {
            let subject = call.subject().unwrap_or_default();
            let name = method.name();
            shared.observe.trouble(&format!("{name} of {subject} is left to the reconciler"));
            false
        }
        Ok(Request::Do(call)) => {
            let (began, subject) = (Instant::now(), call.subject().map(str::to_owned));
            let reply = Reply::of(shared.plugin.call(*call), &shared.plugin.manner());
            report(shared, began, Some(method), subject.as_deref(), &reply);
            reply.error.is_none()
        }
        Ok(Request::Ask(_)) | Err(_) => false,
    };
    shared.in_flight.iter().for_each(|in_flight| in_flight.settle(carry_out));
}

/// The call of a request that has to be worked on, or the answer to any other.
async fn take(
    shared: &Shared,
    method: Option<Method>,
    request: hyper::Request<Incoming>,
) -> Result<Task, Reply> {
    let Some(method) = method else {
        let why = format!("there is no {:.80}", request.uri().path());
        return Err(Reply::refused(StatusCode::NOT_FOUND, why));
    };
    if request.method() != Verb::POST {
        let why = format!("{} is called with POST", method.name());
        return Err(Reply::refused(StatusCode::METHOD_NOT_ALLOWED, why));
    }
    let manner = shared.plugin.manner();
    let arriving = keep(shared, method);
    let body = body::read(shared, request.into_body()).await;
    let body = body.map_err(|unread| given_up(method, unread))?;
    // A repetition has no body, but the body is known already.
    let arrived = arriving.filter(|_| !body.is_empty());
    let (body, kept) = match recall(shared, method, &body).await {
        Some(Recalled::Body(body, flight)) => (body, Some(flight)),
        Some(Recalled::Done) => return Err(Reply::of(Ok(Answer::Done {}), &manner)),
        // Even before it is understood: whatever is not kept is lost with this process.
        None => {
            let kept = arrived.and_then(|flight| with_body(shared, flight, method, &body));
            (body, kept)
        }
    };
    let kept = kept.map(Arc::new);
    match libnetwork::decode(method, &body) {
        Ok(Request::Do(call)) => Ok(Task { method, call, kept }),
        Ok(Request::Ask(question)) => {
            Err(Reply::json(shared.plugin.profile().answer(question), &manner))
        }
        Err(Refusal::Syntax(why)) => Err(Reply::refused(StatusCode::BAD_REQUEST, why)),
        Err(Refusal::Value(error)) => Err(Reply::failed(&error, &manner)),
    }
}

/// The repeated request, if it has lost its body.
async fn recall(shared: &Shared, method: Method, body: &[u8]) -> Option<Recalled> {
    let in_flight = shared.in_flight.as_ref()?;
    if !body.is_empty() || !in_flight.may_recall(method) {
        return None;
    }
    sleep(PAUSE).await;
    in_flight.recall(method)
}

/// That a request of this method comes. Questions have no body to lose.
fn keep(shared: &Shared, method: Method) -> Option<Flight> {
    if Question::of(method).is_some() {
        return None;
    }
    let kept = shared.in_flight.as_ref()?.keep(method);
    kept.map_err(|error| lost_if_killed(shared, method, &error)).ok()
}

fn with_body(shared: &Shared, mut flight: Flight, method: Method, body: &[u8]) -> Option<Flight> {
    let kept = flight.arrived(method, body);
    kept.map_err(|error| lost_if_killed(shared, method, &error)).ok().map(|()| flight)
}

fn lost_if_killed(shared: &Shared, method: Method, error: &io::Error) {
    let name = method.name();
    shared.observe.trouble(&format!("{name} is lost if this process is killed: {error}"));
}

fn given_up(method: Method, unread: Unread) -> Reply {
    let (status, why) = match unread {
        Unread::TooLong => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {} bytes", libnetwork::LONGEST_BODY),
        ),
        Unread::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body came too slowly".to_owned()),
        Unread::Broken(error) => (StatusCode::BAD_REQUEST, format!("the body broke off: {error}")),
    };
    Reply::given_up(status, format!("{}: {why}", method.name()))
}

/// The bridge: carries the call out on a thread of its own, in its turn. From then on the end of
/// the connection does not end the call. One that waits for third parties gives its turn back, and gets one
/// among its like.
async fn work(shared: &Arc<Shared>, began: Instant, task: Task) -> Reply {
    match turn(shared, began, task, &shared.calls, |plugin, call| plugin.asks_others(call)).await {
        Worked::Done(reply) => reply,
        Worked::Asks(task) => match turn(shared, began, task, &shared.asking, |_, _| false).await {
            Worked::Done(reply) => reply,
            Worked::Asks(task) => not_in_time(shared, began, &task),
        },
    }
}

/// What became of a call in its turn.
enum Worked {
    Done(Reply),
    /// Nothing yet: it waits for third parties.
    Asks(Task),
}

async fn turn(
    shared: &Arc<Shared>,
    began: Instant,
    task: Task,
    turns: &Arc<Semaphore>,
    is_passed_on: fn(&dyn Plugin, &Call) -> bool,
) -> Worked {
    let turn = Arc::clone(turns).acquire_owned();
    let Ok(Ok(turn)) = timeout(shared.limits.timeout, turn).await else {
        return Worked::Done(not_in_time(shared, began, &task));
    };
    let (on_thread, method) = (Arc::clone(shared), task.method);
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        if is_passed_on(&*on_thread.plugin, &task.call) {
            return Worked::Asks(task);
        }
        let Task { method, call, kept } = task;
        let _kept = kept;
        let subject = call.subject().map(str::to_owned);
        let reply = Reply::of(on_thread.plugin.call(*call), &on_thread.plugin.manner());
        report(&on_thread, began, Some(method), subject.as_deref(), &reply);
        Worked::Done(reply)
    });
    work.await.unwrap_or_else(|error| {
        let why = format!("{}: {error}", method.name());
        let reply = Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, why);
        report(shared, began, Some(method), None, &reply);
        Worked::Done(reply)
    })
}

fn not_in_time(shared: &Shared, began: Instant, task: &Task) -> Reply {
    let method = task.method;
    let why = format!("{}: too many calls are at work; try again", method.name());
    let reply = Reply::refused(StatusCode::SERVICE_UNAVAILABLE, why);
    report(shared, began, Some(method), task.call.subject(), &reply);
    reply
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
