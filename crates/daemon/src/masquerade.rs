//! The addresses of this host that networks name for their packets to leave with: reported where the host loses one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use host::event::{Event, What};
use host::time;
use model::{Network, NetworkName, Result};

use super::Daemon;

/// Those that the host does not have.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    reported: Missing,
    failed: bool,
}

/// What becomes of the packets of networks, by what these are called and the missing address.
type Missing = BTreeMap<(NetworkName, IpAddr), String>;

impl Unanswered {
    /// Looks at the addresses of all networks, also of those that only a file describes, and reports what has changed since
    /// the last time.
    pub(super) fn compare(&mut self, daemon: &Daemon, networks: &[Network]) {
        match found(networks) {
            Ok(found) => {
                self.failed = false;
                for message in self.changes(found) {
                    daemon.journal.report(&Event::new(What::Other, time::now(), message));
                }
            }
            Err(error) if !self.failed => {
                self.failed = true;
                daemon.journal.failed("looking for the addresses that networks leave with", &error);
            }
            Err(_) => {}
        }
    }

    fn changes(&mut self, found: Missing) -> Vec<String> {
        let is_new = |key: &(NetworkName, IpAddr)| !self.reported.contains_key(key);
        let new = found.iter().filter(|(key, _)| is_new(key)).map(|(_, what)| what.clone());
        let over = self.reported.keys().filter(|key| !found.contains_key(key)).map(
            |(network, address)| {
                format!(
                    "packets of network {network} do not leave with a missing {address} any more"
                )
            },
        );
        let messages = new.chain(over).collect();
        self.reported = found;
        messages
    }
}

fn found(networks: &[Network]) -> Result<Missing> {
    let missing = linux::masquerade::unanswered(networks)?.into_iter();
    Ok(missing.map(|it| ((it.network, it.address), it.what)).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_and_each_return_is_reported_once() {
        let mut unanswered = Unanswered::default();
        let of = |addresses: &[&str]| -> Missing {
            let one = |address: &&str| {
                (("vpn".parse().unwrap(), address.parse().unwrap()), format!("lost {address}"))
            };
            addresses.iter().map(one).collect()
        };
        assert_eq!(unanswered.changes(of(&["192.0.2.1"])), ["lost 192.0.2.1"]);
        assert!(unanswered.changes(of(&["192.0.2.1"])).is_empty());
        assert_eq!(
            unanswered.changes(of(&["fd00::1"])),
            [
                "lost fd00::1",
                "packets of network vpn do not leave with a missing 192.0.2.1 any more"
            ]
        );
    }
}
