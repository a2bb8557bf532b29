//! Docker's row.

use tests::{Engine, Plugins, Release, Serve, World};

use crate::back::{Back, Kind, LIST_FILE};
use crate::{NAMES, PORT, Runtime, SIDE, speak};

struct Docker {
    engine: Engine,
    // Before its world, which the engine has.
    _serve: Serve,
}

impl Runtime for Docker {
    fn world(&self) -> &World {
        self.engine.world()
    }

    #[track_caller]
    fn inside(&self, name: &str, script: &str) -> String {
        let done = self.engine.exec(name, &["sh", "-euc", script]);
        assert_eq!(done.status, 0, "{name}: {script}\n{}{}", done.stdout, done.stderr);
        done.stdout
    }

    #[track_caller]
    fn restart(&mut self, name: &str) {
        self.engine.docker(&format!("restart -t 0 {name}"));
    }

    #[track_caller]
    fn connect(&mut self, name: &str) {
        let options = format!("--ipam-driver spoke --ipam-opt network=side --subnet {SIDE}");
        self.engine.docker(&format!("network create -d spoke {options} side"));
        self.engine.docker(&format!("network connect side {name}"));
    }

    #[track_caller]
    fn disconnect(&mut self, name: &str) {
        self.engine.docker(&format!("network disconnect side {name}"));
        self.engine.docker("network rm side");
    }

    #[track_caller]
    fn leave(&mut self) {
        self.engine.docker(&format!("rm -f {}", NAMES.join(" ")));
        self.engine.docker("network rm net");
    }
}

#[track_caller]
fn on(kind: Kind) {
    // The newest that is there: Debian 12's own always is.
    let release = Some(Release::V28_5).filter(|release| release.is_there());
    let mut engine = Engine::prepared(release.unwrap_or(Release::V20_10), &Plugins::subject());
    let back = Back::new(kind, engine.world());
    let serve = Serve::start(engine.world(), &[]);
    engine.start(&[]);
    engine.import();
    back.create(engine.world());
    let options = match kind {
        Kind::Kernel => "--ipam-driver spoke --ipam-opt network=net --subnet 10.77.0.0/24".into(),
        Kind::Neutron => "--ipam-driver null -o driver=neutron -o neutron.network=front".into(),
        Kind::CniPlugin | Kind::Image => format!("--ipam-driver null -o cni={LIST_FILE}"),
        Kind::DockerPlugin => "--ipam-driver null -o network=net".to_owned(),
    };
    engine.docker(&format!("network create -d spoke {options} net"));
    for (name, port) in NAMES.into_iter().zip([format!("-p {PORT}:80"), String::new()]) {
        engine
            .docker(&format!("run -d --name {name} --network net {port} busybox /bin/sleep 3600"));
    }
    let mut docker = Docker { engine, _serve: serve };
    speak(&mut docker, &back, "Docker");
}

#[test]
fn docker_on_the_kernel() {
    on(Kind::Kernel);
}

#[test]
fn docker_on_neutron() {
    on(Kind::Neutron);
}

#[test]
fn docker_on_a_foreign_cni_plugin() {
    on(Kind::CniPlugin);
}

#[test]
fn docker_on_a_foreign_docker_plugin() {
    on(Kind::DockerPlugin);
}

#[test]
fn docker_on_a_plugin_out_of_an_image() {
    on(Kind::Image);
}
