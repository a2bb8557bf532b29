//! The contents of a hosts file (hosts(5)).

use std::collections::BTreeSet;
use std::fmt::Write;

use model::{Attachment, HostName};

/// The beginning of each hosts file of libnetwork's.
const ITSELF: &str = "127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::\tip6-localnet
ff00::\tip6-mcastprefix
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
";

/// The hosts file of a namespace with these attachments: itself, and the others on its networks.
pub(super) fn hosts(members: &[&Attachment], all: &[Attachment]) -> String {
    let networks: BTreeSet<_> = members.iter().map(|member| &member.id.network).collect();
    let own: BTreeSet<_> = members.iter().map(|member| &member.id).collect();
    let mut others: Vec<&Attachment> = all
        .iter()
        .filter(|other| networks.contains(&other.id.network) && !own.contains(&other.id))
        .collect();
    others.sort_by_key(|other| &other.id);
    let mut text = ITSELF.to_owned();
    for attachment in members.iter().copied().chain(others) {
        let Some(names) = names(attachment) else { continue };
        for held in &attachment.addresses {
            // Writing to a string fails never.
            let _ = writeln!(text, "{}\t{names}", held.address.addr());
        }
    }
    text
}

/// The container's name on the network; not every container's id is a host name.
fn names(attachment: &Attachment) -> Option<String> {
    let owner = attachment.container_name().parse::<HostName>().ok();
    let mut names: Vec<HostName> = owner.into_iter().collect();
    for name in &attachment.names {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let words: Vec<&str> = names.iter().map(HostName::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}
