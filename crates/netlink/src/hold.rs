//! Binds a port of the host so that others see that it is taken.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use model::{Protocol, Result};
use rustix::io::Errno;
use rustix::net::{bind, sockopt};

use crate::outcome::refused;
use crate::probe;

/// A socket on a port. No other program can bind the port before it is dropped.
///
/// It is bound and does not listen: a packet that was not translated is refused, as without the
/// socket.
#[derive(Debug)]
pub struct BoundPort(#[expect(dead_code, reason = "it is held, not used")] OwnedFd);

/// The result of the attempt.
#[derive(Debug)]
pub enum Hold {
    /// The port is held.
    Held(BoundPort),
    /// Another socket has it.
    Taken,
    /// This host lacks the protocol or the family.
    Absent,
}

/// Binds a port, whether its address is there yet or not.
///
/// # Errors
/// [`model::Kind::Denied`] for a privileged port; [`model::Kind::Kernel`].
pub fn hold(protocol: Protocol, target: SocketAddr) -> Result<Hold> {
    match bound(protocol, target) {
        Ok(socket) => Ok(Hold::Held(BoundPort(socket))),
        Err(Errno::ADDRINUSE) => Ok(Hold::Taken),
        Err(errno) if probe::is_absent(errno) || errno == Errno::INVAL => Ok(Hold::Absent),
        Err(errno) => Err(refused(format!("binding {target}/{protocol}"), errno)),
    }
}

/// Without `SO_REUSEADDR`: with it, others that set it could listen beside a socket that does not.
fn bound(protocol: Protocol, target: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = probe::socket(protocol, target)?;
    match target {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_freebind(&socket, true)?,
    }
    if protocol == Protocol::Udp {
        // It is not read. The kernel makes this the minimum.
        sockopt::set_socket_recv_buffer_size(&socket, 1)?;
    }
    bind(&socket, &target)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn no_other_process_gets_it_and_none_is_let_in() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let target = listener.local_addr().unwrap();
            assert!(matches!(hold(Protocol::Tcp, target).unwrap(), Hold::Taken));
            drop(listener);
            let held = hold(Protocol::Tcp, target).unwrap();
            assert!(matches!(held, Hold::Held(_)), "{held:?}");
            assert!(TcpListener::bind(target).is_err(), "which sets SO_REUSEADDR");
            assert!(TcpStream::connect(target).is_err());
            drop(held);
            TcpListener::bind(target).unwrap();
        }
    }

    #[test]
    fn datagrams_and_addresses_that_are_not_there() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = socket.local_addr().unwrap();
        assert!(matches!(hold(Protocol::Udp, target).unwrap(), Hold::Taken));
        drop(socket);
        let held = hold(Protocol::Udp, target).unwrap();
        assert!(matches!(held, Hold::Held(_)) && UdpSocket::bind(target).is_err());
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], target.port()));
        assert!(matches!(hold(Protocol::Udp, elsewhere).unwrap(), Hold::Held(_)));
    }
}
