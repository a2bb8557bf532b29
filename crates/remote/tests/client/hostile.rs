//! What a plugin sends is bounded in size and time, and whatever it is, the caller learns whether his
//! call may have been carried out.

use std::time::{Duration, Instant};

use libnetwork::{Answer, Call};
use model::Kind;
use remote::calls::{Calls, Failed, Fate};

use crate::scripted::{Act, Scene, any_address, leave, p, said};

const TIMEOUT: Duration = Duration::from_secs(20);

fn fails(act: Act, call: &Call) -> (Failed, usize) {
    let scene = Scene::with(move |_, _| act.clone());
    let failed = scene.plugins(TIMEOUT).call(&p(), call).unwrap_err();
    (failed, scene.count(call.method().name()))
}

#[test]
fn broken_answers_leave_it_open_whether_it_was_done() {
    let broken: [&[u8]; 7] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
        b"HTTP/1.1 200",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
          HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}",
        b"",
    ];
    for raw in broken {
        let (failed, times) = fails(Act::Raw(raw.to_vec()), &any_address());
        assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Unknown), "{failed}");
        assert_eq!(times, 1, "an address is never requested again: {failed}");
    }
}

#[test]
fn what_has_no_end_is_cut_off() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    head.extend(b"X: y\r\n".repeat(100_000));
    let mut body = b"HTTP/1.1 200 OK\r\n\r\n{\"x\":\"".to_vec();
    body.extend(b"x".repeat(2 << 20));
    let deep = format!("HTTP/1.1 200 OK\r\n\r\n{}", "[".repeat(100_000));
    for raw in [head, body] {
        let (failed, _) = fails(Act::Raw(raw), &any_address());
        assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Unknown), "{failed}");
    }
    let (failed, _) = fails(Act::Raw(deep.into_bytes()), &any_address());
    assert_eq!((failed.kind(), failed.fate), (Kind::Invalid, Fate::Done), "{failed}");
}

#[test]
fn slow_answers_end_with_the_callers_timeout() {
    // The slow answer is whole after two seconds.
    let timeout = Duration::from_secs(1);
    let slow = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    for act in [Act::Slow(slow, Duration::from_millis(50)), Act::Hang] {
        let scene = Scene::with(move |_, _| act.clone());
        let plugins = scene.plugins(timeout);
        plugins.profile(&p()).unwrap();
        let begin = Instant::now();
        let failed = plugins.call(&p(), &leave()).unwrap_err();
        assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Unknown), "{failed}");
        assert!(begin.elapsed() >= timeout && begin.elapsed() < TIMEOUT, "{:?}", begin.elapsed());
    }
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_body_where_that_does_no_harm() {
    let scene = Scene::with(|_, before| if before < 2 { Act::Close } else { Act::Say(200, "{}") });
    let begin = Instant::now();
    assert_eq!(scene.plugins(TIMEOUT).call(&p(), &leave()).unwrap(), Answer::Done {});
    let bodies = scene.bodies("NetworkDriver.Leave");
    assert_eq!(bodies.len(), 3);
    // After 1 s and 2 s, as Docker does.
    assert!(begin.elapsed() >= Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(bodies.iter().all(|body| body.as_bytes() == leave().encode()), "{bodies:?}");
}

#[test]
fn it_is_not_asked_for_ever() {
    let scene = Scene::with(|_, _| Act::Close);
    let plugins = scene.plugins(TIMEOUT);
    let begin = Instant::now();
    let failed = plugins.call(&p(), &leave()).unwrap_err();
    assert_eq!(failed.fate, Fate::Unknown);
    // At once, and after 1, 2, 4 and 8 s.
    assert_eq!(scene.count("NetworkDriver.Leave"), 5);
    assert!(begin.elapsed() >= Duration::from_secs(15), "{:?}", begin.elapsed());
    // Docker waits as long for the next call, too.
    let begin = Instant::now();
    let failed = plugins.call(&p(), &leave()).unwrap_err();
    assert_eq!(failed.kind(), Kind::TryAgain, "{failed}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn answers_come_in_chunks_with_interim_ones_and_without_a_type() {
    let raw = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: x/y\r\n\
        Transfer-Encoding: chunked\r\n\r\n4\r\n{\"ad\r\n1b\r\ndress\":\"10.0.0.7/24\",\"x\":1}\r\n\
        0\r\n\r\n";
    let scene = Scene::with(move |_, _| Act::Raw(raw.to_vec()));
    let answer = scene.plugins(TIMEOUT).call(&p(), &any_address()).unwrap();
    let Answer::Address { address, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(address.to_string(), "10.0.0.7/24");
}

#[test]
fn unusable_answers_were_carried_out_and_are_undone_by_the_caller() {
    let (failed, times) = fails(Act::Say(200, r#"{"Address":"10.0.0.7"}"#), &any_address());
    assert_eq!((failed.kind(), failed.fate, times), (Kind::Invalid, Fate::Done, 1));
    let Some(Call::ReleaseAddress(release)) = failed.undo.as_deref() else { panic!("{failed}") };
    assert_eq!(release.address.to_string(), "10.0.0.7");
    let (failed, _) = fails(Act::Raw(said(200, "")), &leave());
    assert_eq!((failed.kind(), failed.fate), (Kind::Invalid, Fate::Done), "{failed}");
}

#[test]
fn refusals_are_not_repeated() {
    for (status, body) in [(200, r#"{"Err":"no"}"#), (500, r#"{"Err":"no"}"#), (400, "no")] {
        let (failed, times) = fails(Act::Say(status, body), &leave());
        assert_eq!((failed.fate, times), (Fate::Refused, 1));
        assert!(failed.to_string().contains("NetworkDriver.Leave: no"), "{failed}");
    }
    let (failed, _) = fails(Act::Say(404, "404 page not found"), &leave());
    assert_eq!(failed.kind(), Kind::Unsupported);
}

#[test]
fn what_is_gone_because_we_took_it_away_is_no_failure() {
    let gone = |_: &str, before| match before {
        0 => Act::Close,
        _ => Act::Say(200, r#"{"Err":"endpoint e not found"}"#),
    };
    let scene = Scene::with(gone);
    let plugins = scene.plugins(TIMEOUT);
    assert_eq!(plugins.call(&p(), &leave()).unwrap(), Answer::Done {});
    assert_eq!(plugins.call(&p(), &leave()).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn who_dies_of_a_request_may_have_carried_it_out() {
    let scene = Scene::new();
    let socket = scene.socket();
    scene.serve(move |_, _| {
        std::fs::remove_file(&socket).unwrap();
        Act::Close
    });
    let failed = scene.plugins(TIMEOUT).call(&p(), &leave()).unwrap_err();
    assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Unknown), "{failed}");
}
