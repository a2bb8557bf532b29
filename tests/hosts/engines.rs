//! Networks of many hosts in engines: the files by which Podman and CNI know them.

use tests::World;

use crate::bed::{SPOKE, Segment, until};

const PODMANS: &str = "/etc/containers/networks/front.json";
const LIST: &str = "/etc/cni/net.d/front.conflist";

/// The files come once no other has the network's name, stay as long as containers are on the network, are those of
/// the network that the cluster has now, and go with the host's membership.
#[test]
fn files_are_there_as_long_as_the_network_is() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    for host in [&a, &b] {
        host.sh("rm -rf /etc/containers /etc/cni/net.d /var/lib/containers/storage/defaultNetworkBackend
            mkdir -p /etc/containers /etc/cni/net.d");
    }
    let other = "/etc/cni/net.d/10-other.conflist";
    let list = r#"{"cniVersion":"1.0.0","name":"front","plugins":[{"type":"calico"}]}"#;
    b.sh(&format!("printf '%s' '{list}' >{other}"));
    b.spoke("host label b zone=eu");
    a.spoke("network create --hosts zone=eu --in podman,cni --subnet 10.98.0.0/16 front");
    until(
        &b.world,
        &format!("{SPOKE} host ls 2>&1 | grep -q '{other} is of another network front'"),
    );
    b.sh(&format!("[ -s {PODMANS} ] && [ ! -e {LIST} ] && rm {other}"));
    until(&b.world, &format!("[ -s {LIST} ]"));
    assert_eq!(b.sh(&format!("stat -c %a {PODMANS} {LIST}")), "644\n644\n");
    let netns = b.world.netns("box");
    let cni = format!("CNI_PATH=/opt/cni/bin {SPOKE} cni");
    b.sh(&format!("{cni} add front {netns}"));
    a.spoke("host label b --remove zone");
    for kind in ["podman", "cni"] {
        let why = format!("network front is to be removed from {kind}: it stays while containers");
        until(&b.world, &format!("{SPOKE} host ls 2>&1 | grep -q '{why}'"));
    }
    b.sh(&format!("[ -s {PODMANS} ] && [ -s {LIST} ]; {cni} del front {netns}"));
    until_gone(&b.world);
    // The cluster makes it anew while the daemon does not run.
    a.spoke("host label b zone=eu");
    until(&b.world, &format!("grep -q 10.98.0.0/16 {PODMANS} && [ -s {LIST} ]"));
    b.kill();
    a.spoke("network rm front");
    a.spoke("network create --hosts zone=eu --in podman --subnet 10.97.0.0/16 front");
    b.start();
    until(&b.world, &format!("grep -q 10.97.0.0/16 {PODMANS} && [ ! -e {LIST} ]"));
    b.spoke("host remove b");
    until_gone(&b.world);
}

#[track_caller]
fn until_gone(world: &World) {
    until(
        world,
        &format!(
            "! {SPOKE} network inspect front 2>/dev/null && [ ! -e {PODMANS} ] && [ ! -e {LIST} ]"
        ),
    );
}
