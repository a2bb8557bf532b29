//! Expressions by which a table judges as another firewall does.

use super::super::abi::{DATA_VALUE, EXPRESSION_DATA, EXPRESSION_NAME};
use super::{Answer, Expression, Register};
use crate::wire::Request;

impl Expression<'_> {
    pub(super) fn write_judging(&self, to: &mut Request<'_>) {
        match self {
            // `IP_CT_DIR_ORIGINAL`.
            Expression::Original(part, into) => {
                to.be32(2, part.number()).be32(1, into.number()).attribute(3, &[0]);
            }
            Expression::Range { at, first, last, outside } => {
                to.be32(1, at.number()).be32(2, u32::from(*outside));
                value(to, 3, first);
                value(to, 4, last);
            }
            Expression::Often { set, key, times, seconds, burst } => {
                often(to, set, *key, [*times, *seconds, *burst]);
            }
            // `NFT_DYNSET_OP_ADD`.
            Expression::Note { set, key, seconds } => {
                to.text(1, set).be32(3, 0).be32(4, key.number()).be64(6, milliseconds(*seconds));
            }
            // `NFTA_OBJREF_SET_SREG` and `_SET_NAME`.
            Expression::CountBy { map, key } => {
                to.be32(3, key.number()).text(4, map);
            }
            // `NFT_REJECT_TCP_RST`, or `NFT_REJECT_ICMPX_UNREACH` with `NFT_REJECT_ICMPX_PORT_UNREACH`.
            Expression::Reject(Answer::Reset) => {
                to.be32(1, 1);
            }
            Expression::Reject(Answer::Unreachable) => {
                to.be32(1, 2).attribute(2, &[1]);
            }
            _ => {}
        }
    }
}

fn value(to: &mut Request<'_>, kind: u16, bytes: &[u8]) {
    to.nest(kind, |data| {
        data.attribute(DATA_VALUE, bytes);
    });
}

/// `NFT_DYNSET_OP_UPDATE` with a limit that matches what is over it (`NFT_LIMIT_F_INV`).
fn often(to: &mut Request<'_>, set: &str, key: Register, [times, seconds, burst]: [u32; 3]) {
    to.text(1, set).be32(3, 1).be32(4, key.number());
    // Until as many as ever may come at once.
    let full = seconds.saturating_mul(burst.div_ceil(times.max(1)));
    to.be64(6, milliseconds(full));
    to.nest(7, |limit| {
        limit.text(EXPRESSION_NAME, "limit");
        limit.nest(EXPRESSION_DATA, |data| {
            data.be64(1, u64::from(times)).be64(2, u64::from(seconds));
            data.be32(3, burst).be32(4, 0).be32(5, 1);
        });
    });
}

fn milliseconds(seconds: u32) -> u64 {
    u64::from(seconds).saturating_mul(1000)
}
