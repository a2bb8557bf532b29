//! Whether the packet filter has the tables that containers need.

use std::collections::BTreeSet;

use linux::RuleTable;
use model::Attachment;

use crate::check::Check;

/// How many containers a sentence names.
const NAMED: usize = 3;

/// The tables that containers need and the kernel has not, as after `nft flush ruleset` without a daemon. Where the packet
/// filter cannot be read, another check says so.
pub(super) fn checks(
    there: Option<&BTreeSet<RuleTable>>,
    attachments: &[Attachment],
    fix: &str,
) -> Vec<Check> {
    let Some(there) = there else { return Vec::new() };
    let missing = RuleTable::ALL.into_iter().filter(|table| !there.contains(table));
    missing.filter_map(|table| missed(table, attachments, fix)).collect()
}

fn missed(table: RuleTable, attachments: &[Attachment], fix: &str) -> Option<Check> {
    let needing = attachments.iter().filter(|record| table.is_needed_by(record).unwrap_or(false));
    let names: BTreeSet<String> = needing.map(Attachment::container_name).collect();
    if names.is_empty() {
        return None;
    }
    let (name, lost) = (table.table(), lost(table));
    let what = format!("the packet filter has no {name}, and so no {lost} for {}", listed(&names));
    Some(Check::fail(what, fix))
}

fn lost(table: RuleTable) -> &'static str {
    match table {
        RuleTable::Attached => "masquerading, published ports and isolation",
        RuleTable::Egress => "egress rules",
        RuleTable::Senders => "checks of the addresses from which they send",
    }
}

fn listed(names: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
