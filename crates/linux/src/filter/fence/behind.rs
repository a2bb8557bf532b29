//! What the rules of single containers need to know of the bridge that these are behind.

use model::Result;
use netlink::Socket;
use netlink::nft::{self, Between, Element, Transaction, Tuple};

use super::own::Own;
use super::sets::{SOURCES, TABLE, WITHIN, sources};

/// What its rules need to know of the bridge.
pub(super) fn put(
    socket: &mut Socket,
    transaction: &mut Transaction,
    own: &Own,
    doing: &str,
) -> Result<()> {
    let within = Element::of(Tuple::new().interface(&own.bridge).interface(&own.bridge));
    transaction.ensure_element(TABLE, WITHIN.name, &within, own.about(doing));
    for (set, range) in sources(&own.bridge, &own.gateways) {
        transaction.add_between(TABLE, set, &range, own.about(doing));
    }
    own.reach.put(socket, transaction, (&own.bridge, &|| own.about(doing)))
}

/// Whether that is there of the bridges of all.
pub(super) fn is_kept(socket: &mut Socket, all: &[Own]) -> Result<bool> {
    let mut there = Vec::new();
    for set in SOURCES {
        there.extend(nft::between(socket, TABLE, set.name)?);
    }
    let of = |own: &Own| sources(&own.bridge, &own.gateways);
    let is_there = |(_, range): &(&str, Between)| there.contains(range);
    Ok(all.iter().flat_map(of).all(|it| is_there(&it))
        && super::reach::is_so(socket, all.iter().map(|it| (&it.bridge, &it.reach)))?)
}
