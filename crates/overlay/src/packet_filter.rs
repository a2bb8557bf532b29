//! What the packet filters of the VXLAN port and of routed networks have in common.

use model::{Kind, Result};
use netlink::nft::{Base, ChainKind, Expression, Hook, Policy, Register};

/// Where the source and the destination are in the headers of IPv4 (RFC 791 §3.1) and IPv6 (RFC 8200 §3).
pub(crate) const SOURCE: [u32; 2] = [12, 8];
pub(crate) const DESTINATION: [u32; 2] = [16, 24];
/// How long an address is, in bytes.
const LENGTH: [u32; 2] = [4, 16];
/// Before connection tracking's users, and before Spoke's own chains.
const PRIORITY: i32 = -150;

/// Of a table whether it was found as it is made.
pub(crate) fn is_as_made(verified: Result<()>) -> Result<bool> {
    match verified {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A chain that sees packets before connection tracking's users do.
pub(crate) fn base(hook: Hook) -> Base {
    Base { kind: ChainKind::Filter, hook, priority: PRIORITY, policy: Policy::Accept }
}

/// Reads the address that is at this offset of its family's header.
pub(crate) fn address(ip: usize, offset: [u32; 2], into: Register) -> Expression<'static> {
    Expression::Network { offset: offset[ip], length: LENGTH[ip], into }
}
