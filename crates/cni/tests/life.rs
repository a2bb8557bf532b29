//! CHECK, DEL, GC and STATUS.

mod rig;

use cni::Plugin;
use rig::{Rig, config, previous};
use serde_json::{Value, json};

fn member(container: &str) -> Value {
    json!({"containerID": container, "ifname": "eth0"})
}

#[test]
fn del_understands_less_and_less() {
    let rig = Rig::new();
    let ipam = rig.host_local("10.9.0.0/24");
    let good = config(json!({"ipam": ipam}));
    let file = rig.root.path().join("net/10.9.0.2");
    for broken in [
        json!({"prevResult": {"cniVersion": "7"}, "ipam": ipam}),
        json!({"vlan": "x", "ipam": ipam}),
        json!({"ipam": {"type": "host-local", "dataDir": rig.root.path(), "ranges": 5}}),
        json!({"ipam": {}}),
    ] {
        rig.add(Plugin::Bridge, "c1", &good);
        let files = std::fs::read_dir(rig.root.path().join("net")).unwrap().count();
        let output = rig.with("DEL", Plugin::Bridge, ("c1", "FOO"), &config(broken.clone()));
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{broken}: {output:?}");
        let left = std::fs::read_dir(rig.root.path().join("net")).unwrap().count();
        assert_eq!(left, files - 1, "{broken}");
        assert!(!file.exists());
    }
}

#[test]
fn del_of_what_the_reference_plugins_made() {
    let rig = Rig::new();
    let directory = rig.root.path().join("net");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("10.9.0.2"), "c1\r\neth0").unwrap();
    let config = config(json!({"ipMasq": true, "ipam": rig.host_local("10.9.0.0/24")}));
    let variables = [
        ("CNI_COMMAND", "DEL"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_NETNS", "/vanished"),
        ("CNI_PATH", "/x"),
    ];
    assert_eq!(rig.call(Plugin::Bridge, &variables, &config.to_string()).code, 0);
    assert!(!directory.join("10.9.0.2").exists());
    let (verb, reported) = rig.last();
    assert_eq!(
        (verb, reported.runtime, reported.sandbox),
        ("detach", model::Runtime::Reference, None)
    );
    assert!(reported.wiring.link.is_some() && reported.wiring.masquerade.is_some());
}

#[test]
fn an_address_that_a_reference_directory_holds_is_not_given_out() {
    let rig = Rig::new();
    let directory = rig.root.path().join("net");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("10.9.0.2"), "other\r\neth0").unwrap();
    let config = config(json!({"ipam": rig.host_local("10.9.0.0/24")}));
    assert_eq!(rig.add(Plugin::Bridge, "c1", &config)["ips"][0]["address"], "10.9.0.3/24");
    let exactly = rig.with("ADD", Plugin::Bridge, ("c2", "IP=10.9.0.2"), &config);
    assert!(
        exactly.stdout.contains("\"code\":101") && exactly.stderr.contains("other"),
        "{exactly:?}"
    );
}

#[test]
fn check_needs_the_result() {
    let rig = Rig::new();
    let ipam = rig.host_local("10.9.0.0/24");
    let plain = config(json!({"bridge": "br7", "ipam": ipam}));
    let result = rig.add(Plugin::Bridge, "c1", &plain);
    let missing = rig.command("CHECK", Plugin::Bridge, "c1", &plain);
    assert!(missing.stdout.contains("Required prevResult missing"), "{missing:?}");
    let with =
        |result: &Value| config(json!({"bridge": "br7", "ipam": ipam, "prevResult": result}));
    let good = rig.command("CHECK", Plugin::Bridge, "c1", &with(&result));
    assert_eq!((good.code, good.stdout.as_str()), (0, ""), "{good:?}");
    let mut elsewhere = result.clone();
    elsewhere["interfaces"][1]["sandbox"] = json!("/ns/two");
    let bad = rig.command("CHECK", Plugin::Bridge, "c1", &with(&elsewhere));
    assert!(
        bad.stdout
            .contains("Sandbox in prevResult /ns/two doesn't match configured netns: /ns/one")
    );
    std::fs::remove_file(rig.root.path().join("net/10.9.0.2")).unwrap();
    let gone = rig.command("CHECK", Plugin::Bridge, "c1", &with(&result));
    assert!(gone.stdout.contains("Failed to find address added by container c1"), "{gone:?}");
    let unknown = rig.command("CHECK", Plugin::HostLocal, "c9", &config(json!({"ipam": ipam})));
    assert_eq!(unknown.code, 1, "{unknown:?}");
}

