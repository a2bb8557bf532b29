//! Expressions about marks, and about a packet's route.

use super::super::abi::DATA_VALUE;
use super::super::object::Family;
use super::{Expression, Meta};
use crate::wire::Request;

/// `TCPOPT_MAXSEG`.
const MAXIMUM_SEGMENT: u8 = 2;

impl Expression<'_> {
    /// Marks, and what a packet's route says.
    pub(super) fn write_of_route(&self, to: &mut Request<'_>) {
        match self {
            Expression::Load(into, value) => {
                to.be32(1, into.number());
                to.nest(2, |data| {
                    data.attribute(DATA_VALUE, value);
                });
            }
            // `NFT_META_MARK` and `NFT_CT_MARK`, from a register.
            Expression::SetMark(from) => {
                to.be32(2, Meta::Mark.number()).be32(3, from.number());
            }
            Expression::SetConnectionMark(from) => {
                to.be32(2, 3).be32(4, from.number());
            }
            // `NFT_RT_NEXTHOP4`, `_NEXTHOP6` and `_TCPMSS`.
            Expression::NextHop(family, into) => {
                let key = if *family == Family::Ipv6 { 2 } else { 1 };
                to.be32(2, key).be32(1, into.number());
            }
            Expression::RouteSegment(into) => {
                to.be32(2, 3).be32(1, into.number());
            }
            // `NFT_BYTEORDER_HTON`.
            Expression::NetworkOrder(at, bytes) => {
                to.be32(1, at.number()).be32(2, at.number()).be32(3, 1);
                to.be32(4, *bytes).be32(5, *bytes);
            }
            // `NFT_EXTHDR_OP_TCPOPT`, two bytes behind kind and length of the option.
            Expression::LimitSegment(from) => {
                to.u8(2, MAXIMUM_SEGMENT).be32(3, 2).be32(4, 2);
                to.be32(6, 1).be32(7, from.number());
            }
            _ => {}
        }
    }
}
