//! WireGuard devices. What they do is set by generic netlink (`crate::wireguard`).

use model::{IfName, Mtu};

use super::make::{created, describe};
use super::{NEW, ifla};
use crate::wire::{Batch, CREATE, EXCLUSIVE};

impl Batch {
    /// Makes a WireGuard device in a group, down; returns the message's index. EEXIST if there is a link of
    /// its name, EOPNOTSUPP where the kernel has no WireGuard.
    pub fn new_wireguard(&mut self, name: &IfName, mtu: Mtu, group: u32) -> usize {
        let mut request = self.request(NEW, CREATE | EXCLUSIVE, format!("making wireguard {name}"));
        request.bytes(&created(None, false));
        describe(&mut request, name, None, Some(mtu));
        request.u32(ifla::GROUP, group).nest(ifla::LINKINFO, |link| {
            link.text(ifla::INFO_KIND, "wireguard");
        });
        self.count() - 1
    }
}
