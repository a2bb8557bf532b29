//! `docker rename` of a container with rules of its own.

use crate::bed::{Live, SPOKE};
use crate::docker::Docker;

const RULES: &str = "203.0.113.20:5432";

/// Until a container of this name has the rules on `front`.
#[track_caller]
fn has(docker: &Docker, name: &str) {
    docker.until(&format!("{SPOKE} egress show front | grep -q \"docker/{name}.*{RULES}\""));
}

#[track_caller]
fn is_called(docker: &Docker, name: &str) {
    let names = format!("{SPOKE} ps --format \"{{{{.Name}}}}\"");
    docker.until(&format!("{names} | grep -Eq \"(^|/){name}$\""));
}

/// It keeps them under its new name, and its old name gives them to the next container.
#[test]
fn egress_follows_a_renamed_container() {
    let docker = Docker::new();
    docker.engine.docker(
        "network create -d spoke --ipam-driver spoke --subnet 10.84.0.0/24 -o egress=203.0.113.0/24:1-9 front",
    );
    let run = "run -d --network front busybox sleep 100000";
    docker.engine.docker(&run.replace("-d", "-d --name web"));
    is_called(&docker, "web");
    docker.spoke(&format!("egress set --container web {RULES}"));
    has(&docker, "web");
    docker.engine.docker("rename web other");
    is_called(&docker, "other");
    docker.engine.docker("restart -t 0 other");
    has(&docker, "other");
    docker.engine.docker(&run.replace("-d", "-d --name web"));
    has(&docker, "web");
    has(&docker, "other");
    docker.engine.remove_each("web other");
    docker.engine.docker("network rm front");
}
