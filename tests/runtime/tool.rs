//! `cnitool`, with the environment and the output of the reference program.

use serde_json::Value;
use tests::{Plugins, World};

use crate::{SPOKE, world};

const LIST: &str = r#"{"cniVersion": "1.0.0", "cniVersions": ["0.4.0", "7.0.0"], "name": "net",
    "plugins": [
    {"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local",
        "ranges": [[{"subnet": "10.77.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}]}"#;

/// Environment of every call.
const ENVIRONMENT: &str = "export CNI_PATH=/opt/cni/bin PATH=/run/ours:$PATH";

fn sh(world: &World, script: &str) -> String {
    world.sh(&format!("{ENVIRONMENT}\n{script}"))
}

fn refused(world: &World, script: &str) -> String {
    let output = world.try_sh(&format!("{ENVIRONMENT}\n{script}"));
    assert_eq!(output.status, 1, "{script}\n{}{}", output.stdout, output.stderr);
    output.stderr
}

fn write(world: &World, name: &str, text: &str) {
    std::fs::create_dir_all(world.path("/etc/cni/net.d/net")).unwrap();
    std::fs::write(world.path(&format!("/etc/cni/net.d/{name}")), text).unwrap();
}

fn results(world: &World) -> String {
    world.sh("ls /var/lib/cni/results 2>/dev/null || true").trim().to_owned()
}

#[test]
fn lives_with_both_versions_of_the_reference_plugins() {
    for plugins in [Plugins::previous(), Plugins::reference()] {
        let world = world(&plugins);
        write(&world, "10-net.conflist", LIST);
        write(&world, "net/10-mtu.conf", r#"{"type": "tuning", "mtu": 1300}"#);
        world.netns("blue");
        let ports = r#"CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}'"#;
        let said = sh(&world, &format!("{ports} cnitool add net /run/netns/blue"));
        let result: Value = serde_json::from_str(&said).expect("the result");
        assert_eq!(result["cniVersion"], "1.0.0");
        assert_eq!(result["ips"][0]["address"], "10.77.0.2/24");
        assert!(said.contains("\n    \"cniVersion\": \"1.0.0\""), "{said}");
        assert!(sh(&world, "ip -n blue link show eth0").contains("mtu 1300"));
        assert!(sh(&world, "iptables -t nat -S").contains("10.77.0.2:80"));
        let id = format!(
            "cnitool-{}",
            world.sh("printf /run/netns/blue | sha512sum | cut -c-20").trim()
        );
        assert_eq!(results(&world), format!("net-{id}-eth0"));
        assert_eq!(world.sh("stat -c %a /var/lib/cni/results/*").trim(), "600");
        sh(&world, "cnitool check net /run/netns/../netns/blue");
        let again = refused(&world, "cnitool add net /run/netns/blue");
        assert!(again.starts_with("plugin type=\"bridge\" failed (add): "), "{again}");
        assert_eq!(results(&world), format!("net-{id}-eth0"), "a second ADD takes nothing away");
        sh(&world, "ip -n blue link set eth0 mtu 1400");
        refused(&world, "cnitool check net /run/netns/blue");
        // The reference's portmap wants to hear the ports again, which the cache knows.
        sh(&world, &format!("{SPOKE} cni del net /run/netns/blue"));
        sh(&world, "cnitool del net /run/netns/blue");
        assert_eq!(results(&world), "");
        assert!(!sh(&world, "iptables -t nat -S").contains("10.77.0.2:80"));
        assert_eq!(world.sh("find /var/lib/cni/networks/net -name '10.*'"), "");
    }
}

#[test]
fn a_failed_attachment_leaves_nothing() {
    let world = world(&Plugins::reference());
    write(&world, "net.conflist", &LIST.replace("portmap", "absent"));
    world.netns("blue");
    let said = refused(&world, "cnitool add net /run/netns/blue");
    assert_eq!(
        said,
        "plugin type=\"absent\" failed (add): failed to find plugin \"absent\" in path [/opt/cni/bin]\n"
    );
    assert_eq!(world.sh("find /var/lib/cni/networks/net -name '10.*'"), "");
    assert_eq!(world.sh("ip -n blue -o link | wc -l").trim(), "1");
    assert_eq!(results(&world), "");
}

#[test]
fn a_plugin_is_never_found_by_a_path() {
    let world = world(&Plugins::reference());
    world.netns("blue");
    world.sh("printf '#!/bin/sh\\ntouch /run/ran\\n' >/run/evil && chmod +x /run/evil");
    for kind in ["../../../run/evil", "/run/evil", "..", "."] {
        let list =
            format!(r#"{{"cniVersion":"1.0.0","name":"net","plugins":[{{"type":"{kind}"}}]}}"#);
        write(&world, "net.conflist", &list);
        let said = refused(&world, "cnitool add net /run/netns/blue");
        assert!(said.contains(&format!("invalid plugin name: {kind}")), "{said}");
    }
    assert_eq!(world.try_sh("test -e /run/ran").status, 1);
}

#[test]
fn collects_what_is_not_in_use() {
    let world = world(&Plugins::reference());
    write(&world, "net.conflist", LIST);
    for name in ["one", "two"] {
        world.netns(name);
        sh(&world, &format!("{SPOKE} cni add net /run/netns/{name} --container {name} >/dev/null"));
    }
    let listed = sh(&world, &format!("{SPOKE} cni attachments --container two"));
    assert!(listed.contains("10.77.0.3/24") && !listed.contains("one"), "{listed}");
    world.sh("ip netns del one");
    sh(&world, &format!("{SPOKE} cni gc net"));
    assert_eq!(results(&world), "net-two-eth0");
    assert_eq!(world.sh("ls /var/lib/cni/networks/net | grep ^10.").trim(), "10.77.0.3");
    // The configuration is gone: what it was then is in the cache.
    world.sh("rm -r /etc/cni/net.d/*");
    sh(&world, &format!("{SPOKE} cni del net --container two"));
    assert_eq!(results(&world), "");
    assert_eq!(world.sh("ip -n two -o link | wc -l").trim(), "1");
}

/// What another runtime attached is in its own cache, and in Spoke's records.
#[test]
fn collects_nothing_that_another_runtime_has() {
    let world = world(&Plugins::subject());
    let plugin = r#"{"type": "bridge", "bridge": "br0", "ipam": {"type": "host-local",
        "ranges": [[{"subnet": "10.77.0.0/24"}]]}}"#;
    let list = format!(r#"{{"cniVersion": "1.1.0", "name": "net", "plugins": [{plugin}]}}"#);
    write(&world, "net.conflist", &list);
    for (name, more) in [("one", ""), ("two", "--cache-dir /run/other")] {
        world.netns(name);
        let add = format!("cni add net /run/netns/{name} --container {name} {more}");
        sh(&world, &format!("{SPOKE} {add} >/dev/null"));
    }
    let held = || world.sh("ls /var/lib/cni/networks/net | grep ^10. || true").trim().to_owned();
    sh(&world, &format!("{SPOKE} cni gc net"));
    assert_eq!(held(), "10.77.0.2\n10.77.0.3");
    assert_eq!(world.sh("ip -n two -o link | wc -l").trim(), "2");
    world.sh("ip netns del one");
    sh(&world, &format!("{SPOKE} cni gc net"));
    assert_eq!(held(), "10.77.0.3");
    sh(&world, &format!("{SPOKE} cni gc net --all"));
    assert_eq!(held(), "");
    assert_eq!(world.sh("ip -n two -o link | wc -l").trim(), "1");
}

/// As libcni, which leaves its environment to plugins.
#[test]
fn plugins_may_be_allowed_their_own_namespace() {
    let world = world(&Plugins::reference());
    let list = r#"{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"says"}]}"#;
    write(&world, "net.conflist", list);
    let says = r#"cat >/dev/null; echo "$CNI_COMMAND ${CNI_NETNS_OVERRIDE-none}" >>/run/said
        echo '{"cniVersion":"1.0.0"}'"#;
    world.sh("mkdir /run/own");
    std::fs::write(world.path("/run/own/says"), format!("#!/bin/sh\n{says}\n")).unwrap();
    world.netns("blue");
    world.sh("chmod +x /run/own/says");
    for more in ["CNI_NETNS_OVERRIDE=1", ""] {
        let tool = format!("CNI_PATH=/run/own {more} cnitool");
        sh(&world, &format!("{tool} add net /run/netns/blue >/dev/null"));
        sh(&world, &format!("{tool} del net /run/netns/blue"));
    }
    assert_eq!(world.sh("cat /run/said"), "ADD 1\nDEL 1\nADD none\nDEL none\n");
}

/// A cache file that cannot be read keeps nothing from being detached.
#[test]
fn a_broken_cache_file_is_passed_over() {
    let world = world(&Plugins::previous());
    write(&world, "net.conflist", LIST);
    world.netns("blue");
    sh(
        &world,
        "cnitool add net /run/netns/blue >/dev/null && truncate -s 20 /var/lib/cni/results/*",
    );
    refused(&world, "cnitool check net /run/netns/blue");
    sh(&world, "cnitool del net /run/netns/blue");
    assert_eq!(results(&world), "");
    assert_eq!(world.sh("find /var/lib/cni/networks/net -name '10.*'"), "");
}
