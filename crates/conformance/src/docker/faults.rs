//! Invalid requests, which a plugin must survive.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use remote::address::Address;

use super::super::http::{Connection, Message, connect};
use super::super::run::{Run, Step, fail};

/// A plugin may not make a client wait longer than this because of another client's half request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Larger than any request.
const HUGE: usize = 8 << 20;

const ACTIVATE: &[u8] =
    b"POST /Plugin.Activate HTTP/1.1\r\nHost: plugin.moby.localhost\r\nContent-Length: 0\r\n\r\n";

pub(super) fn carry_out(at: &Address, run: &mut Run<'_>, word: &str) -> Option<Step> {
    let (done, what) = match word {
        "keep-alive" => (keep_alive(at), "the second request on a connection"),
        "half-request" => (half(at), "a request beside one that is only half sent"),
        "slow-request" => (slow(at), "a request that comes in pieces"),
        "huge-body" => (huge(at, run), "a request after one that is far too long"),
        "pipelined" => (pipelined(at), "the second of two requests sent at once"),
        _ => return None,
    };
    Some(done.or_else(|error| fail(format!("{what} is not answered: {error}"))))
}

fn answered(connection: &mut Connection) -> io::Result<Message> {
    let message = connection.receive(true)?;
    if message.status() == Some(200) { Ok(message) } else { Err(io::Error::other(message.first)) }
}

fn keep_alive(at: &Address) -> io::Result<()> {
    let mut connection = connect(at, TIMEOUT)?;
    connection.write(ACTIVATE)?;
    // A connection that announces its end may end.
    if answered(&mut connection)?.ends() {
        return Ok(());
    }
    connection.write(ACTIVATE)?;
    answered(&mut connection).map(drop)
}

fn half(at: &Address) -> io::Result<()> {
    let mut stuck = connect(at, TIMEOUT)?;
    stuck.write(
        b"POST /NetworkDriver.Leave HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{\"N",
    )?;
    let mut silent = connect(at, TIMEOUT)?;
    silent.write(b"POST /Plu")?;
    let mut other = connect(at, TIMEOUT)?;
    other.write(ACTIVATE)?;
    answered(&mut other).map(drop)
}

fn slow(at: &Address) -> io::Result<()> {
    let mut connection = connect(at, TIMEOUT)?;
    for piece in ACTIVATE.chunks(20) {
        connection.write(piece)?;
        sleep(Duration::from_millis(20));
    }
    answered(&mut connection).map(drop)
}

fn huge(at: &Address, run: &mut Run<'_>) -> io::Result<()> {
    let mut connection = connect(at, TIMEOUT)?;
    let mut body = br#"{"NetworkID":""#.to_vec();
    body.resize(HUGE, b'a');
    body.extend(br#""}"#);
    // It may be refused and closed before all of it is written.
    let sent = connection.post("NetworkDriver.DeleteNetwork", "", &body);
    match (sent, connection.receive(true)) {
        (_, Ok(message)) if message.status() == Some(200) => {
            run.warnings.push(format!("a body of {HUGE} bytes is read"));
        }
        (Ok(()), Err(error)) => run.warnings.push(format!("no answer to a huge body: {error}")),
        _ => {}
    }
    keep_alive(at)
}

fn pipelined(at: &Address) -> io::Result<()> {
    let mut connection = connect(at, TIMEOUT)?;
    connection.write(&[ACTIVATE, ACTIVATE].concat())?;
    if answered(&mut connection)?.ends() {
        return Ok(());
    }
    answered(&mut connection).map(drop)
}
