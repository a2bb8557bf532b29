//! Whether a port of the host is free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use model::{Family, Protocol, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

use crate::outcome::refused;

/// The state of a port for a process that wants to bind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// It is free.
    Free,
    /// Another socket has it.
    Taken,
}

/// Tries to bind `port` of `address`, or of every address of both families, without listening. A
/// protocol, family or address that this host lacks cannot be taken.
///
/// # Errors
/// [`model::Kind::Denied`] for a privileged port; [`model::Kind::Kernel`].
pub fn port(protocol: Protocol, address: Option<IpAddr>, port: u16) -> Result<Port> {
    let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let tried = address.as_ref().map_or(every.as_slice(), std::slice::from_ref);
    for address in tried {
        let target = SocketAddr::new(*address, port);
        match try_bind(protocol, target) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Ok(Port::Taken),
            Err(errno) if is_absent(errno) => {}
            Err(errno) => return Err(refused(format!("binding {target}/{protocol}"), errno)),
        }
    }
    Ok(Port::Free)
}

/// Whether this host speaks the protocol at all.
pub fn has(protocol: Protocol) -> bool {
    let here = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    !matches!(socket(protocol, here), Err(Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT))
}

/// Whether this host has the family at all: it may be booted with `ipv6.disable=1`.
pub fn has_family(family: Family) -> bool {
    let address = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    !matches!(socket(Protocol::Udp, SocketAddr::new(address, 0)), Err(Errno::AFNOSUPPORT))
}

/// Whether this host lacks the protocol, the family or the address.
pub(crate) fn is_absent(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT | Errno::ADDRNOTAVAIL
    )
}

/// A socket that can be bound to `target`, of that address family alone.
pub(crate) fn socket(protocol: Protocol, target: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if target.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let (kind, number) = match protocol {
        Protocol::Tcp => (SocketType::STREAM, ipproto::TCP),
        Protocol::Udp => (SocketType::DGRAM, ipproto::UDP),
        Protocol::Sctp => (SocketType::STREAM, ipproto::SCTP),
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(number))?;
    if target.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

fn try_bind(protocol: Protocol, target: SocketAddr) -> Result<(), Errno> {
    let socket = socket(protocol, target)?;
    if protocol == Protocol::Tcp {
        // Connections in TIME_WAIT hold no port against a listener; another listener still does.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &target)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_listener_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let local = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(port(Protocol::Tcp, local, number).unwrap(), Port::Taken);
        assert_eq!(port(Protocol::Tcp, None, number).unwrap(), Port::Taken);
        let other = Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 77)));
        assert_eq!(port(Protocol::Tcp, other, number).unwrap(), Port::Free);
        let foreign = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(port(Protocol::Tcp, foreign, number).unwrap(), Port::Free);
    }

    #[test]
    fn udp_of_either_family_is_found() {
        let v6 = UdpSocket::bind("[::1]:0");
        let v4 = UdpSocket::bind("127.0.0.1:0");
        for socket in [v4, v6].into_iter().flatten() {
            let number = socket.local_addr().unwrap().port();
            assert_eq!(port(Protocol::Udp, None, number).unwrap(), Port::Taken);
        }
    }

    #[test]
    fn a_protocol_that_is_not_there_takes_nothing() {
        assert_eq!(port(Protocol::Sctp, None, 39_999).unwrap(), Port::Free);
    }
}
