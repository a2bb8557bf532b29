//! containerd's CRI plugin over gRPC, which calls every DEL twice.

use tests::Containerd;
use tests::grpc::Message;

use crate::stage::Stage;

const CONFLIST: &str = r#"{"cniVersion": "1.0.0", "name": "crinet", "plugins": [
    {"type": "bridge", "bridge": "cri0", "isGateway": true, "ipMasq": true, "ipam": {
        "type": "host-local", "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": "10.91.0.0/24"}], [{"subnet": "fd91::/64"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}},
    {"type": "firewall"}]}"#;

/// `PodSandboxConfig` with one published port.
fn sandbox(name: &str, host_port: u64, cgroup: &str) -> Message {
    let metadata = Message::default().text(1, name).text(2, name).text(3, "default");
    let port = Message::default().number(2, 80).number(3, host_port);
    let linux = Message::default().text(1, &format!("/{cgroup}"));
    let config = Message::default().message(1, &metadata).text(2, name);
    Message::default().message(1, &config.message(5, &port).message(8, &linux))
}

#[test]
fn sandboxes_come_and_go() {
    let stage = Stage::new();
    Containerd::set_up(&stage.world, CONFLIST);
    let cri = |method: &str, request: &Message| Containerd::cri(&stage.world, method, request);
    let first = cri("RunPodSandbox", &sandbox("one", 18081, stage.cgroup.name()));
    let second = cri("RunPodSandbox", &sandbox("two", 18082, stage.cgroup.name()));
    for (answer, address) in [(first, "10.91.0.2"), (second, "10.91.0.3")] {
        let id = Message::default().text(1, &answer.get(1).expect("an id").into_text());
        let status = cri("PodSandboxStatus", &id);
        let network = status.get(1).and_then(|status| status.get(5)).expect("a network");
        assert_eq!(network.get(1).expect("an address").into_text(), address);
        stage.world.sh(&format!("ping -c 1 -W 3 {address}"));
        cri("StopPodSandbox", &id);
        cri("RemovePodSandbox", &id);
    }
    stage.is_empty_after(&["crinet"]);
}
