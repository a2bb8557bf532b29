//! A network of many hosts as one of Podman's: the file that `podman network create -d spoke -o
//! network=NAME NAME` would leave, written by the daemon.

use model::{ENGINE_LABEL, Network, NetworkName};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::DRIVER;
use crate::create::device;

/// Podman's file of the network. `since`: when the network was declared (RFC 3339).
pub fn shared_file(network: &Network, since: &str) -> Value {
    // Podman's own ids are random; this one is the same each time, so that the file is.
    let id = Sha256::digest(format!("{} {since}", network.name));
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let pools = network.ipam.pools();
    // A later block of this host is one more range of the same subnet.
    let firsts = pools.iter().filter_map(|pool| pool.ranges.first());
    let subnets: Vec<Value> =
        firsts.map(|range| json!({"subnet": range.subnet, "gateway": range.gateway})).collect();
    let is_v6 = |pool: &model::Pool| pool.ranges.iter().any(|r| r.subnet.addr().is_ipv6());
    json!({
        "name": network.name,
        "id": id,
        "driver": DRIVER,
        "network_interface": device(network),
        "created": since,
        "subnets": subnets,
        "ipv6_enabled": pools.iter().any(is_v6),
        "internal": false,
        "dns_enabled": false,
        "labels": {ENGINE_LABEL: network.name},
        "options": {"network": network.name},
        "ipam_options": {"driver": DRIVER},
    })
}

/// Whether the daemon wrote a file of a network.
pub fn is_shared(file: &Value, name: &NetworkName) -> bool {
    file["labels"][ENGINE_LABEL] == name.as_str()
}

/// Whether containers on the network of a file are on the one of Spoke's, whichever program wrote it.
pub fn is_joined(file: &Value, name: &NetworkName) -> bool {
    file["driver"] == DRIVER && file["options"]["network"] == name.as_str()
}
