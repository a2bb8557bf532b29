//! Plugin containers are in the host's network and mount namespace, whichever process starts them: what the first
//! process of this world has.

use serde_json::{Value, json};
use tests::Plugins;
use tests::kurma::Kurma;

use crate::{U, uuid};

fn inode(kurma: &Kurma, path: &str) -> String {
    kurma.world.sh(&format!("stat -Lc %i {path}"))
}

/// Whether the plugin is in the world's network, and sees the namespace of a pod that is made now.
#[track_caller]
fn serves(kurma: &Kurma, pod: &str) {
    kurma.kurma(&format!("provision {pod} one"));
    let plugin = kurma.plugin("one");
    let net = inode(kurma, &format!("/proc/{}/ns/net", plugin["pid"]));
    assert_eq!(net, inode(kurma, "/proc/1/ns/net"), "{plugin}");
    assert_eq!(plugin["error"], Value::Null, "{plugin}");
    let seen = kurma.calls().last().and_then(|call| call.netns);
    assert_eq!(
        seen.map(|inode| inode.to_string()).unwrap_or_default(),
        inode(kurma, &Kurma::netns(pod)).trim(),
        "the plugin sees the pod"
    );
    kurma.kurma(&format!("deprovision {pod}"));
}

#[test]
fn a_starter_in_another_namespace_is_moved_to_the_hosts() {
    let spoke = format!("{}/spoke", Plugins::MOUNT);
    for starter in ["ip netns exec x", "unshare --mount --propagation slave", "unshare --net"] {
        let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({}))]));
        kurma.world.netns("x");
        kurma.world.sh(&format!("{starter} {spoke} kurma provision {U} one"));
        let seen = kurma.calls().last().and_then(|call| call.netns);
        let there = inode(&kurma, &Kurma::netns(U));
        assert_eq!(seen.map(|it| it.to_string()).unwrap_or_default(), there.trim(), "{starter}");
        serves(&kurma, &uuid(1));
        kurma.world.sh(&format!("{starter} {spoke} kurma deprovision {U}"));
        kurma.is_clean();
    }
}

/// Who may not look at the host's first process cannot move to it; the next one sees what came of that.
#[test]
fn a_container_that_was_started_elsewhere_is_noticed_and_replaced() {
    let up = format!("{}/spoke kurma up one", Plugins::MOUNT);
    for starter in ["ip netns exec x", "unshare --mount --propagation slave"] {
        let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({}))]));
        kurma.world.netns("x");
        kurma.world.sh(&format!(
            "{starter} setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace {up}"
        ));
        // What is mounted by then is not what that one has.
        kurma.kurma(&format!("provision {} host", uuid(2)));
        kurma.kurma(&format!("deprovision {}", uuid(2)));
        let plugin = kurma.plugin("one");
        let error = plugin["error"].as_str().unwrap_or_default();
        assert!(
            error.contains("not in the host's network and mount namespace"),
            "{starter} {plugin}"
        );
        let doctor = kurma.world.try_sh(&format!("{}/spoke doctor", Plugins::MOUNT));
        assert!(doctor.stdout.contains("the plugin of network one cannot serve"), "{doctor:?}");
        serves(&kurma, U);
        assert_ne!(kurma.plugin("one")["pid"], plugin["pid"]);
        kurma.is_clean();
    }
}
