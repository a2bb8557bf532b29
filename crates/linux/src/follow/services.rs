//! Names of ports (services(5)), as `before.rules` may have them: iptables-restore(8) reads them in /etc/services.

use std::collections::BTreeMap;
use std::path::Path;

/// Below the root.
const PATH: &str = "etc/services";
/// A longer file says nothing.
const LONGEST: u64 = 4 << 20;

/// The ports by name and protocol.
#[derive(Debug, Default)]
pub(super) struct Services(BTreeMap<(String, String), u16>);

impl Services {
    /// Those of the host whose files are below `root`. Without the file no name is known.
    pub(super) fn read(root: &Path) -> Self {
        Self::parse(&file::text(&root.join(PATH), LONGEST).unwrap_or_default())
    }

    /// Of several lines with one name the first holds, as for getservbyname(3).
    fn parse(text: &str) -> Self {
        let mut all = BTreeMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let (Some(name), Some(service)) = (words.next(), words.next()) else { continue };
            let Some((port, protocol)) = service.split_once('/') else { continue };
            let Ok(port) = port.parse::<u16>() else { continue };
            for name in std::iter::once(name).chain(words) {
                all.entry((name.to_owned(), protocol.to_owned())).or_insert(port);
            }
        }
        Self(all)
    }

    /// The port of this name.
    pub(super) fn port(&self, name: &str, protocol: u8) -> Option<u16> {
        let protocol = match protocol {
            6 => "tcp",
            17 => "udp",
            33 => "dccp",
            132 => "sctp",
            136 => "udplite",
            _ => return None,
        };
        self.0.get(&(name.to_owned(), protocol.to_owned())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_of_a_protocol() {
        let text = "# x\nhttp\t80/tcp\twww web # World\ndomain 53/udp\nodd 99999/tcp\nodd x\n\nhttp 81/tcp\n";
        let services = Services::parse(text);
        let port = |name, protocol| services.port(name, protocol);
        assert_eq!(
            (port("http", 6), port("web", 6), port("domain", 17)),
            (Some(80), Some(80), Some(53))
        );
        for (name, protocol) in [("http", 17), ("World", 6), ("odd", 6), ("", 6), ("http", 1)] {
            assert_eq!(port(name, protocol), None, "{name}");
        }
    }
}
