//! Podman 4.3 with its own generated configuration: bridge, portmap, firewall, tuning.

use tests::{Podman, Serve};

use crate::stage::{IMAGE, Stage};

impl Stage {
    #[track_caller]
    fn podman(&self, arguments: &str) -> String {
        Podman::run(&self.world, arguments)
    }

    #[track_caller]
    fn start(&self, name: &str, options: &str, command: &str) {
        let cgroup = self.cgroup.name();
        self.podman(&format!(
            "run -d --name {name} --cgroup-parent /{cgroup} {options} {IMAGE} {command}"
        ));
    }

    /// A container that serves a page on port 80, once it does.
    #[track_caller]
    fn serve(&self, name: &str, options: &str) {
        self.start(name, options, "/bin/httpd -f -h /www");
        let said = self.podman(&format!("inspect --format {{{{.State.Pid}}}} {name}"));
        self.world.until_listens(said.trim(), 80);
    }
}

#[test]
fn serves_pings_and_leaves_nothing() {
    let stage = Stage::new();
    stage.podman("network create --subnet 10.89.7.0/24 podnet");
    stage.serve("web", "--network podnet -p 18080:80");
    stage.start("other", "--network podnet", "/bin/sleep 3600");

    for host in ["127.0.0.1", "10.89.7.1"] {
        let page = stage.world.sh(&format!("curl -sS --max-time 5 http://{host}:18080/"));
        assert_eq!(page, "a page\n", "through {host}");
    }
    stage.podman("exec other /bin/ping -c 1 -W 3 10.89.7.2");
    stage.podman("exec web /bin/ping -c 1 -W 3 10.89.7.3");

    stage.podman("rm -f -t 0 web other");
    stage.podman("network rm podnet");
    stage.is_empty_after(&["podnet"]);
}

/// Podman binds what it publishes once the network is made: the daemon is not there before it.
#[test]
fn publishes_beside_the_daemon() {
    let stage = Stage::new();
    let serve = Serve::start(&stage.world, &[]);
    stage.podman("network create --subnet 10.89.7.0/24 podnet");
    for round in 0..2 {
        stage.serve("web", "--network podnet -p 18080:80");
        let page = stage.world.sh("curl -sS --max-time 5 http://127.0.0.1:18080/");
        assert_eq!(page, "a page\n", "round {round}");
        stage.podman("restart -t 0 web");
        stage.podman("rm -f -t 0 web");
    }
    stage.podman("network rm podnet");
    serve.stop();
    stage.is_empty_after(&["podnet"]);
}

#[test]
fn dual_stack() {
    let stage = Stage::new();
    stage.podman("network create --ipv6 --subnet 10.89.7.0/24 --subnet fd89:7::/64 podnet");
    stage.serve("web", "--network podnet -p 18080:80");
    let address = stage.podman(
        "inspect web --format '{{(index .NetworkSettings.Networks \"podnet\").GlobalIPv6Address}}'",
    );
    // The reference answers before its addresses may be used; ours may be used at once.
    if !stage.plugins.are_ours() {
        stage.world.sh("while ip -6 addr show tentative | grep -q inet6; do sleep 0.1; done");
    }
    for to in ["10.89.7.2", &format!("[{}]", address.trim())] {
        let page = stage.world.sh(&format!("curl -sS --max-time 5 'http://{to}/'"));
        assert_eq!(page, "a page\n", "through {to}");
    }
    stage.podman("rm -f -t 0 web");
    stage.podman("network rm podnet");
    stage.is_empty_after(&["podnet"]);
}

#[test]
fn fixed_address_and_mac() {
    let stage = Stage::new();
    stage.podman("network create --subnet 10.89.7.0/24 podnet");
    stage.start(
        "web",
        "--network podnet --ip 10.89.7.77 --mac-address c2:11:22:33:44:55",
        "/bin/sleep 3600",
    );
    let address = "inspect web --format '{{.NetworkSettings.Networks.podnet.IPAddress}} {{.NetworkSettings.Networks.podnet.MacAddress}}'";
    assert_eq!(stage.podman(address).trim(), "10.89.7.77 c2:11:22:33:44:55");
    stage.podman("restart -t 0 web");
    assert_eq!(stage.podman(address).trim(), "10.89.7.77 c2:11:22:33:44:55");
    stage.podman("rm -f -t 0 web");
    stage.podman("network rm podnet");
    stage.is_empty_after(&["podnet"]);
}

/// Podman names a container's ports to each of its networks.
#[test]
fn ports_are_served_through_one_network() {
    let stage = Stage::new();
    stage.podman("network create --subnet 10.89.7.0/24 front");
    stage.podman("network create --subnet 10.89.8.0/24 back");
    stage.serve("web", "--network front --network back -p 18080:80");
    let serves = |host: &str| {
        let page = stage.world.sh(&format!("curl -sS --max-time 5 http://{host}:18080/"));
        assert_eq!(page, "a page\n", "through {host}");
    };
    serves("127.0.0.1");
    stage.podman("network disconnect front web");
    serves("10.89.8.1");
    stage.podman("network connect front web");
    stage.podman("network disconnect back web");
    serves("10.89.7.1");
    stage.podman("rm -f -t 0 web");
    stage.podman("network rm front back");
    stage.is_empty_after(&["front", "back"]);
}

/// With an address that was asked for, which Podman then names twice.
#[test]
fn a_reload_keeps_the_network() {
    let stage = Stage::new();
    stage.podman("network create --subnet 10.89.7.0/24 podnet");
    let options = "--network podnet --ip 10.89.7.77 -p 18080:80";
    stage.serve("web", options);
    stage.podman("network reload web");
    let page = stage.world.sh("curl -sS --max-time 5 http://10.89.7.1:18080/");
    assert_eq!(page, "a page\n");
    stage.podman("rm -f -t 0 web");
    stage.podman("network rm podnet");
    stage.is_empty_after(&["podnet"]);
}
