//! One packet from where the way begins.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use explain::{Netlink, Report};
use model::{Error, Protocol, Result};

use super::ends::HostRecords;
use crate::args::explain::{ExplainArgs, Port};

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What came back.
pub(super) fn probe(
    book: &HostRecords<'_>,
    wanted: &ExplainArgs,
    report: &Report,
    kernel: &mut Netlink,
) -> Result<String> {
    let Some(Port(port, protocol)) = wanted.port else {
        return Err(Error::invalid("--probe needs a port"));
    };
    let from = book.sender(&wanted.from, kernel)?;
    let Some(address) = report.called else {
        return Ok("not sent: it is not known to which address".to_owned());
    };
    let target = SocketAddr::new(address, port);
    let send = || match protocol {
        Protocol::Tcp => connect(target),
        Protocol::Udp => datagram(target),
        Protocol::Sctp => "not sent: SCTP is not probed".to_owned(),
    };
    match from.end {
        explain::End::Host => Ok(send()),
        explain::End::Container(site) => match site.space() {
            Some(space) => kernel.within(space, send),
            None if site.device().is_some() => {
                Ok("not sent: nothing is sent from inside a virtual machine".to_owned())
            }
            None => Ok("not sent: the container is not there".to_owned()),
        },
        explain::End::Outside | explain::End::Address(_) => {
            Ok("not sent: nothing is sent from outside".to_owned())
        }
    }
}

fn connect(target: SocketAddr) -> String {
    match TcpStream::connect_timeout(&target, TIMEOUT) {
        Ok(_) => format!("{target} accepted a connection"),
        Err(error) => refusal(target, &error),
    }
}

fn datagram(target: SocketAddr) -> String {
    let own: IpAddr = match target {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let exchange = || {
        let socket = UdpSocket::bind((own, 0))?;
        socket.connect(target)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.send(&[])?;
        socket.recv(&mut [0; 1])
    };
    match exchange() {
        Ok(_) => format!("{target} answered"),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            format!("{target} did not answer, which a server of UDP need not")
        }
        Err(error) => refusal(target, &error),
    }
}

fn refusal(target: SocketAddr, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("{target} did not answer within {} s", TIMEOUT.as_secs())
        }
        _ => format!("{target}: {error}"),
    }
}