#[test]
fn gc_removes_who_is_not_listed() {
    let rig = Rig::new();
    let ipam = rig.host_local("10.9.0.0/24");
    let plain = config(json!({"ipam": ipam}));
    for container in ["c1", "c2"] {
        rig.add(Plugin::Bridge, container, &plain);
    }
    std::fs::write(rig.root.path().join("net/10.9.0.77"), "gone\r\neth0").unwrap();
    let gc = |fields: Value| rig.command("GC", Plugin::Bridge, "", &config(fields));
    assert_eq!(gc(json!({"ipam": ipam})).code, 0);
    assert!(rig.root.path().join("net/10.9.0.77").exists(), "no list is not an empty list");
    let listed = gc(json!({"ipam": ipam, "cni.dev/valid-attachments": [member("c2")]}));
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""), "{listed:?}");
    for (address, there) in [("10.9.0.2", false), ("10.9.0.3", true), ("10.9.0.77", false)] {
        assert_eq!(rig.root.path().join("net").join(address).exists(), there, "{address}");
    }
    let bad = gc(json!({"ipam": ipam, "cni.dev/valid-attachments": [5]}));
    assert!(bad.stdout.contains("\"code\":7"), "{bad:?}");
    assert!(rig.root.path().join("net/10.9.0.3").exists());
}

/// The runtime names `eth0` also of a container for which `loopback` brought up `lo`.
#[test]
fn gc_keeps_the_loopback_of_a_listed_container() {
    let rig = Rig::new();
    let plain = config(json!({}));
    rig.add(Plugin::Loopback, "c1", &plain);
    rig.add(Plugin::Loopback, "c2", &plain);
    let listed = config(json!({"cni.dev/valid-attachments": [member("c2")]}));
    assert_eq!(rig.command("GC", Plugin::Loopback, "", &listed).code, 0);
    let calls = rig.driver.calls.borrow();
    let detached = calls.iter().filter(|(verb, _)| *verb == "detach");
    let gone: Vec<_> = detached.map(|(_, record)| record.id.container.as_str()).collect();
    assert_eq!(gone, ["c1"]);
}

#[test]
fn status_of_a_full_pool() {
    let rig = Rig::new();
    let config = config(json!({"ipam": rig.host_local("10.9.0.0/30")}));
    for plugin in [Plugin::Bridge, Plugin::HostLocal, Plugin::Portmap, Plugin::Loopback] {
        assert_eq!(rig.command("STATUS", plugin, "", &config).code, 0, "{plugin:?}");
    }
    rig.add(Plugin::Bridge, "c1", &config);
    for plugin in [Plugin::Bridge, Plugin::HostLocal] {
        let full = rig.command("STATUS", plugin, "", &config);
        assert!(full.stdout.contains("\"code\":50"), "{plugin:?}: {full:?}");
    }
    let full = rig.command("ADD", Plugin::Bridge, "c2", &config);
    assert!(full.stdout.contains("\"code\":102"), "{full:?}");
}

/// What the runtime gives with ADD is not known before. Without the capability it never comes.
#[test]
fn status_of_what_comes_with_add() {
    let rig = Rig::new();
    let local = json!({"type": "host-local", "dataDir": rig.root.path().join("data")});
    let no_type = json!({"routes": []});
    let device = json!({"driver": "host-device"});
    let cases = [
        (Plugin::Bridge, json!({"ipam": local}), "ipRanges"),
        (Plugin::HostLocal, json!({"ipam": local}), "ipRanges"),
        (Plugin::Spoke, json!({"ipam": no_type}), "ipRanges"),
        (Plugin::Spoke, json!({"ipam": local}), "ipRanges"),
        (Plugin::HostDevice, json!({}), "deviceID"),
        (Plugin::Spoke, device, "deviceID"),
    ];
    for (plugin, mut fields, capability) in cases {
        let never = rig.command("STATUS", plugin, "", &config(fields.clone()));
        assert!(never.stdout.contains("\"code\":7"), "{plugin:?}: {never:?}");
        fields["capabilities"] = json!({capability: true});
        let awaited = rig.command("STATUS", plugin, "", &config(fields.clone()));
        assert_eq!(awaited.code, 0, "{plugin:?}: {awaited:?}");
        let added = rig.command("ADD", plugin, "c1", &config(fields));
        assert!(added.stdout.contains("\"code\":7"), "{plugin:?}: {added:?}");
    }
}

#[test]
fn a_port_less_container_costs_its_chain_nothing() {
    let rig = Rig::new();
    let config = config(json!({"prevResult": previous()}));
    assert_eq!(rig.add(Plugin::Portmap, "c1", &config), previous());
    assert_eq!(rig.command("CHECK", Plugin::Portmap, "c1", &config).code, 0);
    assert!(rig.driver.calls.borrow().is_empty());
    assert_eq!(rig.command("DEL", Plugin::Portmap, "c1", &config).code, 0);
    assert!(rig.last().1.wiring.publish.is_none());
}
