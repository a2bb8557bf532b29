//! That the driver of the tests is one that real engines work with, and that notes what they do:
//! whatever fails elsewhere is not the fixture's.

use serde_json::{Value, json};
use tests::remote_driver::{Fault, Manners, RemoteDriver};
use tests::{Engine, Plugins, Release};

/// What a container's life on a network of a plugin's asks for, in order.
pub(crate) const LIFE: [&str; 4] = [
    "RequestPool RequestAddress CreateNetwork",
    "RequestAddress CreateEndpoint Join ProgramExternalConnectivity EndpointOperInfo",
    "RevokeExternalConnectivity Leave DeleteEndpoint ReleaseAddress",
    "ReleaseAddress ReleasePool DeleteNetwork",
];

/// Each once: engines ask some of it twice.
fn once(driver: &RemoteDriver) -> String {
    let mut order = driver.order();
    order.dedup();
    order.join(" ")
}

#[track_caller]
fn engine_works_with_it(release: Release) {
    if !release.is_there() {
        return;
    }
    let engine = Engine::new(release, &Plugins::reference(), &[]);
    let driver = RemoteDriver::start(engine.world(), "probe", Manners::default());
    engine.docker("network create -d probe --ipam-driver probe net");
    assert_eq!(once(&driver), LIFE[0]);
    engine.run("one", "net", Value::Null);
    assert_eq!(once(&driver), LIFE[1]);
    engine.run("two", "net", Value::Null);
    let address = engine.endpoint("two", "net")["IPAddress"].as_str().unwrap().to_owned();
    // Docker's own rules drop what other bridges forward.
    engine.world().sh("iptables -I FORWARD -j ACCEPT");
    engine.ping("one", &address);
    engine.ping("one", "10.200.1.1");
    engine.remove("two");
    driver.take();
    engine.remove("one");
    let asked = driver.take();
    let order: Vec<&str> = asked.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(order.join(" "), LIFE[2]);
    let home: Vec<bool> = asked.iter().map(|call| call.at_home).collect();
    assert_eq!(home, [false, false, true, false], "the interface comes back after Leave");
    assert_eq!(driver.holds().len(), 3, "{:?}", driver.holds());
    engine.remove_network("net");
    assert_eq!(once(&driver), LIFE[3]);
    driver.is_empty();
    assert!(!engine.world().sh("ip -o link").contains(": r"), "its devices are gone");
}

#[test]
fn docker_20_10_works_with_it() {
    engine_works_with_it(Release::V20_10);
}

#[test]
fn docker_28_5_works_with_it() {
    engine_works_with_it(Release::V28_5);
}

#[test]
fn it_fails_as_the_test_says() {
    let engine = Engine::new(Release::V20_10, &Plugins::reference(), &[]);
    let driver = RemoteDriver::start(engine.world(), "probe", Manners::default());
    driver.fail("CreateNetwork", 1, Fault::Refuse("not today".into()));
    let create = "network create -d probe --ipam-driver probe net";
    let said = engine.try_docker(create);
    assert!(said.stderr.contains("not today"), "{said:?}");
    driver.is_empty();
    engine.docker(create);
    driver.fail("Join", 1, Fault::Say(json!({"Gateway": "nonsense"}).to_string()));
    let run = "run --rm --network net busybox /bin/true";
    assert_ne!(engine.try_docker(run).status, 0);
    driver.fail_always("RequestAddress", Fault::Status(500, "plain text".into()));
    let said = engine.try_docker(run);
    assert!(said.stderr.contains("plain text"), "{said:?}");
    driver.heal();
    driver.die();
    assert!(engine.world().path("/run/docker/plugins/probe.sock").exists());
    driver.come_back();
    engine.docker(run);
    engine.remove_network("net");
    // Docker 20.10 does not leave what it could not join.
    let complaints = driver.complaints();
    assert!(complaints.len() == 1 && complaints[0].ends_with("before Leave"), "{complaints:?}");
    assert_eq!(driver.holds(), Vec::<String>::new());
}
