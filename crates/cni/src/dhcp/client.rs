//! The plugin's end of the DHCP daemon's protocol.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::Members;
use model::{Dhcp, Error, Fact, Kind, NetworkName, Result};
use serde_json::json;

use super::call::{ALLOCATE, ARGUMENTS, CHECK, COLLECT, RELEASE, REQUEST, given, structure, text};
use super::gob::Value;
use super::rpc::{CONNECT, CONNECTED, Line};
use super::{DhcpAnswer, Subject, spec};

/// The reference's daemon continues asking servers for 208 s, and longer with its flags.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How long an answer may take that waits for no server.
const PROMPT: Duration = Duration::from_secs(10);

/// A daemon that listens at a socket.
#[derive(Clone, Copy, Debug)]
pub struct Daemon<'a> {
    socket: &'a Path,
}

impl<'a> Daemon<'a> {
    /// The one at this socket.
    pub fn at(socket: &'a Path) -> Self {
        Self { socket }
    }

    /// Gets a lease, or the one that there is.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where no daemon listens, or it cannot get one.
    pub fn allocate(&self, subject: &Subject) -> Result<DhcpAnswer> {
        given(&self.call(ALLOCATE, &arguments(subject), TIMEOUT)?)
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where no daemon listens.
    pub fn release(&self, subject: &Subject) -> Result<()> {
        self.call(RELEASE, &arguments(subject), TIMEOUT).map(drop)
    }

    /// The lease that there is. The reference's daemon gets one where there is none: it has no other
    /// question.
    ///
    /// # Errors
    /// As [`Daemon::allocate`].
    pub fn check(&self, subject: &Subject) -> Result<DhcpAnswer> {
        match self.call(CHECK, &arguments(subject), PROMPT) {
            Err(error) if is_unknown(&error, CHECK) => self.allocate(subject),
            answered => given(&answered?),
        }
    }

    /// Gives every lease of `network` back that `valid` does not list. The reference's daemon cannot.
    ///
    /// # Errors
    /// As [`Daemon::release`].
    pub fn collect(&self, network: &NetworkName, valid: &Members) -> Result<()> {
        let members: Vec<_> = valid
            .iter()
            .map(|(container, ifname)| json!({"containerID": container.as_str(), "ifname": ifname.as_str()}))
            .collect();
        let config = json!({"name": network.as_str(), "cni.dev/valid-attachments": members});
        let arguments = structure([("StdinData", text(config.to_string()))]);
        match self.call(COLLECT, &arguments, PROMPT) {
            Err(error) if is_unknown(&error, COLLECT) => Ok(()),
            answered => answered.map(drop),
        }
    }

    /// Whether a daemon listens.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where none does.
    pub fn status(&self) -> Result<()> {
        self.connect().map(drop)
    }

    /// Whether a daemon listens; `false` only where it is certain that none does, because there is no
    /// socket, or because no process has it open.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where what listens does not answer, or cannot be asked.
    pub fn is_there(&self) -> Result<bool> {
        match self.connect() {
            Ok(_) => Ok(true),
            Err(error) if is_absence(&error) => Ok(false),
            Err(error) => {
                let what =
                    format!("whether {} has a DHCP daemon is unknown", self.socket.display());
                Err(Error::try_again(what).because(error))
            }
        }
    }

    fn connect(&self) -> Result<Line> {
        let absent = |cause| {
            let why = netlink::reason(&cause);
            let words = format!(
                "error dialing DHCP daemon: dial unix {}: connect: {why}",
                self.socket.display()
            );
            Error::try_again(format!(
                "no DHCP daemon listens at {}; start `spoke serve` or `dhcp daemon`",
                self.socket.display()
            ))
            .because(cause)
            .about(Fact::Words(words))
        };
        let stream = UnixStream::connect(self.socket).map_err(absent)?;
        stream.set_write_timeout(Some(PROMPT)).map_err(absent)?;
        let mut line = Line::new(stream);
        line.say(&format!("{CONNECT}\n\n"))?;
        let answer = line.head(Instant::now() + PROMPT)?;
        match answer == CONNECTED {
            true => Ok(line),
            false => Err(Error::try_again(format!(
                "what listens at {} is no DHCP daemon: it answers {answer:?}",
                self.socket.display()
            ))),
        }
    }

    fn call(&self, method: &str, arguments: &Value, timeout: Duration) -> Result<Value> {
        let mut line = self.connect()?;
        let header = structure([("ServiceMethod", text(method)), ("Seq", Value::Uint(1))]);
        line.send([(&REQUEST, &header), (&ARGUMENTS, arguments)])?;
        let deadline = Instant::now() + timeout;
        let silent = || {
            Error::try_again(format!(
                "the DHCP daemon at {} ended before it answered",
                self.socket.display()
            ))
        };
        let response = line.receive(deadline)?.ok_or_else(silent)?;
        let error = response.text("Error");
        if error.is_empty() {
            return line.receive(deadline)?.ok_or_else(silent);
        }
        // The reference's daemon says no more than that.
        let words = if error.contains(Dhcp::GAVE_UP) { Dhcp::GAVE_UP } else { &error };
        let words = format!("error calling {method}: {words}");
        let sentence = format!("the DHCP daemon says to {method}: {error}");
        Err(Error::try_again(sentence).about(Fact::Words(words)))
    }
}

/// The answer of Go's server to a method that it does not have, and of Spoke's.
pub(super) fn unknown(method: &str) -> String {
    let service = method.split('.').next().unwrap_or(method);
    match service == method {
        true => format!("rpc: service/method request ill-formed: {method}"),
        false => format!("rpc: can't find service {method}"),
    }
}

fn is_unknown(error: &Error, method: &str) -> bool {
    error.kind() == Kind::TryAgain && error.to_string().ends_with(&unknown(method))
}

fn is_absence(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let kind = cause.map(io::Error::kind);
    matches!(kind, Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused))
}

fn arguments(subject: &Subject) -> Value {
    structure([
        ("ContainerID", text(subject.id.container.as_str())),
        ("Netns", text(subject.netns.to_string_lossy())),
        ("IfName", text(subject.id.ifname.as_str())),
        ("Args", text(spec::args(subject))),
        ("StdinData", text(spec::write(subject).to_string())),
    ])
}
