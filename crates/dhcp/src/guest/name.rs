//! Domain names as in DNS (RFC 1035 §3.1), without compression.

/// These names behind each other; what is no name is left out.
pub(super) fn encode(names: &[String]) -> Vec<u8> {
    names.iter().filter_map(|name| one(name)).flatten().collect()
}

fn one(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        bytes.push(length);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    (bytes.len() <= 255).then_some(bytes)
}
