//! What third-party Docker plugins answer when we call them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use libnetwork::{
    self, AddressSpaces, Answer, Call, IpamCapabilities, Manifest, Method, NetworkCapabilities,
    Request,
};
use model::Kind;
use remote::calls::{Calls, Failed, Fate};
use remote::discover::PluginDirectories;
use remote::plugins::Plugins;

use crate::server::{Server, TIMEOUT};

/// Longer errors are of no use to a reader.
const LONGEST_ERROR: usize = 8192;

/// A line with a method, and the answer to it with its head. It is understood, and means the same
/// when it is written down and read again; or it is an error that says what became of the call.
pub fn plugin_answers(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (method, answer) = bytes.split_at(at);
    let answer = answer.get(1..).unwrap_or_default();
    let method = Method::from_path(&format!("/{}", String::from_utf8_lossy(method)));
    match method.map(|method| (method, specimen(method))) {
        None => {}
        Some((_, Some(call))) => match asked(&call, answer) {
            Ok(understood) => means_the_same(call.method(), &understood),
            Err(failed) => judge(&failed),
        },
        Some((_, None)) => {
            let body = answer.split(|byte| *byte == b'\r').next_back().unwrap_or_default();
            let _ = Manifest::decode(body);
            let _ = NetworkCapabilities::decode(body);
            let _ = IpamCapabilities::decode(body);
            let _ = AddressSpaces::decode(body);
        }
    }
}

fn means_the_same(method: Method, answer: &Answer) {
    let written = serde_json::to_vec(answer).expect("an answer is JSON");
    let again = Answer::decode(method, &written);
    assert_eq!(again.ok().as_ref(), Some(answer), "{}", written.escape_ascii());
}

fn judge(failed: &Failed) {
    assert_ne!(failed.kind(), Kind::Bug, "{failed}");
    assert!(failed.to_string().len() <= LONGEST_ERROR, "{failed}");
    assert!(failed.undo.is_none() || failed.fate == Fate::Done, "{failed}");
}

/// A call of that method that is made once, whatever comes back.
fn specimen(method: Method) -> Option<Call> {
    let body: &[u8] = match method {
        Method::CreateNetwork | Method::AllocateNetwork => br#"{"NetworkID":"n"}"#,
        Method::CreateEndpoint => br#"{"NetworkID":"n","EndpointID":"e"}"#,
        Method::Join => br#"{"NetworkID":"n","EndpointID":"e","SandboxKey":"/s"}"#,
        Method::RequestPool => br#"{"AddressSpace":"s"}"#,
        Method::ReleasePool | Method::RequestAddress => br#"{"PoolID":"p"}"#,
        _ => return None,
    };
    match libnetwork::decode(method, body) {
        Ok(Request::Do(call)) => Some(*call),
        other => panic!("{other:?}"),
    }
}

/// A plugin that answers every call with the same bytes, and who calls it.
struct Stranger {
    server: Server,
    plugins: Plugins,
}

impl Stranger {
    fn start() -> Self {
        let server = Server::start("p.sock", reply);
        let sockets = vec![server.folder().to_owned()];
        let places = PluginDirectories { sockets, descriptions: Vec::new() };
        Self { server, plugins: Plugins::new(places, TIMEOUT) }
    }
}

/// What is made of this answer of this thread's plugin.
fn asked(call: &Call, answer: &[u8]) -> Result<Answer, Failed> {
    thread_local!(static STRANGER: Stranger = Stranger::start());
    STRANGER.with(|stranger| {
        stranger.server.say(answer);
        stranger.plugins.call(&"p".parse().expect("a name"), call)
    })
}

fn reply(stream: UnixStream, bytes: &[u8]) {
    let mut from = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        match from.read_line(&mut head) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or_default()];
    let _ = from.read_exact(&mut body);
    let said = |body: &str| format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes();
    let bytes = match head.split(' ').nth(1) {
        Some("/Plugin.Activate") => said(r#"{"Implements":["NetworkDriver","IpamDriver"]}"#),
        Some("/NetworkDriver.GetCapabilities") => said(r#"{"Scope":"local"}"#),
        Some("/IpamDriver.GetCapabilities" | "/IpamDriver.GetDefaultAddressSpaces") => said("{}"),
        _ => bytes.to_vec(),
    };
    let _ = from.get_mut().write_all(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_answers_are_understood() {
        for input in crate::corpus("plugin_answers") {
            let at = input.iter().position(|byte| *byte == b'\n').unwrap();
            let path = format!("/{}", std::str::from_utf8(&input[..at]).unwrap());
            let Some(call) = specimen(Method::from_path(&path).unwrap()) else { continue };
            let answered = asked(&call, &input[at + 1..]);
            let is_refused = |failed: &Failed| failed.fate == Fate::Refused;
            assert!(
                !answered.is_err_and(|failed| !is_refused(&failed)),
                "{}",
                input.escape_ascii()
            );
        }
    }
}
