use engine::port::{Key, Record, Store, Txn};
use model::{Amendment, Bandwidth, Rate, Runtime};

use super::*;

/// What commands changed of a container that does not run.
fn wait(host: &Fixture, runtime: Runtime, name: &str) {
    let port = |port: u16| port.try_into().unwrap();
    let rate = |rate| Some(Rate { rate, burst: 1000 });
    let amendment = Amendment {
        network: "front".parse().unwrap(),
        runtime,
        name: name.parse().unwrap(),
        is_of_endpoint: false,
        layer: Layer::Link,
        ports: vec![PortMap {
            host: None,
            host_port: port(8080),
            container_port: port(80),
            protocol: model::Protocol::Tcp,
        }],
        bandwidth: Some(Bandwidth { ingress: rate(8000), ..Bandwidth::default() }),
        egress: Some("10.9.0.7:443".parse().unwrap()),
    };
    let key = Key::Amendment(amendment.network.clone(), runtime, amendment.name.clone());
    host.store.commit(&Txn::new().put(key, Record::Amendment(Box::new(amendment)))).unwrap();
}

fn waiting() -> Fixture {
    let host = Fixture::new();
    host.spoke("network create --subnet 10.70.1.0/24 front");
    wait(&host, Runtime::Docker, "web");
    wait(&host, Runtime::Podman, "web");
    host
}

/// Ports, limits and rules of another runtime's container went with them.
#[test]
fn a_name_of_two_waiting_containers_is_refused() {
    let host = waiting();
    for line in ["port rm NAME 8080", "limit NAME none", "egress set --inherit --container NAME"] {
        let before = host.engine().attachments.amendments().unwrap();
        let (code, error) = host.refused(&line.replace("NAME", "web"));
        assert_eq!(code, 4, "{line}: {error}");
        assert!(error.contains("docker:web, podman:web"), "{error}");
        assert_eq!(host.engine().attachments.amendments().unwrap(), before, "{line}");
        host.try_spoke(&line.replace("NAME", "podman:web").split(' ').collect::<Vec<_>>());
    }
    let remaining = host.engine().attachments.amendments().unwrap();
    let runtimes: Vec<Runtime> = remaining.iter().map(|it| it.runtime).collect();
    assert_eq!(runtimes, [Runtime::Docker]);
}

#[test]
fn limits_of_no_container_are_an_error() {
    let host = waiting();
    host.attach("front", "c1", Some("db"));
    assert_eq!(host.refused("limit wbe").0, 3);
    let names = |line: &str| host.spoke(line).lines().skip(1).count();
    assert_eq!(names("limit db"), 0);
    assert_eq!(names("limit web"), 2);
    assert_eq!(names("limit podman:web"), 1);
    assert_eq!(names("limit"), 2);
    assert_eq!(names("limit --network front"), 2);
    assert_eq!(names("limit --network other"), 0);
}

#[test]
fn a_network_is_found_by_its_runtime_s_own_name() {
    let host = waiting();
    super::network::entitle(&host, "front", "shop", model::Publisher::Runtime);
    for line in ["ps", "ports", "limit --network", "port ls --network"] {
        let (own, theirs) = (format!("{line} front"), format!("{line} shop"));
        assert_eq!(host.spoke(&theirs), host.spoke(&own), "{line}");
    }
    let names = |line: &str| host.spoke(line).lines().skip(1).count();
    assert_eq!((names("limit --network shop"), names("port ls --network shop")), (2, 2));
    host.spoke("port rm --network shop podman:web 8080");
    assert_eq!(names("port ls --network shop"), 1);
    host.spoke("limit --network shop podman:web none");
    assert_eq!(names("limit --network shop"), 1);
}

#[test]
fn limits_of_a_container_that_waits_are_lifted_in_json_too() {
    let host = waiting();
    assert_eq!(host.spoke("limit -o json docker:web none"), "[]\n");
    assert_eq!(host.spoke("limit podman:web none"), "");
    assert_eq!(host.spoke("limit -o json"), "[]\n");
}

