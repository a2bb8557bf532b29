//! The arguments of `spoke explain`.

use clap::Args;
use explain::Carried;
use model::{Error, Protocol, Result};

/// What `--help` says below the options.
pub(crate) const HELP: &str =
    "FROM and TO are containers of any runtime (NAME, RUNTIME/NAME, the start of an \
    id, an address), `host`, `outside` or any other address; TO is also a name of a network with names. \
    The way there and back is followed in the kernel and the book: nothing is executed, changed or \
    sent, but for --probe.

Exits with 0 where FROM reaches TO, 1 where it does not, 3 where no container is called FROM, 4 where a name means \
    several, 5 where a hop cannot be judged.

Examples:
  spoke explain web db 5432
  spoke explain outside web 80        the host's port that leads to port 80 of web
  spoke explain web outside           whether web gets out of this host
  spoke explain web db 53/udp -o json
  spoke explain --probe host web 80";

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Who begins: a container (its name, RUNTIME/NAME, the start of its id, an address), host, outside
    pub(crate) from: String,
    /// Who is called: the same, any address, or a name of a network with names
    pub(crate) to: String,
    /// The port that is called, as 80, 80/udp; without a port, an echo request (ping) is followed
    pub(crate) port: Option<Port>,
    /// Also send one packet from there, and say what came back
    #[arg(long, requires = "port")]
    pub(crate) probe: bool,
}

/// A port and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port(pub(crate) u16, pub(crate) Protocol);

impl std::str::FromStr for Port {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let number = port.parse().ok().filter(|port| *port != 0);
        let wrong = || {
            let shown = model::text::shown(text);
            Error::invalid(format!("port {shown:?} is not written as 80 or 80/udp"))
        };
        Ok(Self(number.ok_or_else(wrong)?, protocol.parse()?))
    }
}

impl Port {
    pub(crate) fn carried(port: Option<Self>) -> Carried {
        match port {
            None => Carried::Echo,
            Some(Self(port, Protocol::Tcp)) => Carried::Tcp(port),
            Some(Self(port, Protocol::Udp)) => Carried::Udp(port),
            Some(Self(port, Protocol::Sctp)) => Carried::Sctp(port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let port = |text: &str| text.parse::<Port>().ok();
        assert_eq!(port("80"), Some(Port(80, Protocol::Tcp)));
        assert_eq!(port("53/udp"), Some(Port(53, Protocol::Udp)));
        for wrong in ["", "0", "65536", "http", "80/", "80/icmp", "-1", "80/tcp/udp"] {
            assert_eq!(port(wrong), None, "{wrong}");
        }
    }
}
