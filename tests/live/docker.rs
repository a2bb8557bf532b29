//! Docker's containers, whose names the daemon learns from the engine.

use tests::{Engine, Plugins, Release, Serve, World};

use crate::bed::{Live, SPOKE};

pub(crate) struct Docker {
    pub(crate) engine: Engine,
    pub(crate) serve: Option<Serve>,
}

impl Live for Docker {
    fn world(&self) -> &World {
        self.engine.world()
    }
}

impl Docker {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let release = Some(Release::V28_5).filter(|release| release.is_there());
        let mut engine = Engine::prepared(release.unwrap_or(Release::V20_10), &Plugins::subject());
        let serve = Some(Serve::start(engine.world(), &[]));
        engine.start(&[]);
        engine.import();
        let docker = Self { engine, serve };
        docker.set_up_lan();
        docker
    }

    #[track_caller]
    fn serve(&self, name: &str, options: &str) {
        self.engine.docker(&format!(
            "run -d --name {name} {options} busybox sh -c 'mkdir /www; echo {name} >/www/index.html; \
             exec httpd -f -p 80 -h /www'"
        ));
        self.listens(name);
    }

    #[track_caller]
    fn listens(&self, name: &str) {
        let pid = self.engine.docker(&format!("inspect -f {{{{.State.Pid}}}} {name}"));
        self.world().until_listens(pid.trim(), 80);
    }

    /// That a port leads to a container again, once the daemon knows its name.
    #[track_caller]
    fn comes_back(&self, name: &str, port: u16) {
        self.until(&format!("{SPOKE} port ls {name} | grep {port}/tcp | grep -q published"));
        self.listens(name);
        assert_eq!(self.page(port), name);
    }

    /// All lists call the network of a container as Docker does.
    #[track_caller]
    fn lists(&self, name: &str, network: &str) {
        for list in [
            "ps",
            "ports",
            "port ls",
            "limit",
            "firewall status",
            "top",
            "top --by port",
            "events",
            &format!("top {network}"),
            &format!("explain {name} host"),
        ] {
            self.until(&format!("{SPOKE} {list} | grep -w {name} | grep -qw {network}"));
        }
        self.until(&format!("{SPOKE} ipam show {network} | grep -qw {name}"));
        assert!(self.spoke("network ls").contains(&format!("\n{network} ")));
        let everywhere = ["network ls", "ipam show", "dns ls", "endpoint ls"];
        let all = ["top --by network", "events", "flows", "explain web api 80", "doctor"];
        for list in all.into_iter().chain(everywhere) {
            let said = self.world().sh(&format!("{SPOKE} {list} || true"));
            assert!(!said.contains("docker-10."), "{list}: {said}");
        }
        let row = self.spoke("top --by network -o json");
        let row: serde_json::Value = serde_json::from_str(&row).unwrap();
        assert!(row[0]["title"] == network && row[0]["network"] != network, "{row}");
        self.spoke(&format!("flows {network}"));
    }

    /// So do those of egress rules, and what was refused.
    #[track_caller]
    fn lists_refusals(&self) {
        self.engine.docker(
            "network create -d spoke --ipam-driver spoke --subnet 10.86.0.0/24 \
             -o egress=10.9.0.7:443 shut",
        );
        self.engine.docker("run -d --name shy --network shut busybox /bin/sleep 3600");
        self.until(&format!("{SPOKE} ps shut | grep -qw shy"));
        assert_eq!(self.spoke("egress set shut 10.9.0.7:443,10.9.0.8:443"), "shut\n");
        assert_eq!(self.spoke("egress set --container shy shut 10.9.0.7:443"), "shy on shut\n");
        self.spoke("egress set --container shy --inherit");
        assert!(self.spoke("egress show shut -o json").contains("\"title\": \"shut\""));
        self.spoke("egress test shut 10.9.0.8:443");
        self.engine.try_docker("exec shy nc -w 1 192.0.2.2 443");
        self.until(&format!("{SPOKE} denied shut | grep -w shy | grep -qw shut"));
        assert!(!self.spoke("denied").contains("docker-10."), "{}", self.spoke("denied"));
        let said = self.try_spoke("explain shy 192.0.2.2 443").stdout;
        assert!(said.contains("egress rules of network shut"), "{said}");
        self.engine.remove_each("shy");
        self.engine.docker("network rm shut");
    }
}

