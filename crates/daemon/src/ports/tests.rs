//! Whose port it is, and since when, decides who keeps it.

use engine::port::{Revision, Versioned};
use model::{Attached, Publish};

use super::*;

const NOW: Timestamp = Timestamp(1_000);

fn id(container: &str) -> AttachmentId {
    doubles::attachment_id("front", container)
}

fn change(container: &str, runtime: Runtime, since: u64) -> Changed {
    let phase = Phase::Attached(Attached::default());
    let id = id(container);
    let mut record = Attachment::new(id.clone(), Layer::Link, runtime, Timestamp(since), phase);
    record.addresses = serde_json::from_value(serde_json::json!([
        {"address": "10.0.0.2/24", "gateway": null, "interface": null}
    ]))
    .unwrap();
    let ports = serde_json::from_value(serde_json::json!([
        {"host": null, "host_port": 8080, "container_port": 80, "protocol": "tcp"}
    ]))
    .unwrap();
    record.wiring.publish = Some(Publish { ports, ..Publish::new(model::Backend::Nftables) });
    let now = Versioned { record: Record::Attachment(record.into()), revision: Revision(1) };
    Changed { key: Key::Attachment(id, Layer::Link), now: Some(now) }
}

fn gone(container: &str) -> Changed {
    Changed { key: Key::Attachment(id(container), Layer::Link), now: None }
}

fn is_early(changed: &Changed, since: Option<Instant>) -> bool {
    let mut ports = Ports::default();
    ports.learn(changed, since, NOW);
    ports.wanted().values().all(PublishedPort::is_early)
}

/// A daemon that starts between the plugin's ADD and Podman 4's bind leaves the port to Podman.
#[test]
fn what_was_published_just_before_the_daemon_came_is_early() {
    assert!(is_early(&change("web", Runtime::Cni, 1_000), None));
    assert!(is_early(&change("web", Runtime::Cni, 990), None));
    assert!(is_early(&change("web", Runtime::Cni, 2_000), None), "the clock was set back");
    assert!(!is_early(&change("web", Runtime::Cni, 900), None));
    assert!(!is_early(&change("web", Runtime::Docker, 1_000), None));
    assert!(is_early(&change("web", Runtime::Cni, 1), Some(Instant::now())), "seen to come");
}

#[test]
fn a_port_of_another_owner_is_decided_anew() {
    let mut ports = Ports::default();
    let mut decide = |changes: &[Changed]| {
        changes.iter().for_each(|changed| ports.learn(changed, None, NOW));
        let wanted = ports.wanted();
        ports.drop_stale(&wanted);
        let is_decided = !ports.states.is_empty();
        for (target, wanted) in &wanted {
            ports.states.insert(*target, (wanted.owner(), State::Reserved));
        }
        is_decided
    };
    assert!(!decide(&[change("web", Runtime::Podman, 1)]));
    assert!(decide(&[]), "nothing has changed");
    assert!(!decide(&[gone("web"), change("api", Runtime::Docker, 1)]), "another container's");
    assert!(!decide(&[change("api", Runtime::Podman, 1)]), "another runtime's");
    assert!(!decide(&[gone("api")]));
}

#[test]
fn what_failed_is_tried_again() {
    assert!(State::Failed { why: String::new() }.is_open());
    assert!(State::Taken { reported: None }.is_open() && State::Early.is_open());
    assert!(!State::Reserved.is_open() && !State::Done { _socket: None }.is_open());
}
