//! containerd 1.6: `ctr run --cni`, which calls DEL with an empty netns.

use tests::Containerd;

use crate::stage::{IMAGE, Stage};

const CONFLIST: &str = r#"{"cniVersion": "1.0.0", "name": "ctrnet", "plugins": [
    {"type": "bridge", "bridge": "ctr0", "isGateway": true, "ipMasq": true, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.90.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}]}"#;

#[test]
fn runs_pings_and_leaves_nothing() {
    let stage = Stage::new();
    Containerd::set_up(&stage.world, CONFLIST);
    let cgroup = stage.cgroup.name();
    for round in 0..3 {
        let ping = format!(
            "ctr run --snapshotter native --cni --rm --cgroup {cgroup}/{round} {IMAGE} c{round} \
             /bin/ping -c 1 -W 3 10.90.0.1"
        );
        let said = Containerd::run(&stage.world, &ping);
        assert!(said.contains("1 packets received"), "{said}");
    }
    stage.is_empty_after(&["ctrnet"]);
}
