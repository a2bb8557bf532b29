//! The files in `examples/`, each given to the program that it is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use tests::{
    Cgroup, Containerd, Engine, Plugins, Podman, Podman5, PodmanRelease, Release, Serve, World,
};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

#[track_caller]
fn example(name: &str) -> String {
    fs::read_to_string(format!("{EXAMPLES}/{name}")).expect("an example")
}

/// A file of the world with the contents of an example.
#[track_caller]
fn put(world: &World, name: &str, directory: &str) {
    let text = example(name);
    world.sh(&format!("mkdir -p {directory}; cat >{directory}/{name} <<'FILE'\n{text}FILE"));
}

/// What a script prints that finds `spoke`.
#[track_caller]
fn sh(world: &World, script: &str) -> String {
    world.sh(&format!("export PATH={}:$PATH\n{script}", Plugins::MOUNT))
}

/// The page that a port of the host leads to, as soon as a server is there.
#[track_caller]
fn page(world: &World, port: u16) -> String {
    let ask = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf \"GET / HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3"
    );
    let all = world.sh(&format!(
        "timeout 20 bash -c 'until timeout 2 bash -c '\\''{ask}'\\'' 2>/dev/null | grep .; do sleep 0.05; done'"
    ));
    all.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn compose() {
    let mut engine = Engine::prepared(Release::V20_10, &Plugins::subject());
    let serve = Serve::start(engine.world(), &[]);
    engine.start(&[]);
    engine.import();
    let world = engine.world();
    put(world, "compose.yaml", "/tmp/app");
    let compose = |arguments: &str| {
        world.sh(&format!("cd /tmp/app && docker-compose {arguments} 2>&1"));
    };
    compose("up -d");
    assert_eq!(page(world, 8080), "hello");
    let web = world.sh("docker ps -q --filter name=web").trim().to_owned();
    let asks = "printf \"GET /hostname HTTP/1.0\\r\\n\\r\\n\" | nc -w 5 db 5432 | grep 200";
    world.sh(&format!(
        "timeout 20 sh -c 'until docker exec {web} sh -c '\\''{asks}'\\''; do sleep 0.05; done'"
    ));
    let db = world.sh("docker ps -q --filter name=db").trim().to_owned();
    let front = world.try_sh(&format!("docker exec {db} ping -c 1 -W 1 10.70.1.1"));
    assert_ne!(front.status, 0, "{}", front.stdout);
    let gone = world.try_sh(&format!("docker exec {web} nslookup evil.example"));
    assert_ne!(gone.status, 0, "{}", gone.stdout);
    sh(
        world,
        "timeout 20 sh -c 'until spoke denied | grep evil.example | grep refused; do sleep 0.05; done'",
    );
    let networks = sh(world, "spoke network ls --format '{{.Name}} {{.Runtime}}'");
    assert_eq!(networks.matches(" docker").count(), 2, "{networks}");
    compose("down -t 0");
    assert_eq!(sh(world, "spoke ps -q; spoke network ls -q"), "");
    world.sh("rm -r /tmp/app");
    drop(serve);
}

/// The commands that systemd would execute, without what needs systemd itself.
#[track_caller]
fn executed(units: &str) -> Vec<String> {
    let commands = units.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    let without = ["--cgroups=split", "--sdnotify=conmon", "--cidfile=%t/%N.cid", "--replace"];
    let commands = commands.map(|line| {
        let words = line.split(' ').filter(|word| !without.contains(word));
        let line = words.collect::<Vec<_>>().join(" ");
        // As systemd reads it.
        line.replace("\\x20", " ").replace("/usr/bin/podman", "/run/stage/podman")
    });
    commands.collect()
}

#[test]
fn quadlets_and_a_pod() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_8) else { return };
    let world = &podman.world;
    let serve = Serve::start(world, &[]);
    put(world, "front.network", "/tmp/units");
    put(world, "web.container", "/tmp/units");
    put(world, "pod.yaml", "/tmp/units");
    // The root of this Podman has no catatonit, which is a pod's first process otherwise.
    world.sh(
        "printf '[engine]\\ninfra_image = \"localhost/spoke-test\"\\ninfra_command = \"/bin/sleep\"\\n' \
         >/etc/containers/containers.conf.d/20-infra.conf",
    );
    podman.podman("tag localhost/spoke-test docker.io/library/busybox");
    let units = world.sh("QUADLET_UNIT_DIRS=/tmp/units /usr/libexec/podman/quadlet -dryrun");
    let mut commands = executed(&units);
    commands.sort_by_key(|command| !command.contains("network create"));
    assert_eq!(commands.len(), 2, "{units}");
    let cgroup = Cgroup::new();
    let below = format!(" run --cgroup-parent /{} ", cgroup.name());
    for command in &commands {
        world.sh(&command.replace(" run ", &below));
    }
    assert_eq!(page(world, 8080), "hello");
    assert_eq!(podman.endpoint("web", "front")["IPAddress"], "10.70.1.9");
    podman.podman("kube play --network front /tmp/units/pod.yaml");
    assert_eq!(page(world, 8081), "hello");
    podman.podman("kube down --force /tmp/units/pod.yaml");
    podman.podman("rm -f -t 0 web");
    podman.podman("network rm front");
    world.sh("rm -r /tmp/units /etc/containers/containers.conf.d/20-infra.conf");
    serve.stop();
    podman.is_empty();
}

#[test]
fn containerd() {
    let world = World::new(&Plugins::subject());
    Podman::set_up(&world);
    Containerd::set_up(&world, &example("10-front.conflist"));
    let (cgroup, image) = (Cgroup::new(), Podman::IMAGE);
    let ping = format!(
        "ctr run --snapshotter native --cni --rm --cgroup {}/one {image} one /bin/ping -c 1 -W 3 \
         10.70.1.1",
        cgroup.name()
    );
    let answered = Containerd::run(&world, &ping);
    assert!(answered.contains("1 packets received"), "{answered}");
    assert_eq!(sh(&world, "spoke ps -q"), "");
}

#[test]
fn nspawn() {
    let world = World::new(&Plugins::subject());
    put(&world, "nspawn", "/tmp/example");
    sh(
        &world,
        "mkdir -p /tmp/root/bin /tmp/root/etc /tmp/root/usr
         cp /bin/busybox /tmp/root/bin; ln -s busybox /tmp/root/bin/ping
         touch /tmp/root/etc/os-release
         spoke network create --subnet 10.70.1.0/24 front",
    );
    let pinged =
        sh(&world, "sh /tmp/example/nspawn front web /tmp/root /bin/ping -c 1 -W 3 10.70.1.1");
    assert!(pinged.contains("1 packets received"), "{pinged}");
    assert_eq!(sh(&world, "spoke ps -q; ip netns list"), "");
    // As the stop of a unit does it: a signal to each process.
    sh(
        &world,
        "ln -s busybox /tmp/root/bin/sleep
         setsid sh /tmp/example/nspawn front web /tmp/root /bin/sleep 600 & group=$!
         timeout 60 sh -c 'until pgrep -x -g $0 systemd-nspawn; do sleep 0.05; done' $group
         kill -TERM -- -$group; ! wait $group",
    );
    assert_eq!(sh(&world, "spoke ps -q; ip netns list"), "");
    sh(&world, "spoke network rm front; rm -r /tmp/root /tmp/example");
}
