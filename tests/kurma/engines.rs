//! N: the plugins' containers by OCI runtimes, as the host's configuration says.

use serde_json::json;
use tests::kurma::Kurma;

use crate::U;

#[test]
fn n_by_an_oci_runtime() {
    // The runtimes name cgroups of the real host after it.
    let name = format!("oci-{}", std::process::id());
    for engine in ["runc", "crun"] {
        let kurma = Kurma::new(&json!([Kurma::spy(&name, &json!({}))]));
        kurma.configure(&format!("engine = \"{engine}\""));
        // crun takes cgroups of one version only, and this host may have both.
        let is_so = "[ $(stat -f -c %T /sys/fs/cgroup) = cgroup2fs ]";
        kurma.world.sh(&format!("{is_so} || mount -t cgroup2 none /sys/fs/cgroup"));
        kurma.kurma(&format!("provision {U} {name}"));
        let plugin = kurma.plugin(&name);
        assert_eq!(plugin["state"], "running", "{engine}: {plugin}");
        // Its process is ours; the runtime's is below.
        let below = format!("read -r pid </proc/{0}/task/{0}/children", plugin["pid"]);
        let runs = kurma.world.sh(&format!("{below} || :; cat /proc/${{pid% }}/comm"));
        assert_eq!(runs.trim(), engine);
        kurma.kurma(&format!("deprovision {U}"));
        assert_eq!(kurma.order(), [format!("add {name}"), format!("del {name}")], "{engine}");
        kurma.kurma("down");
        let left = kurma.world.sh(&format!("find /sys/fs/cgroup -maxdepth 1 -name '{name}-*'"));
        assert_eq!(left, "", "{engine}");
        kurma.is_clean();
    }
}
