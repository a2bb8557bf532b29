//! The plugin as netavark calls it.

use serde_json::{Value, json};
use tests::{Output, Plugins, World};

/// The document of `setup` and `teardown` for a container on a network.
pub(crate) fn exec(container: &str) -> Value {
    json!({
        "container_id": container, "container_name": container,
        "port_mappings": [{
            "container_port": 80, "host_ip": "", "host_port": 18080, "protocol": "tcp", "range": 1,
        }],
        "network": {
            "dns_enabled": false, "driver": "spoke", "id": "00", "internal": false,
            "ipv6_enabled": false, "name": "front", "network_interface": "sp-front",
            "options": {"sticky": "false"}, "ipam_options": {"driver": "spoke"},
            "subnets": [{"subnet": "10.89.7.0/24", "gateway": "10.89.7.1"}],
            "routes": null, "network_dns_servers": null,
        },
        "network_options": {
            "aliases": null, "interface_name": "eth0", "static_ips": null, "static_mac": null,
        },
    })
}

/// Calls the plugin, as the argument of `over`.
pub(crate) fn call(world: &World, over: &str, arguments: &str, document: &Value) -> Output {
    let plugin = format!("{}/spoke", Plugins::MOUNT);
    world.try_sh(&format!("{over} {plugin} {arguments} <<'JSON'\n{document}\nJSON"))
}
