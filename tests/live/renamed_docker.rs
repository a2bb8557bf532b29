//! `docker rename` of a container with rules of its own.

use crate::bed::{Live, SPOKE};
use crate::docker::Docker;

const RULES: &str = "203.0.113.20:5432";

/// Until a container of this name has these rules, and no others, on `front`.
#[track_caller]
fn has(docker: &Docker, name: &str, rules: &str) {
    let of_it = format!(".containers[] | select(.container == \"docker/{name}\") | .rules");
    docker.until(&format!(
        "[ \"\\$({SPOKE} egress show front -o json | jq -c '{of_it}')\" = '{rules}' ]"
    ));
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
    docker.until(&format!("{SPOKE} ps | grep -qw docker/web"));
    docker.spoke(&format!("egress set --container web {RULES}"));
    println!("{}", docker.spoke("egress show front -o json"));
    let rules = format!("[\"{RULES}\"]").replace('"', "\\\"");
    has(&docker, "web", &rules);
    docker.engine.docker("rename web other");
    docker.until(&format!("{SPOKE} ps | grep -qw docker/other"));
    docker.engine.docker("restart -t 0 other");
    has(&docker, "other", &rules);
    docker.engine.docker(&run.replace("-d", "-d --name web"));
    has(&docker, "web", &rules);
    has(&docker, "other", &rules);
    docker.engine.remove_each("web other");
    docker.engine.docker("network rm front");
}
