//! The description of a pod: its networks, and its resolver configuration.

use model::{Dns, IfName};
use serde_json::{Value, json};

use crate::pod::{Record, State};

/// The pod's networks in the order of their attachment, as the original's API shows them.
pub fn networks(record: &Record) -> Value {
    let attached = record.attachments.iter().filter_map(|attachment| {
        let State::Added(reply) = &attachment.state else { return None };
        let mut network = reply.to_value();
        network["name"] = json!(attachment.network.name.as_str());
        let interface = attachment.interface.as_ref().map_or("", IfName::as_str);
        network["containerInterface"] = json!(interface);
        Some(network)
    });
    attached.collect()
}

/// The pod as a whole: `uuid`, `netns`, `networks`, `host` where it is in the host's own, and `skipped`
/// where it goes without some.
pub fn pod(record: &Record) -> Value {
    let mut pod = json!({
        "uuid": record.pod.as_str(),
        "netns": record.netns.to_string_lossy(),
        "networks": networks(record),
    });
    if record.is_host {
        pod["host"] = json!(true);
    }
    let skipped = record.without();
    if !skipped.is_empty() {
        let skipped = skipped.iter().map(|(name, why)| json!({"name": name, "error": why}));
        pod["skipped"] = skipped.collect();
    }
    pod
}

/// The text of the pod's resolv.conf(5): what the first of its networks says that says something
/// about it, or else `host`, the host's own.
pub fn resolv(record: &Record, host: &str) -> String {
    let mut answer = record.attachments.iter().filter_map(|attachment| match &attachment.state {
        State::Added(reply) => reply.dns.as_ref(),
        _ => None,
    });
    answer.next().map_or_else(|| host.to_owned(), text)
}

fn text(dns: &Dns) -> String {
    let mut text = String::new();
    let mut line = |key: &str, words: &str| {
        if !words.is_empty() {
            text += &format!("{key} {words}\n");
        }
    };
    line("domain", dns.domain.as_deref().unwrap_or_default());
    line("search", &dns.search.join(" "));
    for server in &dns.nameservers {
        line("nameserver", server);
    }
    line("options", &dns.options.join(" "));
    text
}