#[test]
fn of_docker() {
    let mut docker = Docker::new();
    docker.engine.docker("network create -d spoke --ipam-driver spoke --subnet 10.84.0.0/24 front");
    docker.serve("web", "--network front");
    docker.serve("api", "--network front -p 8080:80");
    docker.spoke("port add web 8443:80");
    docker.spoke("port add api 8444:80");
    for (port, name) in [(8443, "web"), (8444, "api"), (8080, "api")] {
        assert_eq!(docker.page(port), name);
    }
    docker.spoke("port add web 8446:80/udp");
    docker.until_held(8446, 1);
    docker.spoke("port rm web 8446/udp");
    docker.until_held(8446, 0);
    docker.refuses("port add web 8080:80", 4, &["8080/tcp", "api"]);
    docker.refuses("port rm api 8080", 2, &["its runtime"]);
    let refused = docker.engine.try_docker("run --rm --network front -p 8443:80 busybox true");
    assert!(refused.status != 0 && refused.stderr.contains("8443"), "{refused:?}");

    docker.spoke("limit web 7mbit");
    for name in ["web", "api"] {
        docker.engine.docker(&format!("restart -t 0 {name}"));
    }
    docker.comes_back("web", 8443);
    docker.comes_back("api", 8444);
    docker.until("[ $(tc qdisc show | grep -c \"rate 7Mbit\") = 2 ]");
    docker.lists("web", "front");
    docker.lists_refusals();
    docker.spoke("limit web none");
    docker.until("! tc qdisc show | grep -q 7Mbit");
    assert_eq!(docker.page(8080), "api");
    // Settings of a network that Docker made: it tells of it once, and restarts change nothing.
    let read = |name: &str| format!("exec {name} cat /sys/class/net/eth0/mtu");
    let mtu = |name: &str| docker.engine.docker(&read(name));
    docker.until(&format!("{SPOKE} network inspect front >/dev/null 2>&1"));
    let changed = docker.try_spoke("network set front --mtu 1400 --publish local");
    assert_eq!(changed.status, 0, "{changed:?}");
    assert!(changed.stderr.contains("docker network inspect"), "{changed:?}");
    assert_eq!((mtu("web").trim(), mtu("api").trim()), ("1400", "1400"));
    docker.no_page(8080);
    docker.engine.docker("restart -t 0 web");
    docker.until(&format!("{SPOKE} port ls web | grep 8443/tcp | grep -q published"));
    assert_eq!(mtu("web").trim(), "1400");
    docker.no_page(8443);
    docker.spoke("network set front --publish any");
    docker.comes_back("web", 8443);
    assert_eq!(docker.page(8080), "api");
    docker.refuses("network rename front edge", 2, &["docker", "under its own id"]);

    // The daemon's end changes nothing, and the next one goes on.
    docker.serve.take().unwrap().kill();
    assert_eq!(docker.page(8443), "web");
    docker.spoke("port add web 8445:80");
    docker.spoke("port add web 8446:80/udp");
    docker.serve = Some(Serve::start(docker.engine.world(), &[]));
    docker.until_held(8446, 1);
    docker.spoke("port rm web 8446/udp");
    docker.world().sh("nft flush ruleset");
    docker.until("nft list table inet spoke 2>/dev/null | grep -q 8445");
    assert_eq!((docker.page(8445), docker.page(8444)), ("web".into(), "api".into()));

    // A second network of the running container.
    docker.engine.docker("network create -d spoke --ipam-driver spoke --subnet 10.85.0.0/24 back");
    docker.engine.docker("network connect back api");
    assert_eq!((docker.page(8080), docker.page(8444)), ("api".into(), "api".into()));
    docker.engine.docker("network disconnect back api");
    docker.engine.docker("network rm back");
    for (name, port) in [("web", 8443), ("web", 8445), ("api", 8444)] {
        docker.spoke(&format!("port rm {name} {port}"));
        docker.no_page(port);
    }
    assert_eq!(docker.page(8080), "api");
    docker.engine.remove_each("web api");
    docker.engine.docker("network rm front");
    assert_eq!(docker.spoke("port ls --quiet"), "");
    assert_eq!(docker.elements(), Vec::<String>::new());
}

/// Where Docker publishes by a network of its own, the container's default route is on that.
#[test]
fn of_docker_that_publishes_itself() {
    let docker = Docker::new();
    docker.engine.docker(
        "network create -d spoke --ipam-driver spoke --subnet 10.84.0.0/24 -o ports=docker front",
    );
    docker.serve("web", "--network front -p 8080:80");
    assert_eq!(docker.page(8080), "web");
    docker.spoke("port add web 8443:80");
    assert_eq!((docker.page(8443), docker.page(8080)), ("web".into(), "web".into()));
    docker.refuses("port add web 8080:81", 4, &["8080"]);
    // The daemon learns what Docker calls its networks a moment after they were made.
    docker.until(&format!("{SPOKE} network inspect front >/dev/null 2>&1"));
    docker.refuses("network set front --publish lan", 2, &["docker publishes the ports"]);
    docker.engine.docker("restart -t 0 web");
    docker.comes_back("web", 8443);
    docker.refuses("port rm web 8443:81", 3, &["8443:81/tcp"]);
    docker.spoke("port rm web 8443:80");
    docker.no_page(8443);
    docker.engine.remove_each("web");
    docker.engine.docker("network rm front");
}
