//! Containers of several runtimes on one network.

use serde_json::{Value, json};
use tests::{
    Cgroup, Cni, Engine, Output, Plugins, Podman, Podman5, PodmanRelease, Release, Serve, World,
};

const SPOKE: &str = "/opt/cni/bin/spoke";

/// What `spoke explain` says, and whether the connection is made.
#[track_caller]
fn reaches(world: &World, ask: &str, tries: &str) {
    let Output { status, stdout, stderr } = world.try_sh(&format!("{SPOKE} explain {ask}"));
    assert_eq!(status, 0, "{ask}\n{stdout}{stderr}");
    world.sh(&format!("timeout 10 {tries}"));
}

#[track_caller]
fn fails(world: &World, ask: &str, hop: &str, tries: &str) {
    let Output { status, stdout, stderr } = world.try_sh(&format!("{SPOKE} explain -o json {ask}"));
    let found: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{ask}: {stderr}"));
    let last = found["hops"].as_array().unwrap().last().unwrap();
    assert_eq!((status, &last["hop"]), (1, &hop.into()), "{ask}: {last:#}");
    assert_ne!(world.try_sh(&format!("timeout 0.3 {tries}")).status, 0, "{ask}: {tries}");
}

/// A connection from a namespace.
fn connect(from: &str, to: &str, port: u16) -> String {
    format!("nsenter --net={from} bash -c '</dev/tcp/{to}/{port}'")
}

/// The path of a container's namespace, and its address, once its name is known: Docker's come by the
/// engine's events, which the daemon hears a moment after the engine is there.
#[track_caller]
fn place(world: &World, name: &str) -> (String, String) {
    let known = format!("{SPOKE} ps --format \"{{{{.Name}}}}\" | grep -Eq \"(^|/){name}$\"");
    world.sh(&format!("timeout 60 bash -c 'until {known}; do sleep 0.05; done'"));
    let shown: Value = serde_json::from_str(&world.sh(&format!("{SPOKE} ps -o json"))).unwrap();
    let is = |row: &&Value| {
        let found = row["name"].as_str().unwrap();
        found == name || found.ends_with(&format!("/{name}"))
    };
    let rows = shown.as_array().unwrap();
    let row = rows.iter().find(is).unwrap_or_else(|| panic!("{name}: {shown:#}"));
    let address = row["addresses"][0].as_str().unwrap();
    (
        row["sandbox"].as_str().unwrap_or_default().to_owned(),
        address.split('/').next().unwrap().to_owned(),
    )
}

/// A namespace of the command line and a CNI container beside what a runtime has on network `front`.
#[track_caller]
fn neighbours(world: &World) {
    world.sh(&format!(
        "ip netns add box; {SPOKE} network connect front box
        ip netns exec box busybox httpd -p 80 -h /run"
    ));
    let mut pod = Cni::container(world, "pod");
    let list = json!({"cniVersion": "1.1.0", "name": "pods",
        "plugins": [{"type": "spoke", "network": "front"}]});
    assert!(pod.add(&list).iter().all(tests::Answer::ok));
    world.sh("ip netns exec pod busybox httpd -p 80 -h /run");
}

/// Each container reaches each other one, and none what does not listen.
#[track_caller]
fn mesh(world: &World, names: &[&str]) {
    let places: Vec<(String, String)> = names.iter().map(|name| place(world, name)).collect();
    for (from, (netns, _)) in names.iter().zip(&places) {
        for (to, (_, address)) in names.iter().zip(&places).filter(|(to, _)| *to != from) {
            reaches(world, &format!("{from} {to} 80"), &connect(netns, address, 80));
        }
    }
    let ((netns, _), (_, address)) = (&places[0], &places[1]);
    let ask = format!("{} {} 81", names[0], names[1]);
    fails(world, &ask, "listener", &connect(netns, address, 81));
}

