//! X4: the same as a user other than root.

use serde_json::{Value, json};
use tests::kurma::Kurma;

use crate::U;
use crate::seed::{address, network, ours};

/// A user's own host: everything of it is below one folder.
struct Rootless(Kurma);

impl Rootless {
    #[track_caller]
    fn new(networks: &Value) -> Self {
        let kurma = ours(networks);
        kurma.world.sh("mkdir -p /world/home && cd /world/home
            cat >config.toml <<CONFIG
[store]
runtime = '/world/home/run'
state = '/world/home/state'
[kurma]
networks = '/world/home/kurma.json'
netns = '/world/home/netns'
CONFIG
            mv /etc/kurma/kurma.json . && chown -R nobody: /world/home");
        Self(kurma)
    }

    #[track_caller]
    fn kurma(&self, arguments: &str) -> String {
        self.0.world.sh(&format!(
            "cd /world/home && setpriv --reuid 65534 --regid 65534 --clear-groups \
             env HOME=/world/home SPOKE_CONFIG=/world/home/config.toml \
             /opt/cni/bin/spoke kurma {arguments}"
        ))
    }

    #[track_caller]
    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.kurma(&format!("{arguments} -o json"))).unwrap()
    }
}

#[test]
fn x4_a_pod_of_another_user() {
    let user = Rootless::new(&json!([network("one", 10), network("two", 11)]));
    let world = &user.0.world;
    let before = world.sh("ip -o address; nft list ruleset; cut -d ' ' -f 4- /proc/self/mountinfo");
    let pod = user.json(&format!("provision {U}"));
    assert_eq!((address(&pod, 0), address(&pod, 1)), ("10.10.0.2".into(), "10.11.0.2".into()));
    let plugin = &user.json("status")[0];
    assert_eq!(plugin["state"], "running", "{plugin}");
    // The pod answers in the network that is the user's own.
    world.sh(&format!("nsenter --target {} --net ping -c 1 -W 3 10.11.0.2", plugin["pid"]));
    assert_eq!(world.sh(&format!("ps -o uid= -p {}", plugin["pid"])).trim(), "65534");
    user.kurma(&format!("deprovision {U}"));
    assert_eq!(user.json("pods"), json!([]));
    let veths = format!("nsenter --target {} --net ip -o link show type veth", plugin["pid"]);
    assert_eq!(world.sh(&veths), "");
    // A plugin runs: the process that keeps its namespaces stays.
    user.kurma("gc");
    let keeper = world.sh("sed -n 's/^pid //p' /world/home/run/kurma/rootless/running");
    let keeper = keeper.trim();
    assert_eq!(world.sh(&format!("stat -c %u /proc/{keeper}")).trim(), "65534");
    user.kurma("down");
    let is_gone = || {
        world.sh(&format!(
            "[ ! -e /world/home/run/kurma/rootless/running ]
            [ \"$(stat -c %u /proc/{keeper} 2>/dev/null)\" != 65534 ]"
        ))
    };
    is_gone();
    // Nor does one stay that was only asked how it is.
    for asked in ["status", "images", "gc"] {
        user.kurma(asked);
        is_gone();
    }
    let after = world.sh("ip -o address; nft list ruleset; cut -d ' ' -f 4- /proc/self/mountinfo");
    assert_eq!(after, before, "the host has not noticed");
}
