//! The same subnet for two runtimes: silent without Spoke, refused or reported with it.

use serde_json::{Value, json};
use tests::{Engine, Plugins, Podman, Release, World};

use crate::bed::Bed;

const SUBNET: &str = "10.80.9.0/24";

/// Podman's networks where every runtime looks for them.
#[track_caller]
fn podman(world: &World) {
    Podman::set_up(world);
    world.sh("mkdir -p /etc/cni; ln -s /run/stage/net.d /etc/cni/net.d");
}

/// Runs a container of Podman's, and tells its address.
#[track_caller]
fn run(engine: &Engine, name: &str, network: &str) -> String {
    let (cgroup, image) = (engine.cgroup(), Podman::IMAGE);
    let run = format!("run -d --name {name} --cgroup-parent /{cgroup} --network {network}");
    Podman::run(engine.world(), &format!("{run} {image}"));
    let format = format!("{{{{(index .NetworkSettings.Networks \"{network}\").IPAddress}}}}");
    let address = Podman::run(engine.world(), &format!("inspect {name} --format '{format}'"));
    address.trim().to_owned()
}

/// What README.md shows as "before": no program objects, and two containers have one address.
#[test]
fn without_spoke_no_program_notices() {
    let engine = Engine::new(Release::V20_10, &Plugins::reference(), &[]);
    podman(engine.world());
    Podman::run(engine.world(), &format!("network create --subnet {SUBNET} pods"));
    let first = run(&engine, "one", "pods");
    engine.docker(&format!("network create --subnet {SUBNET} dock"));
    engine.run("two", "dock", Value::Null);
    assert_eq!(engine.endpoint("two", "dock")["IPAddress"], first.as_str(), "the same address");
    let routes = engine.world().sh(&format!("ip route show {SUBNET}"));
    assert_eq!(routes.lines().count(), 2, "two ways to it: {routes}");
}

/// What README.md shows as "after".
#[test]
fn refused_whichever_comes_first() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let world = bed.world();
    podman(world);

    Podman::run(world, &format!("network create --subnet {SUBNET} pods"));
    bed.no_network(&format!("--subnet {SUBNET} dock"), &[SUBNET, "pods"]);
    let first = run(&bed.engine, "one", "pods");
    bed.no_network(&format!("--subnet {SUBNET} dock"), &[SUBNET, "pods"]);
    bed.no_network("--subnet 10.80.9.128/25 dock", &["10.80.9.128/25", "pods"]);
    assert_eq!(first, "10.80.9.2");
    Podman::run(world, "rm -f -t 0 one");
    Podman::run(world, "network rm pods");
    bed.spoke("network rm pods");

    bed.network(&format!("--subnet {SUBNET} dock"));
    bed.run("--name two --network dock");
    // Podman looks at this host's routes, and writes a file where it finds none.
    let own = json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "cni-podman7", "isGateway": true, "ipMasq": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": SUBNET}]],
                  "routes": [{"dst": "0.0.0.0/0"}]}},
    ]});
    world.sh(&format!("cat >/run/stage/net.d/pods.conflist <<'LIST'\n{own}\nLIST"));
    let image = Podman::IMAGE;
    let cgroup = bed.engine.cgroup();
    let refused = world.try_sh(&format!(
        "{}/podman run --rm --cgroup-parent /{cgroup} --network pods {image} /bin/sleep 0",
        Podman::DIR
    ));
    assert_ne!(refused.status, 0, "{}", refused.stdout);
    for word in [SUBNET, "docker-10.80.9.0-24"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    world.sh("rm /run/stage/net.d/pods.conflist");
    bed.remove("two");
    bed.docker("network rm dock");
    bed.is_clean();
}

/// That everybody who may be asked tells of a clash of Docker's network `front` within seconds, and of its end. The
/// event is written before the engine is asked what it calls the network, and is told once.
#[track_caller]
fn is_reported(bed: &Bed, words: &[&str], end: impl FnOnce()) {
    let spoke = "/opt/cni/bin/spoke";
    bed.until(&format!("{spoke} events | grep -q \" clash \""));
    bed.until(&format!("{spoke} doctor | grep -q \"spoke network front)\""));
    let events = bed.spoke("events");
    let reported = events.lines().find(|line| line.contains(" clash ")).unwrap_or_default();
    let doctor = bed.world().try_sh(&format!("{spoke} doctor"));
    assert!(reported.contains("(spoke network front)"), "{events}");
    assert_eq!(events.matches(" clash ").count(), 1, "{events}");
    let json = bed.spoke("events -o json");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let clash = json.as_array().into_iter().flatten().find(|event| event["event"] == "clash");
    let named = clash.map(|event| (&event["network"], &event["title"]));
    assert_eq!(named, Some((&json!("docker-10.80.9.0-24"), &json!("front"))), "{json}");
    for word in words {
        assert!(reported.contains(word), "{word}: {events}");
        assert!(doctor.stdout.contains(word), "{word}: {}", doctor.stdout);
    }
    let figures = bed.figures();
    assert!(figures.contains("spoke_clashes 1"), "{figures}");
    end();
    bed.until(&format!("{spoke} events | grep -q \" clash-over \""));
    let figures = bed.figures();
    assert!(figures.contains("spoke_clashes 0"), "{figures}");
}

/// Docker's own driver asks no other program.
#[test]
fn dockers_own_is_reported() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network(&format!("--subnet {SUBNET} front"));
    bed.docker(&format!("network create --subnet {SUBNET} own"));
    let words = [SUBNET, "docker network rm"];
    is_reported(&bed, &words, || drop(bed.docker("network rm own")));
    bed.docker("network rm front");
    bed.is_clean();
}

/// Nor does a file that only Podman reads.
#[test]
fn podmans_own_is_reported() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    podman(bed.world());
    bed.network(&format!("--subnet {SUBNET} front"));
    let own = json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "cni-podman7",
         "ipam": {"type": "host-local", "ranges": [[{"subnet": SUBNET}]]}},
    ]});
    bed.world().sh(&format!("cat >/run/stage/net.d/pods.conflist <<'LIST'\n{own}\nLIST"));
    let words = [SUBNET, "network pods"];
    is_reported(&bed, &words, || drop(bed.world().sh("rm /run/stage/net.d/pods.conflist")));
    bed.docker("network rm front");
    bed.is_clean();
}
