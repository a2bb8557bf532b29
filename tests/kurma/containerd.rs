//! X3: containerd 1.6, which knows nothing of images of plugins.

use tests::grpc::Message;
use tests::kurma::Kurma;
use tests::{Cgroup, Containerd, Plugins, Podman};

use crate::runtimes::{host, images, list};
use crate::seed::OURS;

/// A host whose containerd has one network, with its plugin in `image`.
#[track_caller]
fn stage(image: &str) -> Kurma {
    // The reference's image has no iptables in it.
    let masquerade = image == OURS;
    let kurma = host();
    Podman::set_up(&kurma.world);
    Containerd::set_up(&kurma.world, &list(image, masquerade).to_string());
    kurma
}

/// That no container is connected any more, and none holds an address.
#[track_caller]
fn nothing_is_left(kurma: &Kurma, image: &str) {
    assert_eq!(kurma.world.sh("ip -o link show type veth"), "", "{image}");
    assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "", "{image}");
    let held = kurma.world.sh(&format!("{}/spoke ps -o json", Plugins::MOUNT));
    assert_eq!(held.trim(), "[]", "{image}");
    let rules = kurma.world.sh("iptables-save -t nat; nft list table inet spoke 2>/dev/null || :");
    assert!(!rules.contains("10.63.0.2"), "{image}: {rules}");
}

/// The client calls plugins by itself, and DEL with an empty namespace.
#[test]
fn x3_its_client() {
    for image in images() {
        let kurma = stage(image);
        let cgroup = Cgroup::new();
        for round in 0..2 {
            let said = Containerd::run(
                &kurma.world,
                &format!(
                    "ctr run --snapshotter native --cni --rm --cgroup {}/{round} {} c{round} \
                     /bin/ping -c 1 -W 3 10.63.0.1",
                    cgroup.name(),
                    Podman::IMAGE
                ),
            );
            assert!(said.contains("1 packets received"), "{image}: {said}");
        }
        nothing_is_left(&kurma, image);
    }
}

/// As the kubelet calls it: pods, whose DEL comes twice.
#[test]
fn x3_pods_of_the_kubelet() {
    for image in images() {
        let kurma = stage(image);
        let cgroup = Cgroup::new();
        let cri = |method: &str, request: &Message| Containerd::cri(&kurma.world, method, request);
        let started = ["one", "two"].map(|name| {
            let metadata = Message::default().text(1, name).text(2, name).text(3, "default");
            let linux = Message::default().text(1, &format!("/{}", cgroup.name()));
            let config = Message::default().message(1, &metadata).text(2, name).message(8, &linux);
            let pod = cri("RunPodSandbox", &Message::default().message(1, &config));
            Message::default().text(1, &pod.get(1).expect("an id").into_text())
        });
        for (id, address) in started.iter().zip(["10.63.0.2", "10.63.0.3"]) {
            let status = cri("PodSandboxStatus", id);
            let network = status.get(1).and_then(|status| status.get(5)).expect("a network");
            assert_eq!(network.get(1).expect("an address").into_text(), address, "{image}");
            kurma.world.sh(&format!("ping -c 1 -W 3 {address}"));
        }
        for id in &started {
            cri("StopPodSandbox", id);
            cri("RemovePodSandbox", id);
        }
        nothing_is_left(&kurma, image);
    }
}
