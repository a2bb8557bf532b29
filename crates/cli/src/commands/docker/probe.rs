//! A probe that asks the plugin for an answer as a Docker Engine does.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

/// A plugin that takes longer counts as dead.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A longer answer is not the plugin's.
const LARGEST: u64 = 64 << 10;

const REQUEST: &[u8] = b"POST /Plugin.Activate HTTP/1.1\r\nHost: spoke\r\nContent-Length: 0\r\n\
    Connection: close\r\n\r\n";

#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "Implements")]
    implements: Vec<String>,
}

/// The profile of the plugin at `socket`, or why it does not answer.
pub(crate) fn ask(socket: &Path) -> Result<String, String> {
    let answer = converse(socket).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => "is not there; `spoke docker install`, or `spoke serve`".to_owned(),
        ErrorKind::ConnectionRefused => "no process listens; start `spoke serve`".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "does not answer".to_owned(),
        _ => cause.to_string(),
    })?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let manifest: Manifest = serde_json::from_str(body)
        .map_err(|_| "answers, but not as a plugin of Docker".to_owned())?;
    Ok(manifest.implements.join(" and "))
}

fn converse(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    stream.take(LARGEST).read_to_string(&mut answer)?;
    Ok(answer)
}
