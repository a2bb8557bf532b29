//! What is done with a cluster: hosts join and leave, networks are declared, blocks are taken,
//! addresses are pinned, endpoints are published.

mod authority;
mod block;
mod certificate;
mod joining;
mod kept_address;
mod layout;
mod member;
mod network;
mod pin;
mod publish;
#[cfg(test)]
mod tests;
mod tunnel;
mod unanswered;

pub use authority::{
    abandon_rotation, advance_rotation, begin_rotation, is_trusted_by_none, leave_out, needs_next,
    refuse_rotation, refuse_while_rotating, rotating, unconfirmed,
};
pub use block::{claim_block, give_up_block, keep_block};
pub use certificate::{
    Certified, certify, certify_again, forget_server, forget_servers, is_past, prune, put_server,
    revoke_strays,
};
pub use joining::{Joined, Shown, create_token, join, join_with, refuse_token, remove_token};
pub use kept_address::{KeptAddress, Written, answer_kept, kept_elsewhere, publish_kept};
pub use layout::{raise_layout, refuse_other_layout};
pub use member::{change_host, form, has_remains, refuse_removal, remove_host};
pub use network::{
    Declared, Subnet6, Subnets, declare, refuse, refuse_hosts_own, refuse_unclaimed,
    refuse_unknown, remove_network,
};
pub use pin::{PinRequest, Pinning, answer_pin, asked_at, call_pin, is_called, pin, unpin};
pub use publish::{be_alive, publish};
pub use tunnel::{forget_key, publish_key, rotate_keys};

/// How often a transaction is tried again that others were faster than.
const RACES: usize = 50;
