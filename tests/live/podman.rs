//! Podman's containers: of Podman 5, which calls Spoke by netavark's protocol, and of Podman 4, which
//! has a list of CNI plugins.

use tests::{Cgroup, Plugins, Podman, Podman5, PodmanRelease, Serve, World};

use crate::bed::{Live, SPOKE};

impl Live for Podman5 {
    fn world(&self) -> &World {
        &self.world
    }
}

#[test]
fn of_podman_5() {
    let release = [PodmanRelease::V5_8, PodmanRelease::V5_4];
    let Some(podman) = release.into_iter().find_map(Podman5::new) else { return };
    podman.set_up_lan();
    let serve = Serve::start(&podman.world, &[]);
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    podman.serve("web", "--network front");
    podman.serve("api", "--network front -p 8080:80");

    podman.spoke("port add web 8443:80");
    assert_eq!(Live::page(&podman, 8443), "a page");
    assert_eq!(Live::page(&podman, 8080), "a page");
    // Podman does not know of it and does not bind it: the daemon keeps it from others.
    podman.spoke("port add web 8446:80/udp");
    podman.until_held(8446, 1);
    podman.refuses("port add web 8080:80", 4, &["8080/tcp", "container api"]);
    podman.refuses("port rm api 8080", 2, &["its runtime"]);
    let refused = podman.run_refused("--network front -p 8443:80");
    assert!(refused.contains("8443"), "{refused}");

    podman.spoke("limit web 7mbit");
    podman.podman("restart -t 0 web");
    podman.until("[ $(tc qdisc show | grep -c \"rate 7Mbit\") = 2 ]");
    podman.spoke("limit web none");
    podman.until("! tc qdisc show | grep -q 7Mbit");
    let pid = podman.podman("inspect --format {{.State.Pid}} web");
    podman.world.until_listens(pid.trim(), 80);
    assert_eq!(Live::page(&podman, 8443), "a page");
    podman.podman("rm -f -t 0 web");
    podman.no_page(8443);
    assert!(podman.spoke("port ls web").contains("waiting"));
    podman.serve("web", "--network front");
    assert_eq!(Live::page(&podman, 8443), "a page");

    // A second network, and its end, leave the port where it is.
    podman.spoke("network create --subnet 10.89.8.0/24 shared");
    podman.podman("network create -d spoke -o network=shared back");
    podman.podman("network connect back web");
    assert_eq!(Live::page(&podman, 8443), "a page");
    // Podman describes its own network with each call; one that it joins is Spoke's.
    podman.refuses("network set front --mtu 1400", 2, &["(podman)", "podman network create"]);
    podman.refuses("network rename front edge", 2, &["spoke network create"]);
    let mtu = || podman.podman("exec web cat /sys/class/net/eth1/mtu");
    podman.spoke("network set shared --mtu 1400");
    assert_eq!(mtu().trim(), "1400");
    podman.podman("restart -t 0 web");
    assert_eq!(mtu().trim(), "1400");
    let pid = podman.podman("inspect --format {{.State.Pid}} web");
    podman.world.until_listens(pid.trim(), 80);
    assert_eq!(Live::page(&podman, 8443), "a page");
    podman.podman("network disconnect back web");
    podman.spoke("port rm web 8446/udp");
    podman.until_held(8446, 0);
    podman.spoke("port rm web 8443");
    podman.no_page(8443);
    podman.podman("rm -f -t 0 web api");
    podman.podman("network rm front back");
    podman.spoke("network rm shared");
    serve.stop();
    podman.world.sh("ip link del up0; ip netns del lan");
    podman.is_empty();
}

/// Podman 4.3 in a copy of this host.
struct Podman4 {
    world: World,
    cgroup: Cgroup,
}

impl Live for Podman4 {
    fn world(&self) -> &World {
        &self.world
    }
}

impl Podman4 {
    #[track_caller]
    fn serve(&self, name: &str, options: &str) {
        let (cgroup, image) = (self.cgroup.name(), Podman::IMAGE);
        let run = format!("run -d --name {name} --cgroup-parent /{cgroup} {options} {image}");
        Podman::run(&self.world, &format!("{run} /bin/httpd -f -h /www"));
        self.listens(name);
    }

    #[track_caller]
    fn listens(&self, name: &str) {
        let pid = Podman::run(&self.world, &format!("inspect --format {{{{.State.Pid}}}} {name}"));
        self.world.until_listens(pid.trim(), 80);
    }
}

#[test]
fn of_podman_4() {
    let podman = Podman4 { world: World::new(&Plugins::subject()), cgroup: Cgroup::new() };
    Podman::set_up(&podman.world);
    podman.set_up_lan();
    let serve = Serve::start(&podman.world, &[]);
    Podman::run(&podman.world, "network create --subnet 10.89.7.0/24 podnet");
    // One without a port of its runtime, and one with: the port is in the record of another layer.
    for (name, options, port) in [("web", "", 8443), ("api", "-p 8080:80", 8444)] {
        podman.serve(name, &format!("--network podnet {options}"));
        podman.spoke(&format!("port add {name} {port}:80"));
        assert_eq!(podman.page(port), "a page", "{name}");
        Podman::run(&podman.world, &format!("restart -t 0 {name}"));
        podman.listens(name);
        assert_eq!(podman.page(port), "a page", "{name} again");
        podman.spoke(&format!("port add {name} {port}:80/udp"));
        podman.until_held(port, 1);
        podman.spoke(&format!("port rm {name} {port}/udp"));
    }
    podman.spoke("port rm web 8443");
    podman.no_page(8443);
    podman.spoke("port rm api 8444");
    podman.no_page(8444);
    assert_eq!(podman.page(8080), "a page");
    Podman::run(&podman.world, "rm -f -t 0 web api");
    Podman::run(&podman.world, "network rm podnet");
    assert_eq!(podman.spoke("port ls --quiet"), "");
    assert!(!podman.world.try_sh(&format!("{SPOKE} ps")).stdout.contains("podman"));
    serve.stop();
}
