//! Where a server of etcd listens for clients.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;

use model::{Error, Result};
use serde::{Deserialize, Serialize};

/// Longer ones are refused, in bytes.
const LONGEST: usize = 300;

/// `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    is_https: bool,
    host: String,
    port: u16,
}

impl Url {
    /// The server's address: the first that its name has.
    ///
    /// # Errors
    /// `NotFound` where it has none.
    pub fn address(&self) -> Result<IpAddr> {
        let name = (self.host.trim_matches(['[', ']']), self.port);
        let found = name.to_socket_addrs().ok().and_then(|mut all| all.next());
        found.map(|found| found.ip()).ok_or_else(|| {
            Error::not_found(format!("{self}: there is no host named {}", self.host))
        })
    }

    /// Whether etcd is spoken to by TLS.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// The UDP or TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |why: &str| {
            Err(Error::invalid(format!(
                "{:?} is no address of etcd: {why}; it is http://HOST:PORT or https://HOST:PORT",
                model::text::shown(text)
            )))
        };
        let https = text.strip_prefix("https://");
        let rest = https.or_else(|| text.strip_prefix("http://"));
        let Some(rest) = rest.filter(|_| text.len() <= LONGEST) else {
            return invalid("it begins with neither http:// nor https://");
        };
        let Some((host, port)) = rest.trim_end_matches('/').rsplit_once(':') else {
            return invalid("it names no port");
        };
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if host.is_empty()
            || !host.bytes().all(known)
            || (host.contains(':') != host.starts_with('['))
        {
            return invalid("it names no host");
        }
        match port.parse() {
            Ok(port) if port > 0 => {
                Ok(Self { is_https: https.is_some(), host: host.to_owned(), port })
            }
            Ok(_) | Err(_) => invalid("its port is no number from 1 to 65535"),
        }
    }
}

impl TryFrom<String> for Url {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Url> for String {
    fn from(url: Url) -> Self {
        url.to_string()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_are_read() {
        for good in
            ["http://192.0.2.1:2379", "https://etcd.example.com:1", "http://[2001:db8::1]:2379"]
        {
            assert_eq!(good.parse::<Url>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "192.0.2.1:2379",
            "ftp://192.0.2.1:2379",
            "http://192.0.2.1",
            "http://:2379",
            "http://a:0",
            "http://a:99999",
            "http://a/b:1",
            "http://user@a:1",
            "http://2001:db8::1:2379",
        ] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }
}
