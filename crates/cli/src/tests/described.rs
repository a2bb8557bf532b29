//! Networks that Podman's and CNI's files describe, and no container has been on.

use model::{Alias, Handoff, Runtime};

use super::*;

const PODMANS: &str = r#"{"name": "pq1", "driver": "spoke", "network_interface": "sp-pq1",
    "subnets": [{"subnet": "10.88.1.0/24", "gateway": "10.88.1.9"}],
    "options": {"label.tier": "db"}}"#;
const CNIS: &str = r#"{"name": "c1", "plugins": [{"type": "bridge", "bridge": "cni1",
    "ipam": {"type": "host-local", "subnet": "10.88.2.0/24"}}]}"#;

fn host() -> Fixture {
    let host = Fixture::new();
    host.write("etc/containers/networks/pq1.json", PODMANS);
    host.write("etc/cni/net.d/c1.conflist", CNIS);
    host
}

#[test]
fn a_described_network_is_shown_and_its_name_is_taken() {
    let host = host();
    let shown = host.spoke("network inspect pq1");
    assert!(shown.contains("10.88.1.0/24") && shown.contains("10.88.1.9"), "{shown}");
    assert_eq!(host.spoke("network ls -q --filter label=tier=db"), "pq1\n");
    assert!(host.spoke("ipam show 10.88.1.0/24").contains("pq1"));
    for (line, sentence) in [
        ("network create pq1", "pq1.json): choose another name, or join that one by its name"),
        ("network create --subnet 10.5.0.0/24 c1", "start a container on it there first, and join"),
        ("network inspect c1", "c1.conflist), and it is made with its first container"),
        ("network rm pq1", "pq1.json), and it is made with its first container"),
    ] {
        let (_, said) = host.refused(line);
        assert!(said.contains(sentence), "{line}: {said}");
    }
    assert!(host.engine().records.networks().unwrap().is_empty(), "nothing is made");
}

/// As a container of Podman's would have it made.
#[test]
fn a_described_network_is_joined_as_its_file_has_it() {
    let host = host();
    let joined = host.engine().networks.joined(&"pq1".parse().unwrap()).unwrap();
    assert_eq!(joined.runtime, Runtime::Podman);
    assert_eq!(host.engine().records.networks().unwrap(), [joined]);
    host.attach("pq1", "c1", None);
    assert!(host.spoke("ps").contains("10.88.1.1/24"));
    let missing = host.engine().networks.joined(&"c1".parse().unwrap()).unwrap_err();
    assert!(missing.to_string().contains("c1.conflist"), "{missing}");
}

/// What Docker calls a network.
fn dockers(network: &Network, title: &str) -> Alias {
    Alias {
        since: Timestamp(NOW),
        title: title.parse().ok(),
        handoff: Handoff::Caller,
        ..doubles::alias("0123", network)
    }
}

/// The network `edge` was called so, while containers were on it.
fn called_before(host: &Fixture, former: &str) {
    host.spoke(&format!("network create --subnet 10.5.0.0/24 {former}"));
    host.attach(former, "c1", None);
    host.spoke(&format!("network rename {former} third"));
    let engine = host.engine();
    let network = engine.records.network(&former.parse().unwrap()).unwrap();
    engine.links.detach(&request(&network, "c1", None)).unwrap();
    host.spoke("network rename third edge");
    assert_eq!(engine.records.network(&former.parse().unwrap()).unwrap().name.as_str(), "edge");
}

