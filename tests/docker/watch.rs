//! What others do to this host's packet filter is mended at once, and reported.

use std::collections::BTreeSet;

use serde_json::Value;
use tests::{Release, World, http};

use crate::bed::Bed;

/// Takes the packet filter away, and tells after how many microseconds a published port could be
/// reached again, from another namespace.
const FLUSH: &str = r#"
begin=${EPOCHREALTIME/./}
nft flush ruleset
for _ in $(seq 1000); do
    ip netns exec client busybox nc -w 1 192.0.2.1 8084 </dev/null >/dev/null 2>&1 && break
done
echo $((${EPOCHREALTIME/./} - begin))
ip netns exec client busybox nc -w 1 192.0.2.1 8084 </dev/null"#;

/// A client outside of the host, which reaches its published ports.
pub(crate) const NEIGHBOUR: &str = "
ip netns add client
ip link add up0 type veth peer name eth0 netns client
ip address add 192.0.2.1/24 dev up0
ip -n client address add 192.0.2.2/24 dev eth0
ip link set up0 up; ip -n client link set eth0 up";

impl Bed {
    /// What Prometheus reads.
    #[track_caller]
    pub(crate) fn figures(&self) -> String {
        let socket = self.world().path("/run/spoke/metrics.sock");
        http::call(&socket, "GET", "/metrics", b"").expect("an answer").text()
    }
}

/// Our table, one line an object; what is learned of this host's subnets comes when it is needed.
#[track_caller]
fn table(world: &World) -> BTreeSet<String> {
    let table: Value =
        serde_json::from_str(&world.sh("nft -j list table inet spoke")).expect("JSON");
    let mut lines = BTreeSet::new();
    for object in table["nftables"].as_array().expect("objects") {
        let (kind, object) = object.as_object().and_then(|o| o.iter().next()).expect("an object");
        let mut object = object.clone();
        let parts = object.as_object_mut().expect("an object");
        parts.remove("handle");
        let elements = parts.remove("elem");
        let name = parts.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        for element in elements.iter().filter_map(Value::as_array).flatten() {
            if !name.starts_with("lan") {
                lines.insert(format!("{name} {element}"));
            }
        }
        lines.insert(format!("{kind} {object}"));
    }
    lines
}

#[track_caller]
fn flushed(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh(NEIGHBOUR);
    bed.network("--subnet 10.84.0.0/24 front");
    bed.network("--subnet 10.84.1.0/24 --internal closed");
    bed.docker("run -d --name web --network front -p 8084:80 busybox nc -ll -p 80 -e cat");
    bed.run("--name two --network front");
    bed.run("--name three --network closed");
    let before = table(bed.world());
    for round in 1..=3 {
        let took = bed.world().sh(FLUSH);
        let took: u32 = took.trim().parse().expect("microseconds");
        // It is healed when it happens, and not by the look at everything every ten seconds.
        assert!(took < 5_000_000, "healed after {took} µs");
        bed.until(&format!("[ $(/opt/cni/bin/spoke events | grep -c \" healed \") -ge {round} ]"));
        assert_eq!(table(bed.world()), before);
    }
    let figures = bed.figures();
    let heals = figures.lines().find_map(|line| line.strip_prefix("spoke_heals_total "));
    assert!(heals.is_some_and(|heals| heals != "0"), "{figures}");
    bed.engine.ping("web", "two");
    bed.no_ping("three", "10.84.0.2");
    bed.remove("web two three");
    bed.docker("network rm front closed");
    bed.world().sh("ip link del up0; ip netns del client");
    bed.is_clean();
}

#[test]
fn flushed_20_10() {
    flushed(Release::V20_10);
}
