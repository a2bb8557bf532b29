//! Whether what containers behind a bridge send is still checked: names open nothing before it is.

use std::collections::BTreeSet;

use model::{IfName, Result};
use netlink::{Socket, nft};

use super::strict::{BoundPort, bind};
use crate::filter::spoof;

/// The bridges whose containers' ports have been checked since the table that checks them was made. A flush of the
/// packet filter removes that table, and who makes it again for one container does not know the others: until all
/// ports of a bridge are back, one could use what a name opens for its neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The table's number in the kernel, which no later one has.
    table: Option<u64>,
    bridges: BTreeSet<IfName>,
}

impl Checked {
    /// Whether the ports of a bridge are.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn has(&mut self, socket: &mut Socket, bridge: &IfName) -> Result<bool> {
        let table = nft::table_handle(socket, spoof::TABLE)?;
        if table != self.table {
            *self = Self { table, bridges: BTreeSet::new() };
        }
        Ok(self.bridges.contains(bridge))
    }

    /// Has the ports of a bridge checked, which are among these.
    ///
    /// # Errors
    /// Where one of them cannot be: nothing may be opened behind the bridge then.
    pub fn check(
        &mut self,
        socket: &mut Socket,
        bridge: &IfName,
        ports: &[BoundPort],
    ) -> Result<()> {
        let of_bridge = ports.iter().filter(|port| port.bridge() == bridge).cloned();
        let of_bridge: Vec<BoundPort> = of_bridge.collect();
        let before = nft::table_handle(socket, spoof::TABLE)?;
        if let Some((_, error)) = bind(socket, &of_bridge).into_iter().next() {
            return Err(error);
        }
        // Another flush may have come between two ports. The first port makes the table where there is none, and
        // what is made so is looked at again.
        self.has(socket, bridge)?;
        if self.table == before {
            self.bridges.insert(bridge.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use netlink::Socket;

    use super::super::strict::tests::sender;
    use super::*;
    use crate::filter::tests::space::Space;

    #[test]
    fn a_bridge_is_checked_until_the_table_is_gone() {
        let (space, sender) = (Space::new(), sender());
        let mut socket = space.netns.enter(Socket::netfilter).unwrap().unwrap();
        let bridge = sender.bridge.clone();
        let ports = [BoundPort::from(sender.clone())];
        let is_bound = |socket: &mut Socket| spoof::are_bound(socket, &[&sender]).unwrap();
        let mut checked = Checked::default();
        assert!(!checked.has(&mut socket, &bridge).unwrap());
        while !checked.has(&mut socket, &bridge).unwrap() {
            checked.check(&mut socket, &bridge, &ports).unwrap();
        }
        assert!(is_bound(&mut socket));
        let other = "br1".parse().unwrap();
        assert!(!checked.has(&mut socket, &other).unwrap());
        for gone in ["nft flush ruleset", "nft delete table bridge spoke"] {
            space.run(gone);
            // Who comes meanwhile makes the table again, and nothing of the others.
            let came = "nft add table bridge spoke";
            space.run(came);
            assert!(!checked.has(&mut socket, &bridge).unwrap(), "{gone}");
            assert!(!is_bound(&mut socket), "{gone}");
            while !checked.has(&mut socket, &bridge).unwrap() {
                checked.check(&mut socket, &bridge, &ports).unwrap();
            }
            assert!(is_bound(&mut socket), "{gone}");
        }
    }

    #[test]
    fn without_ports_nothing_is_missing() {
        let space = Space::new();
        let mut socket = space.netns.enter(Socket::netfilter).unwrap().unwrap();
        let bridge = "br0".parse().unwrap();
        let mut checked = Checked::default();
        checked.check(&mut socket, &bridge, &[]).unwrap();
        assert!(checked.has(&mut socket, &bridge).unwrap());
    }
}
