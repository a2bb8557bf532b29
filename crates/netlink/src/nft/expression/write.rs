//! How expressions are written: the kernel's name and attributes of each.

use super::super::abi::{
    DATA_VALUE, DATA_VERDICT, EXPRESSION_DATA, EXPRESSION_NAME, LIST_ELEMENT, VERDICT_CHAIN,
    VERDICT_CODE,
};
use super::{Conntrack, Expression, Meta, Register, Verdict};
use crate::wire::Request;

/// Of the destination port, in the headers of all protocols that have one.
const PORT_OFFSET: u32 = 2;
/// `NFT_PAYLOAD_NETWORK_HEADER`.
const NETWORK: u32 = 1;
/// `NFT_PAYLOAD_LL_HEADER`, and where the source is in an Ethernet header.
const LINK: u32 = 0;
const SOURCE_OFFSET: u32 = 6;
const TYPE_OFFSET: u32 = 12;
/// `NFT_PAYLOAD_TRANSPORT_HEADER`.
const TRANSPORT: u32 = 2;

impl Expression<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Expression::Meta(..) => "meta",
            Expression::Network { .. }
            | Expression::Transport { .. }
            | Expression::EthernetDestination(_)
            | Expression::EthernetSource(_)
            | Expression::EthernetType(_)
            | Expression::DestinationPort(_) => "payload",
            Expression::Conntrack(..) | Expression::Original(..) => "ct",
            Expression::DestinationType(_)
            | Expression::SourceType(_)
            | Expression::ReturnPath(_)
            | Expression::ForwardPath(_) => "fib",
            Expression::Mask(..) => "bitwise",
            Expression::Equal(..) | Expression::Unequal(..) => "cmp",
            Expression::Range { .. } => "range",
            Expression::Often { .. } | Expression::Note { .. } => "dynset",
            Expression::Reject(_) => "reject",
            Expression::In(..) | Expression::NotIn(..) | Expression::Map { .. } => "lookup",
            Expression::DestinationNat { .. } | Expression::SourceNat { .. } => "nat",
            Expression::Masquerade => "masq",
            Expression::NotTracked => "notrack",
            Expression::Counter => "counter",
            Expression::CountBy { .. } => "objref",
            Expression::Limit { .. } => "limit",
            Expression::Log { .. } => "log",
            Expression::Extension { .. } => "match",
            Expression::Verdict(_) | Expression::Load(..) => "immediate",
            Expression::SetMark(_) => "meta",
            Expression::SetConnectionMark(_) => "ct",
            Expression::NextHop(..) | Expression::RouteSegment(_) => "rt",
            Expression::LimitSegment(_) => "exthdr",
            Expression::NetworkOrder(..) => "byteorder",
        }
    }

    /// What is loaded into a register, or set, in numbers of the kernel; `None` for the name of an interface, and for
    /// steps that load nothing.
    pub(crate) fn loaded(&self) -> Option<[u32; 3]> {
        Some(match self {
            Expression::Meta(Meta::InputName | Meta::OutputName, _) => return None,
            Expression::Meta(key, _) => [key.number(), 0, 0],
            Expression::SetMark(_) => [Meta::Mark.number(), 1, 0],
            Expression::Conntrack(key, _) => [key.number(), 0, 0],
            Expression::Original(part, _) => [part.number(), 0, 0],
            Expression::SetConnectionMark(_) => [Conntrack::Mark.number(), 1, 0],
            Expression::Network { offset, length, .. } => [NETWORK, *offset, *length],
            Expression::Transport { offset, length, .. } => [TRANSPORT, *offset, *length],
            Expression::EthernetDestination(_) => [LINK, 0, 6],
            Expression::EthernetSource(_) => [LINK, SOURCE_OFFSET, 6],
            Expression::EthernetType(_) => [LINK, TYPE_OFFSET, 2],
            Expression::DestinationPort(_) => [TRANSPORT, PORT_OFFSET, 2],
            Expression::DestinationType(_) => [ADDRESS_TYPE, DESTINATION, 0],
            Expression::SourceType(_) => [ADDRESS_TYPE, SOURCE, 0],
            Expression::ReturnPath(_) => [OUT_DEVICE, SOURCE | IN_DEVICE, 0],
            Expression::ForwardPath(_) => [OUT_DEVICE, DESTINATION | IN_DEVICE, 0],
            _ => return None,
        })
    }

    /// Appends this one to a list of expressions.
    pub(crate) fn write(&self, list: &mut Request<'_>) {
        list.nest(LIST_ELEMENT, |expression| {
            expression.text(EXPRESSION_NAME, self.name());
            expression.nest(EXPRESSION_DATA, |data| self.write_data(data));
        });
    }

    fn write_data(&self, to: &mut Request<'_>) {
        match self {
            Expression::Meta(key, into) => {
                to.be32(2, key.number()).be32(1, into.number());
            }
            Expression::Network { offset, length, into } => {
                payload(to, NETWORK, [*offset, *length], *into);
            }
            Expression::Transport { offset, length, into } => {
                payload(to, TRANSPORT, [*offset, *length], *into);
            }
            Expression::EthernetDestination(into) => payload(to, LINK, [0, 6], *into),
            Expression::EthernetSource(into) => payload(to, LINK, [SOURCE_OFFSET, 6], *into),
            Expression::EthernetType(into) => payload(to, LINK, [TYPE_OFFSET, 2], *into),
            Expression::DestinationPort(into) => payload(to, TRANSPORT, [PORT_OFFSET, 2], *into),
            Expression::Conntrack(key, into) => {
                to.be32(2, key.number()).be32(1, into.number());
            }
            Expression::Original(..)
            | Expression::Range { .. }
            | Expression::Often { .. }
            | Expression::Note { .. }
            | Expression::CountBy { .. }
            | Expression::Reject(_) => self.write_judging(to),
            Expression::Load(..)
            | Expression::SetMark(_)
            | Expression::SetConnectionMark(_)
            | Expression::NextHop(..)
            | Expression::RouteSegment(_)
            | Expression::NetworkOrder(..)
            | Expression::LimitSegment(_) => self.write_of_route(to),
            Expression::DestinationType(into) => fib(to, ADDRESS_TYPE, DESTINATION, *into),
            Expression::SourceType(into) => fib(to, ADDRESS_TYPE, SOURCE, *into),
            Expression::ReturnPath(into) => fib(to, OUT_DEVICE, SOURCE | IN_DEVICE, *into),
            Expression::ForwardPath(into) => fib(to, OUT_DEVICE, DESTINATION | IN_DEVICE, *into),
            Expression::Mask(register, mask) => bitwise(to, *register, mask),
            Expression::Equal(register, value) => compare(to, *register, 0, value),
            Expression::Unequal(register, value) => compare(to, *register, 1, value),
            Expression::In(set, key) => {
                to.text(1, set).be32(2, key.number());
            }
            Expression::NotIn(set, key) => {
                to.text(1, set).be32(2, key.number()).be32(5, 1);
            }
            Expression::Map { name, key, into } => {
                to.text(1, name).be32(2, key.number()).be32(3, into.number());
            }
            Expression::DestinationNat { .. } | Expression::SourceNat { .. } => {
                self.write_translation(to);
            }
            Expression::Masquerade | Expression::NotTracked => {}
            Expression::Counter => {
                to.be64(1, 0).be64(2, 0);
            }
            // `NFT_LIMIT_PKTS`, in one second.
            Expression::Limit { per_second, burst } => {
                to.be64(1, u64::from(*per_second)).be64(2, 1).be32(3, *burst).be32(4, 0);
            }
            Expression::Log { group, prefix, length } => {
                to.be16(1, *group).text(2, prefix).be32(3, *length).be16(4, 1);
            }
            Expression::Extension { name, revision, info } => {
                to.text(1, name).be32(2, *revision).attribute(3, info);
            }
            Expression::Verdict(verdict) => immediate(to, *verdict),
        }
    }

    fn write_translation(&self, to: &mut Request<'_>) {
        match self {
            Expression::DestinationNat { family, address, port } => {
                // `NFT_NAT_DNAT`.
                to.be32(1, 1).be32(2, u32::from(family.number()));
                to.be32(3, address.number()).be32(5, port.number());
            }
            Expression::SourceNat { family, address } => {
                // `NFT_NAT_SNAT`.
                to.be32(1, 0).be32(2, u32::from(family.number())).be32(3, address.number());
            }
            _ => {}
        }
    }
}

