# Starts containerd with every file of its own below /run/stage, and Podman's image in it.
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
