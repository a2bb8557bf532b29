//! libcni is in Podman 4 too: what it attached we find, and what we detached it does not miss.

use tests::{Plugins, Podman};

use crate::{SPOKE, world};

const LIST: &str = r#"{"cniVersion": "0.4.0", "name": "net", "plugins": [
    {"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local",
        "ranges": [[{"subnet": "10.78.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;

#[test]
fn shares_its_cache_with_libcni() {
    let world = world(&Plugins::previous());
    Podman::set_up(&world);
    let directory = Podman::DIR;
    let image = Podman::IMAGE;
    world.sh(&format!(
        "mkdir -p {directory}/net.d; cat >{directory}/net.d/net.conflist <<'L'\n{LIST}\nL"
    ));
    let podman = format!("{directory}/podman");
    world.sh(&format!("{podman} run -d --name c1 --network net {image} sleep 1000"));
    let listed = world.sh(&format!("{SPOKE} cni attachments"));
    assert!(listed.contains("10.78.0.2/24"), "{listed}");
    let id = world.sh(&format!("{podman} inspect -f '{{{{.Id}}}}' c1"));
    let id = id.trim();
    let environment = format!("export NETCONFPATH={directory}/net.d CNI_PATH=/opt/cni/bin");
    world.sh(&format!("{environment}; {SPOKE} cni check net --container {id}"));
    world.sh(&format!("{environment}; {SPOKE} cni del net --container {id}"));
    assert!(!world.sh(&format!("{SPOKE} cni attachments")).contains("10.78.0.2"));
    world.sh(&format!("{podman} rm -f -t 0 c1"));
    assert_eq!(world.sh("find /var/lib/cni/networks/net -name '10.*'"), "");
}
