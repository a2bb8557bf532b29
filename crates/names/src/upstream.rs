//! This host's own servers (resolv.conf(5)).

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No such file is longer, in bytes.
const LONGEST: u64 = 1 << 16;
/// No resolver asks more of them.
const MOST: usize = 3;
/// How long what was read holds.
const FRESH: Duration = Duration::from_secs(1);

/// The servers that a file names, in its order.
pub fn host_servers(path: &Path) -> Vec<IpAddr> {
    file::text(path, LONGEST).map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == "nameserver").then(|| words.next()?.parse().ok()).flatten()
    };
    let servers = text.lines().filter_map(server);
    servers.filter(|server: &IpAddr| !server.is_unspecified()).take(MOST).collect()
}

/// The file, read now and then.
#[derive(Debug)]
pub(crate) struct Host {
    path: PathBuf,
    read: Option<(Instant, Vec<IpAddr>)>,
}

impl Host {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: None }
    }

    /// Those that are to be asked: `given`, or else what the file names.
    pub(crate) fn or(&mut self, given: Vec<IpAddr>, now: Instant) -> Vec<IpAddr> {
        if !given.is_empty() {
            return given;
        }
        match &self.read {
            Some((at, servers)) if now.saturating_duration_since(*at) < FRESH => servers.clone(),
            Some(_) | None => {
                let servers = host_servers(&self.path);
                self.read = Some((now, servers.clone()));
                servers
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_the_c_library_does() {
        let text = "# x\nsearch a\nnameserver 192.0.2.1\n nameserver ::1 # y\nnameserver\n\
                    nameserver nobody\nnameserver 0.0.0.0\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n";
        let expected = ["192.0.2.1", "::1", "10.0.0.1"];
        assert_eq!(parse(text), expected.map(|it| it.parse::<IpAddr>().unwrap()));
    }
}
