//! The capabilities that Spoke's plugins have, by the keys of their arguments in `runtimeConfig` (CNI's conventions).
//! A capability is its constant here, what reads it, and its words in `docs/cni.md`.

/// More names of the container on the network: `skel/capability.rs`.
pub(crate) const ALIASES: &str = "aliases";
/// How much it may send and receive: `plugin/bandwidth.rs`, type `spoke`.
pub(crate) const BANDWIDTH: &str = "bandwidth";
/// The address of its device on a bus: `plugin/device.rs`.
pub(crate) const DEVICE_ID: &str = "deviceID";
/// What it resolves names with: `skel/capability.rs`, type `spoke`.
pub(crate) const DNS: &str = "dns";
/// Where it may go: `plugin/spoke/own_fence.rs`.
pub(crate) const EGRESS: &str = "egress";
/// Whether that holds also while the packet filter is flushed: `plugin/spoke/own_fence.rs`.
pub(crate) const EGRESS_STRICT: &str = "egressStrict";
/// The ranges of the network's addresses: `source/ranges.rs`.
pub(crate) const IP_RANGES: &str = "ipRanges";
/// Its addresses: `source/ranges.rs`, `source/fixed.rs`.
pub(crate) const IPS: &str = "ips";
/// Its hardware address: `plugin/link.rs`, `plugin/tuning.rs`.
pub(crate) const MAC: &str = "mac";
/// The annotations of its pod, as containerd and CRI-O pass them: `plugin/spoke/own_fence.rs`.
pub(crate) const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
/// Ports of the host that lead to it: `plugin/portmap.rs`.
pub(crate) const PORT_MAPPINGS: &str = "portMappings";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 11] = [
        ALIASES,
        BANDWIDTH,
        DEVICE_ID,
        DNS,
        EGRESS,
        EGRESS_STRICT,
        IP_RANGES,
        IPS,
        MAC,
        POD_ANNOTATIONS,
        PORT_MAPPINGS,
    ];

    #[test]
    fn the_manual_names_each() {
        let manual = include_str!("../../../docs/cni.md");
        let about: Vec<&str> =
            manual.split("\n\n").filter(|part| part.contains("apabilit")).collect();
        let is_named = |key: &str| about.iter().any(|part| part.contains(&format!("`{key}`")));
        for key in ALL {
            assert!(is_named(key), "docs/cni.md names no capability {key}");
        }
    }
}
