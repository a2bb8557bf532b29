//! The host's connected subnets, as far as published ports are for them only.

use std::net::IpAddr;

use model::{IpNet, Result};
use netlink::Socket;
use netlink::nft::{self, Interval, Transaction};

use super::ruleset::{self, LAN, TABLE};

/// Lets these subnets reach the ports that are published for the LAN, and no others. Where they do
/// already, nothing is changed.
///
/// # Errors
/// As [`Transaction::apply`], and as [`super::ensure`].
pub fn set_lan(socket: &mut Socket, subnets: &[IpNet]) -> Result<()> {
    ruleset::ensure(socket)?;
    let mut transaction = Transaction::new();
    for (set, is_v4) in LAN.iter().zip([true, false]) {
        let ours = subnets.iter().filter(|net| net.addr().is_ipv4() == is_v4).map(interval);
        let wanted = Interval::merge(ours.collect());
        if nft::intervals(socket, TABLE, set.name)? == wanted {
            continue;
        }
        transaction.clear_set(TABLE, set.name);
        for interval in &wanted {
            let Interval { first, last } = interval;
            let about = format!("adding {first}-{last} ({} of {TABLE})", set.name);
            transaction.add_interval(TABLE, set.name, interval, about);
        }
    }
    transaction.apply(socket)
}

pub(super) fn interval(net: &IpNet) -> Interval {
    let last = match net {
        IpNet::V4(v4) => IpAddr::V4(v4.broadcast()),
        IpNet::V6(v6) => IpAddr::V6(v6.broadcast()),
    };
    Interval { first: net.network(), last }
}
