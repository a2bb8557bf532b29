//! The daemon in a container of the engine that it serves.

use tests::{Release, Serve};

use crate::bed::Bed;

const PLACES: &str = "-v /run/docker:/run/docker:rslave -v /var/run/docker.sock:/var/run/docker.sock \
                      -v /run/spoke:/run/spoke -v /var/lib/spoke:/var/lib/spoke";
const RIGHTS: &str = "--privileged --network host --pid host --restart always";
const ANSWERS: &str =
    "timeout 30 bash -c 'until /opt/cni/bin/spoke docker status; do sleep 0.05; done' >&2";

#[test]
fn the_daemon_runs_out_of_its_image_28_5() {
    let Some(mut bed) = Bed::new(Release::V28_5) else { return };
    let made = bed.spoke("docker image /tmp/spoke.tar -o json");
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    let name = made["name"].as_str().expect("a name").to_owned();
    bed.serve.stop();
    let (engine, world) = (&bed.engine, bed.engine.world());
    // As systemd leaves it, and a world of its own does not.
    world.sh("mount --make-rshared /run");
    engine.docker("load -i /tmp/spoke.tar");
    engine.docker(&format!("run -d --name spoke {RIGHTS} {PLACES} {name}"));
    world.sh(ANSWERS);
    let ours = "-d spoke --ipam-driver spoke --subnet 10.94.1.0/24";
    engine.docker(&format!("network create {ours} front"));
    for name in ["one", "two"] {
        engine.docker(&format!("run -d --name {name} --network front busybox /bin/sleep 3600"));
    }
    engine.ping("one", "two");
    engine.docker("restart -t 10 spoke");
    world.sh(ANSWERS);
    engine.docker("run -d --name three --network front busybox /bin/sleep 3600");
    engine.ping("three", "one");
    engine.docker("exec spoke /usr/bin/spoke ps front");
    engine.remove_each("one two three");
    engine.docker("network rm front");
    engine.docker("rm -f spoke");
    world.sh("rm /tmp/spoke.tar");
    bed.serve = Serve::start(bed.engine.world(), &[]);
    bed.is_clean();
}
