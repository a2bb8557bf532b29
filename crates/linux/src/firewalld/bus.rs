//! A connection to the system's D-Bus, for calls of one program (D-Bus Specification 0.43).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use model::{Error, Result};

use super::message::{self, Arguments, FIXED, Message, Method, Value};

/// Where every distribution has it.
const SOCKET: &str = "/run/dbus/system_bus_socket";
/// How long an answer may take: firewalld does not answer while it loads its rules again.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// No line of the authentication is near this long.
const LONGEST_LINE: usize = 512;
/// More messages than this that are no answer to us are not read.
const MOST_OTHERS: usize = 1000;

const BUS: Method<'static> = Method {
    destination: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    name: "Hello",
};

/// The other side refuses a call: the error's name and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Open and authenticated.
pub(crate) struct Bus {
    stream: UnixStream,
    serial: u32,
}

impl Bus {
    /// `None` where this host has no bus.
    pub(crate) fn connect() -> Result<Option<Self>> {
        let stream = match UnixStream::connect(SOCKET) {
            Ok(stream) => stream,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        stream.set_read_timeout(Some(LONGEST_WAIT)).map_err(failed)?;
        stream.set_write_timeout(Some(LONGEST_WAIT)).map_err(failed)?;
        let mut bus = Self { stream, serial: 0 };
        bus.authenticate().map_err(failed)?;
        match bus.call(&BUS, &Arguments::default())? {
            Ok(_) => Ok(Some(bus)),
            Err(Refusal { name, text }) => {
                Err(failed(io::Error::other(format!("it refuses us: {name}: {text}"))))
            }
        }
    }

    /// The bus learns from the kernel who we are.
    fn authenticate(&mut self) -> io::Result<()> {
        self.stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
        let asks = self.line()?;
        match asks.starts_with(b"DATA") && self.line()?.starts_with(b"OK ") {
            true => Ok(()),
            false => Err(io::Error::other("it does not accept our user")),
        }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.extend(byte);
            if line.len() > LONGEST_LINE {
                return Err(io::Error::other("a line of the authentication is too long"));
            }
        }
        Ok(line)
    }

    /// The answer of `method`.
    pub(crate) fn call(
        &mut self,
        method: &Method<'_>,
        arguments: &Arguments,
    ) -> Result<Result<Value, Refusal>> {
        self.serial += 1;
        let sent = message::call(self.serial, method, arguments);
        self.stream.write_all(&sent).map_err(failed)?;
        for _ in 0..MOST_OTHERS {
            match self.receive()? {
                Message::Answer { serial, value } if serial == self.serial => {
                    return Ok(Ok(value));
                }
                Message::Refusal { serial, name, text } if serial == self.serial => {
                    return Ok(Err(Refusal { name, text }));
                }
                Message::Answer { .. } | Message::Refusal { .. } | Message::Other => {}
            }
        }
        Err(failed(io::Error::other(format!("{} is not answered", method.name))))
    }

    fn receive(&mut self) -> Result<Message> {
        let mut fixed = [0; FIXED];
        self.stream.read_exact(&mut fixed).map_err(failed)?;
        let mut bytes = fixed.to_vec();
        bytes.resize(FIXED + message::rest(fixed)?, 0);
        let rest = bytes.get_mut(FIXED..).unwrap_or_default();
        self.stream.read_exact(rest).map_err(failed)?;
        message::parse(&bytes)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn failed(error: io::Error) -> Error {
    Error::os(format!("talking to the system's D-Bus at {SOCKET}"), error)
}