fn payload(to: &mut Request<'_>, base: u32, [offset, length]: [u32; 2], into: Register) {
    to.be32(1, into.number()).be32(2, base).be32(3, offset).be32(4, length);
}

fn bitwise(to: &mut Request<'_>, register: Register, mask: &[u8]) {
    let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
    to.be32(1, register.number()).be32(2, register.number()).be32(3, length);
    to.nest(4, |data| {
        data.attribute(DATA_VALUE, mask);
    });
    to.nest(5, |data| {
        data.attribute(DATA_VALUE, &vec![0; mask.len()]);
    });
}

fn compare(to: &mut Request<'_>, register: Register, operator: u32, value: &[u8]) {
    to.be32(1, register.number()).be32(2, operator);
    to.nest(3, |data| {
        data.attribute(DATA_VALUE, value);
    });
}

/// `NFT_REG_VERDICT` is register zero.
fn immediate(to: &mut Request<'_>, verdict: Verdict<'_>) {
    to.be32(1, 0);
    to.nest(2, |data| {
        data.nest(DATA_VERDICT, |inner| {
            inner.attribute(VERDICT_CODE, &verdict.code().to_be_bytes());
            if let Verdict::Jump(chain) | Verdict::Goto(chain) = verdict {
                inner.text(VERDICT_CHAIN, chain);
            }
        });
    });
}

/// `NFT_FIB_RESULT_OIF`.
const OUT_DEVICE: u32 = 1;
/// `NFT_FIB_RESULT_ADDRTYPE`.
const ADDRESS_TYPE: u32 = 3;
/// `NFTA_FIB_F_SADDR`.
const SOURCE: u32 = 1;
/// `NFTA_FIB_F_DADDR`.
const DESTINATION: u32 = 2;
/// `NFTA_FIB_F_IIF`.
const IN_DEVICE: u32 = 8;

/// What the kernel's routes say of the addresses and devices that `flags` name.
fn fib(to: &mut Request<'_>, result: u32, flags: u32, into: Register) {
    to.be32(3, flags).be32(2, result).be32(1, into.number());
}
