//! What a Docker Engine answers when the reconciler asks it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use docker::api::Api;
use model::{Kind, Result};

use crate::server::{Server, TIMEOUT};

/// An answer with its head. It is understood, or the engine is one that has not answered: then
/// nothing is freed. It can never say that something is gone by being damaged.
pub fn engine_api(bytes: &[u8]) {
    let api = answering(bytes);
    judge(api.version());
    judge(api.networks());
    judge(api.endpoints(&"n1".parse().expect("an id")));
    judge(api.running());
    if let Ok(mut events) = api.events() {
        let _ = events.drain();
    }
}

fn judge<T>(answered: Result<T>) {
    if let Err(error) = answered {
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
    }
}

/// The way to this thread's engine, which answers every request so from now on.
fn answering(bytes: &[u8]) -> Api {
    thread_local!(static ENGINE: Server = Server::start("docker.sock", reply));
    ENGINE.with(|engine| {
        engine.say(bytes);
        Api::new(engine.socket().to_owned(), TIMEOUT)
    })
}

/// The client may have heard enough before the end.
fn reply(mut stream: UnixStream, bytes: &[u8]) {
    let mut asked = Vec::new();
    let mut some = [0; 1024];
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut some) {
            Ok(count) if count > 0 => asked.extend_from_slice(&some[..count]),
            _ => return,
        }
    }
    let _ = stream.write_all(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_answers_are_understood() {
        for input in crate::corpus("engine_api") {
            engine_api(&input);
            let api = answering(&input);
            let understood = api.version().is_ok_and(|version| !version.is_empty())
                || api.networks().is_ok_and(|networks| !networks.is_empty())
                || api
                    .endpoints(&"n1".parse().unwrap())
                    .is_ok_and(|found| found.is_some_and(|some| !some.is_empty()))
                || api.running().is_ok_and(|running| !running.is_empty());
            assert!(understood, "{}", input.escape_ascii());
        }
    }
}
