//! `spoke web`: the daemon's page at a loopback address, for who has the token, as long as the
//! command runs.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::exit;
use host::web::http::{Connection, HttpListener};
use host::web::{self, Refusal, Request};
use model::{Error, Result};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::web::WebArgs;
use crate::context::CommandContext;
use crate::output::{Output, render};

/// The token's length, in bytes.
const TOKEN: usize = 24;

/// How long the daemon may be silent: it writes a line every 15 seconds where nothing changes, and
/// `spoke doctor`'s checks may wait for plugins.
const SILENCE: Duration = Duration::from_secs(60);

/// How often the client is looked at meanwhile.
const GLANCE: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct WebView {
    url: String,
}

/// Forwards until the process is stopped.
pub(crate) fn run(
    wanted: &WebArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    let socket = web::socket(&context.runtime);
    connect(&socket)?;
    let failed = |cause| Error::os(format!("listening at 127.0.0.1:{}", wanted.port), cause);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted.port)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let token = token()?;
    let view = WebView { url: format!("http://{address}/{token}/") };
    let text = render(output, &view, || {
        format!("{}\n\nas long as this command runs (Ctrl-C ends it).\n", view.url)
    })?;
    exit::write(out, &text)?;
    HttpListener::Tcp(listener)
        .serve(&|connection, has_asked| forward(connection, has_asked, &token, &socket));
    Ok(Answer::default())
}

fn connect(socket: &Path) -> Result<UnixStream> {
    UnixStream::connect(socket).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::try_again(
            "the daemon does not serve the page: start `spoke serve`, without enabled = false in [web]",
        ),
        _ => Error::os(format!("connecting to {}", socket.display()), cause),
    })
}

/// Random letters that cannot be guessed.
fn token() -> Result<String> {
    let mut bytes = [0; TOKEN];
    let read = getrandom(&mut bytes, GetRandomFlags::empty());
    match read {
        Ok(TOKEN) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Ok(_) => Err(Error::bug("the kernel gave half a random number")),
        Err(cause) => Err(Error::os("making a token", cause.into())),
    }
}

/// Answers one request with what the daemon answers.
fn forward(
    connection: &mut dyn Connection,
    has_asked: &AtomicBool,
    token: &str,
    socket: &Path,
) -> io::Result<()> {
    let Some(head) = web::head_of(connection)? else { return Ok(()) };
    let judged = Request::read(&head).and_then(|request| {
        request.check_loopback()?;
        Ok((target(&request.target, token)?.to_owned(), request))
    });
    let (target, request) = match judged {
        Ok(judged) => judged,
        Err(refusal) => return web::refuse(connection, &refusal),
    };
    has_asked.store(true, Ordering::Release);
    let asked = connect(socket).map_err(io::Error::other).and_then(|mut daemon| {
        daemon.set_read_timeout(Some(GLANCE))?;
        daemon.write_all(request.forwarded(&target).as_bytes())?;
        Ok(daemon)
    });
    let Ok(mut daemon) = asked else {
        return web::write(connection, lost(request.is_get).as_bytes());
    };
    copy(&mut daemon, connection)
}

/// A page that asks again by itself: the daemon may only be restarting.
fn lost(is_get: bool) -> String {
    let frame = page::Frame { asks_again: true, ..page::Frame::default() };
    let body = page::failure(&frame, "The daemon is not there. Start it: spoke serve");
    let head = web::head("502 Bad Gateway", "text/html; charset=utf-8", Some(body.len()), "");
    if is_get { head + &body } else { head }
}

/// Until either end has gone.
fn copy(daemon: &mut UnixStream, connection: &mut dyn Connection) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut heard = Instant::now();
    while heard.elapsed() < SILENCE {
        match daemon.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                web::write(connection, buffer.get(..read).unwrap_or_default())?;
                heard = Instant::now();
            }
            Err(cause) if is_early(&cause) && !connection.is_over() => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// Whether there is only nothing to read yet.
fn is_early(cause: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(cause.kind(), WouldBlock | TimedOut | Interrupted)
}

/// What follows the token in a target.
fn target<'a>(target: &'a str, token: &str) -> std::result::Result<&'a str, Refusal> {
    let given = target.strip_prefix('/').unwrap_or_default();
    let (given, rest) = given.split_at_checked(2 * TOKEN).unwrap_or((given, ""));
    match is_same(given, token) && rest.starts_with('/') {
        true => Ok(rest),
        false => Err(Refusal {
            status: "403 Forbidden",
            sentence: "open the URL that `spoke web` printed, with its token and the slash at its end",
        }),
    }
}

/// Compares in a time that does not depend on how much of it is right.
fn is_same(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    let differ = pairs.fold(0, |differ, (one, other)| differ | (one ^ other));
    given.len() == token.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_with_the_token() {
        let token = token().unwrap();
        assert_eq!(token.len(), 2 * TOKEN);
        assert_eq!(target(&format!("/{token}/ports?x=1"), &token), Ok("/ports?x=1"));
        assert_eq!(target(&format!("/{token}/"), &token), Ok("/"));
        let short = &token[..token.len() - 1];
        for wrong in [
            "/",
            "/ports",
            &format!("/{token}"),
            &format!("/{short}/"),
            &format!("/{token}x/"),
            &format!("//{token}/"),
            &format!("/{}/", "0".repeat(2 * TOKEN)),
            "/éééééééééééééééééééééééééééé/",
        ] {
            assert!(target(wrong, &token).is_err(), "{wrong}");
        }
    }
}
