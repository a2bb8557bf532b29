//! The table `inet spoke_shut`, which withdraws published ports while another program keeps removing
//! `inet spoke_follow`: without that one they would be open to everybody between each removal and its repair.
//!
//! ```text
//! table inet spoke_shut {
//!     set behind { type ifname }          # as in inet spoke_follow
//!     chain forward {
//!         type filter hook forward priority filter - 11; policy accept;
//!         ct status dnat ct state new oifgroup 1936748395 drop
//!         ct status dnat ct state new oifname @behind drop
//!     }
//! }
//! ```

use std::collections::BTreeSet;

use model::{IfName, Result};
use netlink::Socket;
use netlink::nft::{self, Expression, Family, RulePosition, Table, Transaction, Verdict};

use super::behind::behind;
use super::table::{BASE, BEHIND, entering};

/// The table.
pub const SHUT: Table<'static> = Table { family: Family::Inet, name: "spoke_shut" };
const CHAIN: &str = "forward";

/// Withdraws published ports, also behind the interfaces `known`: nothing new comes to them, and connections
/// that exist go on.
///
/// # Errors
/// Where the process may not change the packet filter.
pub fn shut(socket: &mut Socket, known: &BTreeSet<IfName>) -> Result<()> {
    let behind = behind(socket, known)?;
    let mut transaction = Transaction::new();
    transaction.replace_table(SHUT, None);
    transaction.add_set(SHUT, &BEHIND);
    for element in &behind {
        let about = format!("adding an interface to {SHUT}");
        transaction.ensure_element(SHUT, BEHIND.name, element, about);
    }
    transaction.add_chain(SHUT, CHAIN, Some(&BASE), false);
    for mut steps in entering() {
        steps.push(Expression::Verdict(Verdict::Drop));
        transaction.add_rule(SHUT, CHAIN, RulePosition::Tail, &steps);
    }
    transaction.commit(socket)?.into_result()
}

/// Ends that. What is gone is no error.
///
/// # Errors
/// Where the process may not change the packet filter.
pub fn open(socket: &mut Socket) -> Result<()> {
    if !is_shut(socket)? {
        return Ok(());
    }
    nft::remove_table(socket, SHUT)
}

/// Whether published ports are withdrawn.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_shut(socket: &mut Socket) -> Result<bool> {
    nft::chain_exists(socket, SHUT, CHAIN)
}
