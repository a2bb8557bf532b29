//! Docker's containers on networks of a third-party Docker plugin: what they have there when
//! Docker calls the plugin by itself they have through us.

use tests::remote_driver::{Manners, RemoteDriver, Route};
use tests::{Release, Serve};

use crate::bed::Bed;
use crate::neighbours::{NEIGHBOURS, NO_NEIGHBOURS};

const CREATE: &str = "network create -d spoke --ipam-driver null -o network=net net";

/// Engines drop what they do not know; the plugin's bridge is the operator's business.
const PASS: &str = "iptables -I FORWARD -j ACCEPT";
const NO_PASS: &str = "iptables -D FORWARD -j ACCEPT";

/// A plugin with these manners, and the network `net` of its own, known to Docker.
#[track_caller]
fn with_plugin(release: Release, manners: Manners) -> Option<(Bed, RemoteDriver)> {
    let bed = Bed::new(release)?;
    let driver = RemoteDriver::start(bed.world(), "probe", Manners { translates: true, ..manners });
    bed.world().sh(NEIGHBOURS);
    bed.world().sh(PASS);
    bed.spoke("network create --driver probe --ipam-driver probe net");
    bed.docker(CREATE);
    Some((bed, driver))
}

#[track_caller]
fn is_empty(bed: &Bed, driver: RemoteDriver) {
    bed.docker("network rm net");
    bed.spoke("network rm net");
    bed.world().sh(NO_PASS);
    bed.world().sh(NO_NEIGHBOURS);
    driver.is_empty();
    drop(driver);
    bed.world().sh("rm /run/docker/plugins/probe.sock");
    bed.is_clean();
}

/// That the container reaches another host, which reaches its port of this one, and so does this one.
#[track_caller]
fn serves(bed: &Bed, name: &str, port: u16) {
    assert_eq!(bed.inside(name, "ip -4 route show default | cut -d ' ' -f 3"), "10.200.1.1");
    bed.engine.ping(name, "198.51.100.2");
    assert_eq!(bed.asked("far", "192.0.2.1", port), "198.51.100.2");
    bed.asked("", "192.0.2.1", port);
}

#[track_caller]
fn leads_out_by_its_gateway(release: Release) {
    let Some((mut bed, driver)) = with_plugin(release, Manners::default()) else { return };
    bed.serve("--name one --network net -p 8080:80");
    serves(&bed, "one", 8080);
    assert!(bed.spoke("ports").contains("8080/tcp"), "{}", bed.spoke("ports"));
    // Another's port is refused, and left to it.
    bed.refused("run --name two --network net -p 8080:80 busybox true", &["8080"]);
    assert_eq!(bed.spoke("gc --dry-run -o json").trim(), "[]", "one lives");
    bed.docker("rm -f two");
    serves(&bed, "one", 8080);
    bed.serve("--name two --network net -p 8081:80 -p 127.0.0.1:8082:80");
    serves(&bed, "two", 8081);
    bed.engine.ping("one", &bed.address("two", "net"));

    bed.docker("restart -t 0 one");
    serves(&bed, "one", 8080);
    // Docker's own bridge beside it, and gone again.
    bed.docker("network create --subnet 10.99.0.0/24 side");
    bed.docker("network connect side one");
    bed.asked("far", "192.0.2.1", 8080);
    bed.docker("network disconnect side one");
    serves(&bed, "one", 8080);
    // The daemon is killed: the next one programs nothing twice, and revokes it in the end.
    driver.order();
    bed.serve.kill();
    bed.serve = Serve::start(bed.engine.world(), &[]);
    serves(&bed, "one", 8080);
    bed.spoke("doctor || true");
    assert_eq!(driver.order(), Vec::<String>::new());
    bed.remove("two");
    bed.docker("network rm side");
    bed.remove("one");
    is_empty(&bed, driver);
}

#[track_caller]
fn leads_out_by_dockers_own_bridge(release: Release) {
    let manners = Manners {
        gateway: false,
        prefix: "ethwe".into(),
        routes: vec![
            Route { destination: "203.0.113.0/24".into(), next_hop: Some("10.200.1.9".into()) },
            Route { destination: "224.0.0.0/4".into(), next_hop: None },
        ],
        ..Manners::default()
    };
    let Some((bed, driver)) = with_plugin(release, manners) else { return };
    bed.serve("--name one --network net -p 8080:80");
    let routes = bed.inside("one", "ip -4 route");
    for route in ["203.0.113.0/24 via 10.200.1.9 dev ethwe0", "224.0.0.0/4 dev ethwe0"] {
        assert!(routes.contains(route), "{routes}");
    }
    bed.engine.ping("one", "198.51.100.2");
    assert_eq!(bed.asked("far", "192.0.2.1", 8080), "198.51.100.2");
    bed.remove("one");
    bed.until("! ip -o link show | grep -q 'veth.*docker_gwbridge'");
    bed.docker("network rm docker_gwbridge");
    is_empty(&bed, driver);
}

#[track_caller]
fn keeps_in(release: Release) {
    let manners = Manners { gateway: false, no_gateway_service: true, ..Manners::default() };
    let Some((bed, driver)) = with_plugin(release, manners) else { return };
    bed.run("--name one --network net");
    assert_eq!(bed.inside("one", "ip -4 route show default"), "");
    bed.remove("one");
    is_empty(&bed, driver);
}

/// One that is internal is so for Docker, which would lead out by its own bridge otherwise.
#[test]
fn internal_for_both() {
    let Some((bed, driver)) = with_plugin(Release::V28_5, Manners::default()) else { return };
    bed.spoke("network create --driver probe --ipam-driver probe --internal inside");
    let create = "network create -d spoke --ipam-driver null -o network=inside";
    bed.refused(&format!("{create} inside"), &["inside", "internal"]);
    bed.refused(
        "network create -d spoke --ipam-driver null -o network=net --internal other",
        &["net"],
    );
    bed.docker(&format!("{create} --internal inside"));
    bed.run("--name one --network inside");
    assert_eq!(bed.inside("one", "ip -4 route show default"), "");
    bed.remove("one");
    bed.docker("network rm inside");
    bed.spoke("network rm inside");
    is_empty(&bed, driver);
}

macro_rules! with_each_engine {
    ($($module:ident: $release:expr),+) => {$(
        mod $module {
            use super::*;

            #[test]
            fn leads_out_by_its_gateway() {
                super::leads_out_by_its_gateway($release);
            }

            #[test]
            fn leads_out_by_dockers_own_bridge() {
                super::leads_out_by_dockers_own_bridge($release);
            }

            #[test]
            fn keeps_in() {
                super::keeps_in($release);
            }
        }
    )+};
}

with_each_engine!(v20_10: Release::V20_10, v26_1: Release::V26_1, v28_5: Release::V28_5);
