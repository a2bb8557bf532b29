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

/// Writes on DEL what it read, below `/run/record`.
const RECORDER: &str = r#"#!/usr/bin/python3
import json, os, sys
given = json.load(sys.stdin)
if os.environ["CNI_COMMAND"] == "DEL":
    json.dump(given, open("/run/record/given", "w"))
if os.environ["CNI_COMMAND"] == "VERSION":
    print('{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}')
if os.environ["CNI_COMMAND"] == "ADD":
    print(json.dumps(given["prevResult"]))
"#;

const RECORDED: &str = r#"{"cniVersion": "1.0.0", "name": "net", "plugins": [
    {"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local",
        "ranges": [[{"subnet": "10.79.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "tuning", "mtu": 1300},
    {"type": "record"}]}"#;

/// What we attached libcni finds, and detaches with the result that we kept; with plugins 1.9.
#[test]
fn libcni_detaches_what_we_attached() {
    let world = world(&Plugins::reference());
    Podman::set_up(&world);
    let (directory, image) = (Podman::DIR, Podman::IMAGE);
    std::fs::create_dir(world.path("/run/record")).unwrap();
    std::fs::write(world.path("/run/record/record"), RECORDER).unwrap();
    world.sh(&format!(
        "chmod +x /run/record/record
         sed -i 's|\"/opt/cni/bin\"|\"/opt/cni/bin\", \"/run/record\"|' {directory}/containers.conf
         cat >{directory}/net.d/net.conflist <<'L'\n{RECORDED}\nL"
    ));
    let podman = format!("{directory}/podman");
    world.sh(&format!("{podman} run -d --name c1 --network net {image} sleep 1000"));
    let inspect = |what: &str| {
        world.sh(&format!("{podman} inspect -f '{{{{{what}}}}}' c1")).trim().to_owned()
    };
    let (id, netns) = (inspect(".Id"), inspect(".NetworkSettings.SandboxKey"));
    let environment =
        format!("export NETCONFPATH={directory}/net.d CNI_PATH=/opt/cni/bin:/run/record");
    world.sh(&format!("{environment}; {SPOKE} cni del net --container {id}"));
    // Of ours another address, so that what libcni sends is distinguishable.
    let made = world.sh(&format!(
        "{environment}; printf 10.79.0.9 >/var/lib/cni/networks/net/last_reserved_ip.0
         {SPOKE} cni add net {netns} --container {id}"
    ));
    let has = world.sh(&format!("nsenter --net={netns} ip address show dev eth0"));
    assert!(has.contains("10.79.0.10/24"), "{made}{has}");
    world.sh(&format!("{podman} rm -f -t 0 c1"));
    let reported: serde_json::Value =
        serde_json::from_str(&world.sh("cat /run/record/given")).expect("a configuration");
    assert_eq!(reported["prevResult"]["ips"][0]["address"], "10.79.0.10/24", "{reported}");
    assert_eq!(world.sh("find /var/lib/cni/networks/net -name '10.*'"), "");
    assert_eq!(world.sh("ls /var/lib/cni/results"), "");
    assert_eq!(world.sh("ip -o link show type veth"), "");
}