/// A network was called so before it was renamed, and Docker calls one so: Podman's has that name now.
#[test]
fn a_described_network_goes_before_former_names_and_dockers() {
    let host = Fixture::new();
    called_before(&host, "pq1");
    host.write("etc/containers/networks/pq1.json", PODMANS);
    let engine = host.engine();
    for is_dockers in [false, true] {
        if is_dockers {
            let edge = engine.records.network(&"edge".parse().unwrap()).unwrap();
            engine.networks.enroll(&dockers(&edge, "pq1"), &edge).unwrap();
        }
        assert!(host.spoke("network inspect pq1").contains("10.88.1.0/24"));
        let (_, said) = host.refused("network rm pq1");
        assert!(said.contains("pq1.json), and it is made with its first container"), "{said}");
        assert_eq!(engine.records.name_of(&"pq1".parse().unwrap()).unwrap().as_str(), "pq1");
    }
    let joined = engine.networks.joined(&"pq1".parse().unwrap()).unwrap();
    assert_eq!(joined.runtime, Runtime::Podman);
}

/// The kernel's names are of the name in the book.
#[test]
fn a_renamed_network_keeps_what_a_described_one_would_take() {
    let host = Fixture::new();
    host.spoke("network create --subnet 10.5.0.0/24 pq1");
    host.attach("pq1", "c1", None);
    host.spoke("network rename pq1 edge");
    host.write("etc/containers/networks/pq1.json", PODMANS);
    let refused = host.engine().networks.joined(&"pq1".parse().unwrap()).unwrap_err();
    let why = "cannot be made: network edge had that name and keeps it in the kernel";
    assert!(refused.to_string().contains(why), "{refused}");
}

#[test]
fn what_docker_calls_a_network_now_goes_before_former_names() {
    let host = Fixture::new();
    called_before(&host, "front");
    host.spoke("network create --subnet 10.6.0.0/24 back");
    let engine = host.engine();
    let found = || engine.records.network(&"front".parse().unwrap()).unwrap().name.to_string();
    assert_eq!(found(), "edge");
    let back = engine.records.network(&"back".parse().unwrap()).unwrap();
    engine.networks.enroll(&dockers(&back, "front"), &back).unwrap();
    assert_eq!(found(), "back");
}

#[test]
fn docker_joins_it_or_is_refused() {
    let host = host();
    let engine = host.engine();
    let alias = |network: &Network| dockers(network, "shop");
    let wiring = model::Wiring::default();
    let of_docker = |name: &str| {
        let ipam = model::Ipam::None;
        Network::new(name.parse().unwrap(), Runtime::Docker, Timestamp(NOW), wiring.clone(), ipam)
    };
    for name in ["pq1", "c1"] {
        let wanted = of_docker(name);
        let refused = engine.networks.enroll(&alias(&wanted), &wanted).unwrap_err();
        assert!(refused.to_string().contains("choose another name"), "{refused}");
    }
    let joined = engine.networks.joined(&"pq1".parse().unwrap()).unwrap();
    engine.networks.enroll(&alias(&joined), &joined).unwrap();
    let (_, said) = host.refused("network rm pq1");
    assert!(said.ends_with("remove it there, with `docker network rm shop`"), "{said}");
    let (code, out, said) = host.try_spoke(&["network", "rm", "--force", "pq1"]);
    assert_eq!((code, out.as_str()), (0, "pq1\n"));
    assert!(said.contains("docker still has network pq1 as shop"), "{said}");
    assert!(said.contains("`docker network rm shop`, and create it again"), "{said}");
}

/// Its configuration came on standard input, and no file has it.
#[test]
fn an_overlap_that_only_the_book_has_is_removed_there() {
    let host = Fixture::new();
    for name in ["rb1", "rb2"] {
        let file = format!("etc/containers/networks/{name}.json");
        let text = PODMANS.replace("pq1", name);
        host.write(&file, &text);
        let engine = host.engine();
        let network = engine.records.network_or_described(&name.parse().unwrap()).unwrap();
        std::fs::remove_file(host.path(&file)).unwrap();
        let request = request(&Network { runtime: Runtime::Cni, ..network }, name, None);
        engine.attachments.attach(&request).unwrap();
        engine.links.detach(&request).unwrap();
    }
    let report = host.try_spoke(&["doctor"]).1;
    assert!(report.contains("overlap: both give out the same addresses"), "{report}");
    assert!(report.contains("fix: spoke network rm rb"), "{report}");
}
