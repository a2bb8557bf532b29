//! Podman 5's containers.

use tests::{Podman5, PodmanRelease};

use crate::bed::{Beside, NEIGHBOUR, SPOKE, fetch, is_counted, json, row, until};

#[test]
fn podmans_containers_are_counted_named_and_captured() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_8) else { return };
    let world = &podman.world;
    world.sh(NEIGHBOUR);
    podman.podman("network create -d spoke --subnet 10.76.2.0/24 --gateway 10.76.2.1 front");
    podman.serve("web", "--network front -p 8080:80");
    fetch(world, "client", "192.0.2.1", 8080);
    let rows = json(world, "top");
    let web = row(&rows, "runtime", "podman");
    let name = web["name"].as_str().expect("a name");
    let pid = podman.podman("inspect --format {{.State.Pid}} web");
    is_counted(world, name, &format!("/proc/{}/ns/net", pid.trim()), "eth0");
    let flows = json(world, "flows web");
    let flow = row(&flows, "published", "192.0.2.1:8080");
    assert_eq!(
        (&flow["destination"]["name"], &flow["destination"]["runtime"]),
        (&name.into(), &"podman".into())
    );
    let running = Beside::spoke(world, "capture web -w /run/web.pcapng");
    let file = world.path("/run/web.pcapng");
    let header = until("a header", || file.metadata().ok().filter(|it| it.len() > 100)).len();
    fetch(world, "client", "192.0.2.1", 8080);
    podman.podman("rm -f -t 0 web");
    let (is_done, _, notes) = running.end();
    assert!(is_done && notes.contains("is gone; the capture ends here"), "{notes}");
    assert!(file.metadata().expect("a file").len() > header + 500, "packets\n{notes}");
    assert_eq!(world.sh(&format!("{SPOKE} top -o json")).trim(), "[]");
    podman.podman("network rm front");
    world.sh("ip link del up0; ip netns del client; rm -f /run/web.pcapng");
    podman.is_empty();
}
