//! Where the database answers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use model::{Error, Result};

/// Where the database answers, as `ovs-vsctl --db` names it (ovsdb(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `tcp:HOST:PORT`
    Tcp {
        /// The host's name or address.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The port that the protocol has of its own (RFC 7047 §4).
const PORT: u16 = 6640;

impl FromStr for Remote {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "{text:?} is no address of Open vSwitch's database, such as \
                 unix:/run/openvswitch/db.sock or tcp:127.0.0.1:6640"
            ))
        };
        if text.starts_with("ssl:") {
            return Err(Error::unsupported(format!(
                "{text}: Open vSwitch's database is called over unix: or tcp: only; it is on this host"
            )));
        }
        let path = text.strip_prefix("unix:").or(text.starts_with('/').then_some(text));
        if let Some(path) = path {
            let is_path = path.starts_with('/') && !path.contains('\0');
            return if is_path { Ok(Self::Unix(path.into())) } else { Err(wrong()) };
        }
        let rest = text.strip_prefix("tcp:").ok_or_else(wrong)?;
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        match !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic()) && port != 0 {
            true => Ok(Self::Tcp { host: host.to_owned(), port }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Unix(path) => write!(f, "unix:{}", path.display()),
            Remote::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Remote::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    #[test]
    fn addresses_are_read() {
        for text in ["unix:/run/openvswitch/db.sock", "tcp:127.0.0.1:6640", "tcp:[::1]:6641"] {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), text);
        }
        assert_eq!("/run/db".parse::<Remote>().unwrap().to_string(), "unix:/run/db");
        assert_eq!("tcp:h".parse::<Remote>().unwrap().to_string(), "tcp:h:6640");
        assert_eq!("tcp:[::1]".parse::<Remote>().unwrap().to_string(), "tcp:[::1]:6640");
        for bad in
            ["", "unix:", "unix:db.sock", "tcp:", "tcp::1", "tcp:h:x", "tcp:[::1]x", "udp:h:1"]
        {
            assert_eq!(bad.parse::<Remote>().unwrap_err().kind(), Kind::Invalid, "{bad}");
        }
        assert_eq!("ssl:h:1".parse::<Remote>().unwrap_err().kind(), Kind::Unsupported);
    }
}