#[test]
fn rows_say_what_limits_a_container_has() {
    let host = super::network::two_networks();
    let mut record = host.attach("back", "c1", None);
    let row = |record: &Attachment| {
        serde_json::to_value(crate::view::AttachmentView::of(&[record]).unwrap()).unwrap()
    };
    let free = row(&record);
    assert!(free["limit"].is_null() && free["quota"].is_null(), "{free}");
    record.wiring.bandwidth = Some(model::Bandwidth {
        egress: Some(model::Rate { rate: 10_000_000, burst: 80_000 }),
        quota: Some(model::Quota { bytes: 50_000_000_000, period: model::Period::Month }),
        ..model::Bandwidth::default()
    });
    let limited = row(&record);
    let rates = serde_json::json!({"ingress": null, "egress": 10_000_000});
    let quota = serde_json::json!({"bytes": 50_000_000_000_u64, "period": "month"});
    assert_eq!((&limited["limit"], &limited["quota"]), (&rates, &quota));
}

/// A container on two networks, the second of which a command has renamed since.
fn on_two() -> Fixture {
    let host = super::network::two_networks();
    host.attach("back", "c1", None);
    host.attach("front", "c1", None);
    host.spoke("network rename front edge");
    host
}

#[test]
fn what_is_used_is_of_the_quota_that_is_set() {
    let host = on_two();
    let rows = || -> serde_json::Value {
        serde_json::from_str(&host.spoke("limit c1 --quota 10GB/day -o json")).unwrap()
    };
    for used in [0, 7_000] {
        host.kernel.counted.set(Some(used));
        let rows = rows();
        let of = |row: usize| (rows[row]["network"].as_str(), rows[row]["used"].as_u64());
        assert_eq!((of(0), of(1)), ((Some("back"), Some(used)), (Some("edge"), Some(used))));
    }
    let lifted = host.spoke("limit c1 --quota none -o json");
    let lifted: serde_json::Value = serde_json::from_str(&lifted).unwrap();
    assert!(lifted[0]["used"].is_null() && lifted[0]["quota"].is_null(), "{lifted}");
}

#[test]
fn what_cannot_be_counted_leaves_no_interface_without_its_limits() {
    let host = on_two();
    host.kernel.stuck.borrow_mut().insert("c1".to_owned());
    let line = ["limit", "c1", "--quota", "10GB/day", "-o", "json"];
    let (code, out, err) = host.try_spoke(&line);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        err.matches("it is not known how much of the quota of c1 is used").count(),
        2,
        "{err}"
    );
    let rows: serde_json::Value = serde_json::from_str(&out).unwrap();
    for row in [0, 1] {
        assert!(rows[row]["used"].is_null(), "{rows}");
        assert_eq!(rows[row]["quota"], 10_000_000_000_u64, "{rows}");
    }
    let records = host.engine().records.attachments().unwrap();
    assert!(records.iter().all(|it| it.quota().is_some()), "{records:?}");
}

/// A network that was made since may have the name in the book of one that was renamed.
#[test]
fn the_doctor_advises_commands_with_the_new_name_of_a_network() {
    let host = super::network::two_networks();
    host.attach("front", "c1", None);
    host.spoke("network rename front edge");
    host.spoke("limit c1 --quota 10GB/day");
    host.kernel.counted.set(Some(10_000_000_000));
    host.write("proc/sys/net/ipv4/ip_forward", "0\n");
    let said = host.try_spoke(&["doctor"]).1;
    for line in [
        "      note: spoke limit --network edge c1 --quota SIZE/PERIOD\n",
        "      fix: ip netns add spoke-forward && spoke network connect edge spoke-forward && ",
    ] {
        assert!(said.contains(line), "{line}\n---\n{said}");
    }
}