#[test]
fn docker_cni_and_the_command_line() {
    let release = Some(Release::V28_5).filter(|release| release.is_there());
    let mut engine = Engine::prepared(release.unwrap_or(Release::V20_10), &Plugins::subject());
    let _serve = Serve::start(engine.world(), &[]);
    engine.start(&[]);
    engine.import();
    let world = engine.world();
    world.sh(&format!("{SPOKE} network create --names --subnet 10.77.0.0/24 front"));
    let options = "--ipam-driver spoke --ipam-opt network=front --subnet 10.77.0.0/24";
    engine.docker(&format!("network create -d spoke {options} front"));
    engine.docker(
        "run -d --name web --network front -p 8080:80 busybox /bin/busybox httpd -f -p 80 -h /",
    );
    neighbours(world);
    let (_, web) = place(world, "web");
    world.sh(&format!(
        "timeout 20 sh -c 'until busybox wget -qO/dev/null http://{web}/bin/busybox; do sleep 0.05; done'"
    ));
    mesh(world, &["box", "web", "pod"]);
    reaches(world, "docker/web pod 80", "true");
    reaches(world, "host web 80", &format!("bash -c '</dev/tcp/{web}/80'"));
    reaches(world, "box web.front.spoke 80", "true");
    // A container's own network reaches the published port too.
    let (netns, _) = place(world, "box");
    let gateway = "10.77.0.1";
    reaches(world, "box host 8080", &connect(&netns, gateway, 8080));
    // Docker's own chains do not let pass what is not Docker's.
    world.sh("iptables -F DOCKER-USER; iptables -A DOCKER-USER -i sp-front -o sp-front -d 10.77.0.0/24 -j DROP
        echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables");
    let target = connect(&netns, &web, 80);
    fails(world, "box web 80", "filter", &target);
    world.sh("iptables -F DOCKER-USER");
    reaches(world, "box web 80", &target);
    paused_by_docker(&engine, &netns, &web);
    mapped_by_docker(&engine);
    docker_opens_one_port(world, &netns, &web);
    engine.docker("rm -f web");
    let gone = world.try_sh(&format!("{SPOKE} explain box web 80"));
    assert_ne!(gone.status, 0, "{gone:?}");
}

/// Of a paused container the kernel still takes connections, and no program answers.
#[track_caller]
fn paused_by_docker(engine: &Engine, netns: &str, web: &str) {
    let world = engine.world();
    let page = format!("nsenter --net={netns} busybox wget -qO/dev/null http://{web}/bin/busybox");
    engine.docker("pause web");
    fails(world, "box web 80", "paused", &page);
    fails(world, "web box 80", "paused", "false");
    let found = world.try_sh(&format!("{SPOKE} explain box web 80")).stdout;
    assert!(found.contains("fix: docker unpause web\n"), "{found}");
    engine.docker("unpause web");
    reaches(world, "box web 80", &page);
}

/// Ports that Docker maps itself lead to an interface that is not in the book.
#[track_caller]
fn mapped_by_docker(engine: &Engine) {
    let world = engine.world();
    world.sh("ip netns add far; ip link add up0 type veth peer name eth0 netns far
        ip address add 192.0.2.1/24 dev up0; ip -n far address add 192.0.2.2/24 dev eth0
        ip link set up0 up; ip -n far link set eth0 up; ip route add default via 192.0.2.2");
    engine.docker(
        "network create -d spoke --ipam-driver spoke -o ports=docker --subnet 10.77.1.0/24 theirs",
    );
    engine.docker(
        "run -d --name page --network theirs -p 8090:80 busybox /bin/busybox httpd -f -p 80 -h /",
    );
    place(world, "page");
    let tries = "bash -c 'until ip netns exec far bash -c \"</dev/tcp/192.0.2.1/8090\"; do sleep 0.05; done'";
    world.sh(&format!("timeout 20 {tries}"));
    reaches(world, "outside page 80", tries);
    reaches(world, "outside host 8090", tries);
    engine.docker("rm -f page");
}

/// The command against a rule of Docker's own lets this port through, and no other.
#[track_caller]
fn docker_opens_one_port(world: &World, netns: &str, web: &str) {
    world.sh(&format!(
        "iptables -N DOCKER-SHUT; iptables -A DOCKER-SHUT -o sp-front -d {web} -j DROP
        iptables -I FORWARD -j DOCKER-SHUT; iptables -I FORWARD -j DOCKER-USER"
    ));
    let ask = format!("{SPOKE} explain -o json box web 80");
    let found: Value = serde_json::from_str(&world.try_sh(&ask).stdout).unwrap();
    let fix = found["hops"].as_array().unwrap().last().unwrap()["fix"].as_str().unwrap();
    world.sh(fix);
    reaches(world, "box web 80", &connect(netns, web, 80));
    fails(world, "box web 81", "filter", &connect(netns, web, 81));
    world.sh("iptables -F DOCKER-USER; iptables -D FORWARD 1; iptables -D FORWARD 1; iptables -F DOCKER-SHUT; iptables -X DOCKER-SHUT");
}

#[test]
fn podman_cni_and_the_command_line() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_4) else { return };
    let world = &podman.world;
    world.sh(&format!("{SPOKE} network create --subnet 10.77.0.0/24 front"));
    podman.podman("network create -d spoke -o network=front front");
    podman.serve("web", "--network front -p 8080:80");
    podman.serve("api", "--network front");
    neighbours(world);
    mesh(world, &["box", "web", "api", "pod"]);
    reaches(world, "podman/web podman/api 80", "true");
    let paused = |arguments: &str| drop(podman.podman(arguments));
    paused_by_podman(world, &paused);
}

/// Of this host's Podman, whose containers come by CNI.
#[test]
fn paused_by_podman_4() {
    let cgroup = Cgroup::new();
    let world = World::new(&Plugins::subject());
    Podman::set_up(&world);
    Podman::run(&world, "network create --subnet 10.77.0.0/24 front");
    for name in ["web", "box"] {
        let (parent, image) = (cgroup.name(), Podman::IMAGE);
        let options = format!("-d --name {name} --network front --cgroup-parent /{parent}");
        Podman::run(&world, &format!("run {options} {image} /bin/httpd -f -h /www"));
        let pid = Podman::run(&world, &format!("inspect --format {{{{.State.Pid}}}} {name}"));
        world.until_listens(pid.trim(), 80);
    }
    let paused = |arguments: &str| drop(Podman::run(&world, arguments));
    paused_by_podman(&world, &paused);
}

/// Of a paused container the kernel still takes connections, and no program answers. The command that is named lets it go on.
/// That is done before anything is asserted: what is paused cannot be killed, and the world would wait for it.
#[track_caller]
fn paused_by_podman(world: &World, podman: &dyn Fn(&str)) {
    let ((netns, _), (_, web)) = (place(world, "box"), place(world, "web"));
    let page = format!("nsenter --net={netns} busybox wget -qO/dev/null http://{web}/");
    let asked = |ask: &str| world.try_sh(&format!("{SPOKE} explain {ask}"));
    reaches(world, "box web 80", &page);
    podman("pause web");
    let (to, from) = (asked("box web 80"), asked("web box 80"));
    let tried = world.try_sh(&format!("timeout 0.3 {page}"));
    podman("unpause web");
    assert_ne!(tried.status, 0, "{tried:?}");
    for found in [to, from] {
        assert_eq!(found.status, 1, "{found:?}");
        assert!(found.stdout.contains("FAIL  paused "), "{found:?}");
        assert!(found.stdout.contains("fix: podman unpause web\n"), "{found:?}");
    }
    reaches(world, "box web 80", &page);
}
