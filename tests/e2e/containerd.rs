//! containerd 1.6: `ctr run --cni`, which calls DEL with an empty netns.

use crate::stage::{DIR, IMAGE, Stage};

const START: &str = r#"
mkdir -p /run/stage/containerd /etc/cni/net.d
cat >/run/stage/containerd/config.toml <<'CONF'
version = 2
root = "/run/stage/containerd/root"
state = "/run/stage/containerd/state"
[grpc]
  address = "/run/stage/containerd/socket"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  sandbox_image = "docker.io/library/spoke-test:1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
CONF
cd /run/stage/containerd
setsid containerd -c config.toml >log 2>&1 </dev/null &
for i in $(seq 200); do
    ctr version >/dev/null 2>&1 && break
    [ $i -lt 200 ] || { cat log; exit 1; }
    sleep 0.05
done
/run/stage/podman save -q -o image.tar docker.io/library/spoke-test:1
for namespace in default k8s.io; do
    ctr -n $namespace images import --snapshotter native image.tar
done
"#;

impl Stage {
    /// containerd with `conflist` as its only network.
    #[track_caller]
    pub(crate) fn containerd(conflist: &str) -> Self {
        let stage = Self::new();
        stage
            .ctr(&format!("{START}\ncat >/etc/cni/net.d/10-net.conflist <<'NET'\n{conflist}\nNET"));
        stage
    }

    /// A script that finds containerd and its client.
    #[track_caller]
    pub(crate) fn ctr(&self, script: &str) -> String {
        let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/peers/containerd");
        let socket = format!("{DIR}/containerd/socket");
        self.world.sh(&format!("export PATH={peers}:$PATH CONTAINERD_ADDRESS={socket}\n{script}"))
    }
}

const CONFLIST: &str = r#"{"cniVersion": "1.0.0", "name": "ctrnet", "plugins": [
    {"type": "bridge", "bridge": "ctr0", "isGateway": true, "ipMasq": true, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.90.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}]}"#;

#[test]
fn runs_pings_and_leaves_nothing() {
    let stage = Stage::containerd(CONFLIST);
    let cgroup = stage.cgroup.name();
    for round in 0..3 {
        let said = stage.ctr(&format!(
            "ctr run --snapshotter native --cni --rm --cgroup {cgroup}/{round} {IMAGE} c{round} \
             /bin/ping -c 1 -W 3 10.90.0.1"
        ));
        assert!(said.contains("1 packets received"), "{said}");
    }
    stage.is_empty_after(&["ctrnet"]);
}
