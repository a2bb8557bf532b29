//! Marks what bridges only switch, statement for statement as `switched.nft` says.

use std::borrow::Cow;

use model::{Kind, Result};
use netlink::Socket;
use netlink::nft::{Base, ChainKind, Expression, Family, Hook, Meta, Policy, Table};

use super::rules::{is_switched, mark, unmark};
use crate::filter::rules::{R, Steps};
use crate::filter::ruleset::Ruleset;

/// The table.
pub(super) const TABLE: Table<'static> = Table { family: Family::Bridge, name: "spoke_via" };
/// The version, as in `inet spoke`.
const STAMP: &str = "switched_1";
/// `PACKET_OTHERHOST` (`linux/if_packet.h`).
const TO_ANOTHER: u8 = 3;

/// The table.
pub(super) fn ruleset() -> Ruleset {
    let at = |priority| {
        let (kind, hook, policy) = (ChainKind::Filter, Hook::Prerouting, Policy::Accept);
        Some(Base { kind, hook, priority, policy })
    };
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: Vec::new(),
        chains: vec![(STAMP, None), ("before", at(-1)), ("after", at(1))],
        rules: vec![("before", before()), ("after", after())],
    }
}

/// Makes the table what it should be; whether it was not. A kernel that has no packet filter of bridges has none:
/// what its bridges switch is judged as what is routed.
pub(super) fn keep(socket: &mut Socket) -> Result<bool> {
    let ruleset = ruleset();
    if ruleset.verify(socket).is_ok() {
        return Ok(false);
    }
    match ruleset.reload(socket) {
        Err(error) if error.kind() == Kind::Unsupported => Ok(false),
        reloaded => reloaded.map(|()| true),
    }
}

fn to_another() -> Steps {
    vec![Expression::Meta(Meta::PacketType, R), Expression::Equal(R, Cow::Borrowed(&[TO_ANOTHER]))]
}

/// A mark of others stays.
fn before() -> Steps {
    let without = vec![
        Expression::Meta(Meta::Mark, R),
        Expression::Equal(R, Cow::Borrowed(&[0; 4])),
        mark(),
        Expression::SetMark(R),
    ];
    [to_another(), without].concat()
}

fn after() -> Steps {
    unmark([to_another(), is_switched()].concat())
}
