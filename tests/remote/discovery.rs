//! Where plugins are found, and what they hear of the host.

use std::fs;
use std::time::Duration;

use tests::remote_driver::{Certificates, Manners, RemoteDriver};
use tests::{Plugins, Serve, World};

/// How soon a driver gets the report.
const WITHIN: Duration = Duration::from_secs(20);

const PORT: u16 = 4711;

/// A network's life with the plugin of this name.
#[track_caller]
fn works(world: &World, name: &str) {
    let spoke = format!("{}/spoke network", Plugins::MOUNT);
    world.sh(&format!("{spoke} create --driver {name} --ipam-driver {name} net"));
    world.netns("one");
    world.sh(&format!("{spoke} connect net one; {spoke} disconnect net one; {spoke} rm net"));
    world.sh("ip netns del one");
}

#[track_caller]
fn describe(world: &World, path: &str, text: &str) {
    let path = world.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn sockets_and_descriptions() {
    let world = World::new(&Plugins::subject());
    let mut driver = RemoteDriver::silent(&world, Manners::default());
    driver.listen(&world, "/run/docker/plugins/flat.sock");
    driver.listen(&world, "/run/docker/plugins/deep/deep.sock");
    driver.listen(&world, "/run/elsewhere.sock");
    driver.listen_tcp(PORT, None);
    describe(&world, "/etc/docker/plugins/unix.spec", "unix:///run/elsewhere.sock\n");
    describe(&world, "/usr/lib/docker/plugins/tcp/tcp.spec", "tcp://127.0.0.1:4711");
    describe(&world, "/etc/docker/plugins/http.spec", "http://127.0.0.1:4711");
    let json = r#"{"Name": "json", "Addr": "http://127.0.0.1:4711"}"#;
    describe(&world, "/usr/lib/docker/plugins/json.json", json);
    for name in ["flat", "deep", "unix", "tcp", "http", "json"] {
        works(&world, name);
        driver.is_empty();
    }
    // The socket comes before the description, which leads nowhere.
    describe(&world, "/etc/docker/plugins/flat.spec", "tcp://127.0.0.1:1");
    works(&world, "flat");
    let done = world.try_sh("/opt/cni/bin/spoke network create --driver nosuch net");
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.stderr.contains("/run/docker/plugins"), "{}", done.stderr);
}

/// Also plugins that are called as drivers of Spoke's own are.
#[test]
fn namesakes_of_our_own_drivers() {
    let world = World::new(&Plugins::subject());
    let mut driver = RemoteDriver::silent(&world, Manners::default());
    let spoke = format!("{}/spoke network", Plugins::MOUNT);
    for name in ["bridge", "ptp", "macvlan", "ipvlan", "cni", "neutron"] {
        driver.listen(&world, &format!("/run/docker/plugins/{name}.sock"));
        let named = format!("plugin:{name}");
        world.sh(&format!("{spoke} create --driver {named} --ipam-driver {name} net"));
        let listed = world.sh(&format!("{spoke} ls --format '{{{{.Name}}}} {{{{.Driver}}}}'"));
        assert!(listed.lines().any(|line| line == format!("net {named}")), "{listed}");
        world.netns("one");
        world.sh(&format!("{spoke} connect net one"));
        let shown = world.sh(&format!("{}/spoke ps net", Plugins::MOUNT));
        assert!(shown.contains(&named), "{shown}");
        world.sh(&format!("{spoke} disconnect net one; {spoke} rm net; ip netns del one"));
        driver.is_empty();
    }
    // An unused prefix does no harm.
    driver.listen(&world, "/run/docker/plugins/other.sock");
    world.sh(&format!(
        "{spoke} create --driver plugin:other --ipam-driver other net; {spoke} rm net"
    ));
}

#[test]
fn certificates_on_both_sides() {
    let world = World::new(&Plugins::subject());
    let certificates = Certificates::new("127.0.0.1");
    let mut driver = RemoteDriver::silent(&world, Manners::default());
    driver.listen_tcp(PORT, Some(certificates.tls.clone()));
    for (name, text) in [
        ("authority", &certificates.authority),
        ("certificate", &certificates.certificate),
        ("key", &certificates.key),
    ] {
        describe(&world, &format!("/etc/secure/{name}.pem"), text);
    }
    let with = |tls: &str| {
        let address = format!("https://127.0.0.1:{PORT}");
        format!(r#"{{"Name": "secure", "Addr": "{address}", "TLSConfig": {{{tls}}}}}"#)
    };
    let ours = r#""CertFile": "/etc/secure/certificate.pem", "KeyFile": "/etc/secure/key.pem""#;
    let authority = r#""CAFile": "/etc/secure/authority.pem""#;
    let path = "/etc/docker/plugins/secure.json";
    describe(&world, path, &with(&format!("{ours}, {authority}")));
    works(&world, "secure");
    describe(&world, path, &with(&format!(r#"{ours}, "InsecureSkipVerify": true"#)));
    works(&world, "secure");
    driver.is_empty();
    driver.take();
    describe(&world, path, &with(authority));
    let create = "/opt/cni/bin/spoke network create --driver secure --ipam-driver secure net";
    let done = world.try_sh(create);
    assert_ne!(done.status, 0, "without a certificate of ours");
    let other = Certificates::new("127.0.0.1");
    describe(&world, "/etc/secure/authority.pem", &other.authority);
    describe(&world, path, &with(&format!("{ours}, {authority}")));
    let done = world.try_sh(create);
    assert_ne!(done.status, 0, "whom that authority does not know");
    assert_eq!(driver.take(), [], "neither was answered");
}

#[test]
fn hosts_are_reported_to_drivers_that_reach_beyond_this_one() {
    let world = World::new(&Plugins::subject());
    let global = Manners { connectivity: Some("global".into()), ..Manners::default() };
    let wide = RemoteDriver::start(&world, "wide", global);
    let narrow = RemoteDriver::start(&world, "narrow", Manners::default());
    let hosts = |others: &str| {
        let text = format!("[remote]\nhosts = [\"192.0.2.1\"{others}]\nown = \"192.0.2.1\"\n");
        describe(&world, "/etc/spoke/config.toml", &text);
    };
    hosts(", \"192.0.2.2\"");
    for name in ["wide", "narrow"] {
        let create = format!("network create --driver {name} --ipam-driver {name} {name}");
        world.sh(&format!("{}/spoke {create}", Plugins::MOUNT));
    }
    let serve = Serve::start(&world, &[]);
    let reported = wide.wait_for("DiscoverNew", 2, WITHIN);
    serve.stop();
    assert!(reported.iter().all(|call| call.body["DiscoveryType"] == 1), "{reported:?}");
    let whom: std::collections::BTreeMap<_, _> = reported
        .iter()
        .map(|call| &call.body["DiscoveryData"])
        .map(|data| (data["Address"].as_str().unwrap(), data["Self"].as_bool().unwrap()))
        .collect();
    let all = [("192.0.2.1", true), ("192.0.2.2", false)].into_iter().collect();
    assert_eq!(whom, all);
    assert!(!narrow.take().iter().any(|call| call.method == "DiscoverNew"));
    hosts("");
    let serve = Serve::start(&world, &[]);
    let gone = wide.wait_for("DiscoverDelete", 1, WITHIN);
    assert_eq!(gone[0].body["DiscoveryData"]["Address"], "192.0.2.2");
    serve.stop();
}
