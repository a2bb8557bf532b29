//! Podman 5's containers, whose programs ask as the C library does.

use tests::{Podman5, PodmanRelease, Serve};

use crate::bed::{prepare, until_answers};

#[track_caller]
fn containers_find_each_other(release: PodmanRelease) {
    let Some(podman) = Podman5::new(release) else { return };
    prepare(&podman.world);
    let _serve = Serve::start(&podman.world, &[]);
    podman.podman("network create -d spoke -o names=true --subnet 10.73.1.0/24 front");
    podman.podman("network create -d spoke --subnet 10.73.2.0/24 plain");
    podman.run("web", "--network front:alias=www,ip=10.73.1.9", "");
    podman.run("api", "--network front:ip=10.73.1.8 --network-alias v1", "");
    podman.run("other", "--network plain", "");
    until_answers(&podman.world, "10.73.1.1");
    let read = podman.podman("exec api cat /etc/resolv.conf");
    assert!(read.contains("nameserver 10.73.1.1\n"), "{read}");
    assert!(read.contains("search front.spoke"), "{read}");
    let read = podman.podman("exec other cat /etc/resolv.conf");
    assert!(!read.contains("10.73.2.1"), "{read}");
    for (name, expected) in
        [("web", "10.73.1.9"), ("www.front.spoke", "10.73.1.9"), ("outside.example", "192.0.2.7")]
    {
        // It says whom it found, whether that answers or not.
        let ping = format!("/run/stage/podman exec api /bin/ping -c 1 -W 1 {name}");
        let found = podman.world.try_sh(&ping).stdout;
        assert!(found.contains(&format!("({expected})")), "{name}: {found}{}", podman.world.logs());
    }
    podman.podman("exec api /bin/ping -c 1 -W 5 www");
    let shown = podman.spoke("dns ls --format '{{.Name}} {{.Network}} {{join .Addresses \",\"}}'");
    assert_eq!(shown, "api front 10.73.1.8\nweb front 10.73.1.9\n");
    podman.podman("rm -f -t 0 web");
    let gone = podman.spoke("dns ls --quiet");
    assert_eq!(gone, "api\n");
    podman.podman("rm -f -t 0 api other");
}

#[test]
fn containers_of_debian_s_podman_find_each_other() {
    containers_find_each_other(PodmanRelease::V5_4);
}

#[test]
fn containers_of_the_newest_podman_find_each_other() {
    containers_find_each_other(PodmanRelease::V5_8);
}
