use super::*;

fn network() -> Fixture {
    let host = Fixture::new();
    host.spoke("network create --subnet 10.70.1.0/24 front");
    host.attach("front", "c2", Some("web"));
    host.attach("front", "c3", None);
    host
}

#[test]
fn shows_pools_holders_and_what_is_free() {
    let host = network();
    host.spoke("ipam reserve 10.70.1.9");
    host.address_file("front", "10.70.1.7", "old", 60);
    let pools = "\
NETWORK  POOL          SIZE  USED  RESERVED  QUARANTINE  FREE  HOLDERS
front    10.70.1.0/24  253   3     1         0           249   reference 1, spoke 2
";
    assert_eq!(host.spoke("ipam show"), pools);
    let details = "
ADDRESS    STATE     HOLDER  INTERFACE  RUNTIME    SINCE
10.70.1.2  held      web     eth0       spoke      3d
10.70.1.3  held      c3      eth0       spoke      3d
10.70.1.7  held      old     eth0       reference  1m
10.70.1.9  reserved  -       -          -          -

free in 10.70.1.0/24: 10.70.1.4-10.70.1.6, 10.70.1.8, 10.70.1.10-10.70.1.254
";
    assert_eq!(host.spoke("ipam show front"), format!("{pools}{details}"));
    assert_eq!(host.spoke("ipam show 10.70.0.0/16"), format!("{pools}{details}"));
    assert!(host.spoke("ipam show 10.70.1.3").contains("\n10.70.1.3  held   c3"));
    assert_eq!(host.spoke("ipam show 10.70.1.1"), "10.70.1.1 is the gateway of network front\n");
    assert_eq!(host.spoke("ipam show 10.70.1.99"), "10.70.1.99 of network front is free\n");
    assert_eq!(host.refused("ipam show 10.1.1.1").0, 3);
    assert_eq!(host.refused("ipam show nix").0, 3);
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("ipam show -o json front")).unwrap();
    assert_eq!(json["pools"][0]["holders"]["spoke"], 2);
    assert_eq!(json["addresses"][0]["owner"], "web");
}

#[test]
fn says_which_addresses_are_free() {
    let host = network();
    assert_eq!(host.spoke("ipam free front -n 2"), "10.70.1.4\n10.70.1.5\n");
    assert_eq!(host.spoke("ipam free front -n 1 -o json"), "[\n  \"10.70.1.4\"\n]\n");
    host.spoke("network create --subnet 10.1.0.0/30 small");
    host.attach("small", "s", None);
    assert_eq!(host.refused("ipam free small").0, 4);
}

#[test]
fn reserves_and_releases() {
    let host = network();
    host.spoke("ipam reserve 10.70.1.9 --for db --network front");
    assert_eq!(host.spoke("ipam reserve 10.70.1.8 -o json"), "[\n  \"10.70.1.8\"\n]\n");
    assert!(host.refused("ipam reserve 10.70.1.9").1.contains("already reserved"));
    assert!(host.refused("ipam reserve 10.70.1.1").1.contains("gateway"));
    assert_eq!(host.refused("ipam reserve 10.1.1.1 --network front").0, 2);
    assert_eq!(host.refused("ipam reserve 10.70.1.8 --for db").0, 2);
    let other = host.attach("front", "c4", Some("other"));
    assert_eq!(other.leases[0].address.addr().to_string(), "10.70.1.4");
    let db = host.attach("front", "c5", Some("db"));
    assert_eq!(db.leases[0].address.addr().to_string(), "10.70.1.9");
    let (code, _, err) = host.try_spoke(&["ipam", "release", "10.70.1.9"]);
    assert_eq!(
        (code, err.as_str()),
        (0, "spoke: 10.70.1.9 stays with container db (eth0) on network front\n")
    );
    host.spoke("ipam release 10.70.1.9 --force");
    let (code, error) = host.refused("ipam release 10.70.1.9");
    assert_eq!(
        (code, error.as_str()),
        (3, "spoke: no container holds 10.70.1.9, and it is not reserved")
    );
}

#[test]
fn takes_an_address_away_only_by_force() {
    let host = network();
    let (code, error) = host.refused("ipam release 10.70.1.3");
    assert_eq!(code, 4);
    assert!(error.contains("c3") && error.contains("--force"), "{error}");
    host.spoke("ipam release 10.70.1.3 --force");
    assert_eq!(*host.kernel.removed.borrow(), ["c3"]);
    assert_eq!(host.spoke("ps -q"), "web\n");
    host.address_file("front", "10.70.1.7", "old", 60);
    assert_eq!(host.refused("ipam release 10.70.1.7").0, 4);
    host.spoke("ipam release 10.70.1.7 --force");
    assert!(!host.has("var/lib/cni/networks/front/10.70.1.7"));
}

#[test]
fn check_finds_and_fix_frees_only_the_dead() {
    let host = network();
    host.kernel.gone.borrow_mut().insert("c3".to_owned());
    let rules = (Stray::Elements("0123/link".into()), Presence::Gone);
    host.kernel.strays.borrow_mut().push(rules);
    host.address_file("cbr0", "10.1.0.5", "before-boot", 90_000);
    host.address_file("cbr0", "10.1.0.6", "unknown", 60);
    host.address_file("cbr0", "10.1.0.7", "vanished", 60);
    host.address_file("cbr0", "10.1.0.8", "living", 90_000);
    host.write("run/netns/living", "");
    for container in ["vanished", "living"] {
        let result = format!(
            r#"{{"result":{{"interfaces":[{{"name":"eth0","sandbox":"/run/netns/{container}"}}]}}}}"#
        );
        host.write(&format!("var/lib/cni/results/cbr0-{container}-eth0"), &result);
    }
    let (code, out, err) = host.try_spoke(&["ipam", "check"]);
    assert_eq!(code, 1);
    assert!(err.contains("ipam check --fix"), "{err}");
    let rows: Vec<&str> = out.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(rows, ["KIND", "attachment", "rules", "file", "file", "file"], "{out}");
    assert!(host.has("var/lib/cni/networks/cbr0/10.1.0.5"));

    let fixed = host.spoke("ipam check --fix");
    assert_eq!(fixed.matches("freed").count(), 4, "{fixed}");
    assert_eq!(names(&host.path("var/lib/cni/networks/cbr0")), ["10.1.0.6", "10.1.0.8", "lock"]);
    assert_eq!(host.spoke("ps -q"), "web\n");
    let again = host.spoke("ipam check");
    assert!(again.contains("keep") && again.lines().count() == 2, "{again}");
}

#[test]
fn gc_says_and_does() {
    let host = network();
    assert_eq!(host.spoke("gc"), "nothing found\n");
    host.kernel.gone.borrow_mut().insert("c2".to_owned());
    assert!(host.spoke("gc --dry-run").contains("free"));
    assert_eq!(host.spoke("ps -q"), "c3\nweb\n");
    assert!(host.spoke("gc").contains("freed"));
    assert_eq!(host.spoke("ps -q"), "c3\n");
    let pair = |name: &str, presence| (Stray::Link(name.parse().unwrap()), presence);
    let pairs = [pair("sp1", Presence::Gone), pair("sp2", Presence::Alive)];
    host.kernel.strays.borrow_mut().extend(pairs);
    let given = host.spoke("gc --dry-run");
    let of = |name: &str| given.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(of("sp1").contains("in no container"), "{given}");
    assert!(of("sp2").contains("its container lives"), "{given}");
}

#[test]
fn check_finds_networks_that_overlap() {
    let mut host = network();
    let route =
        HostRoute { dst: "10.70.0.0/16".parse().unwrap(), device: "br-0123456789ab".into() };
    host.facts.routes.push(route);
    let (code, out, _) = host.try_spoke(&["ipam", "check"]);
    assert_eq!(code, 1);
    assert!(out.contains("docker network rm 0123456789ab"), "{out}");
}

#[test]
fn what_cannot_be_removed_hides_nothing_else() {
    let host = network();
    host.kernel.gone.borrow_mut().extend(["c2", "c3"].map(str::to_owned));
    host.kernel.stuck.borrow_mut().extend(["c2", "sp1"].map(str::to_owned));
    let stray = |name: &str| (Stray::Link(name.parse().unwrap()), Presence::Gone);
    host.kernel.strays.borrow_mut().extend([stray("sp1"), stray("sp2")]);
    let (code, out, err) = host.try_spoke(&["gc"]);
    assert_eq!(code, 1);
    for name in ["c2", "sp1"] {
        assert!(err.contains(&format!("cannot delete {name}: busy\n")), "{err}");
    }
    let of = |name: &str| out.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(of("c3").contains("freed") && of("sp2").contains("freed"), "{out}");
    assert!(!of("c2").contains("freed") && !of("sp1").contains("freed"), "{out}");
    let (code, out, err) = host.try_spoke(&["ipam", "check", "--fix"]);
    assert_eq!(code, 1);
    assert!(out.contains("c2") && err.contains("cannot delete c2"), "{out}{err}");
    host.kernel.stuck.borrow_mut().clear();
    assert_eq!(host.spoke("gc").matches("freed").count(), 2);
}

/// Tenants may have the same subnet.
#[test]
fn an_address_of_several_tenants_is_released_in_one() {
    let host = Fixture::new();
    for name in ["red", "blue"] {
        let create = format!("network create --address-space {name} --subnet 10.0.0.0/24 {name}");
        host.spoke(&create);
        let attached = host.attach(name, &format!("in-{name}"), None);
        assert_eq!(attached.leases[0].address.addr().to_string(), "10.0.0.1");
    }
    let refused = (
        4,
        "spoke: 10.0.0.1 is in several address spaces (that of tenant blue, that of tenant \
                       red): name a network with --network (blue, red)"
            .to_owned(),
    );
    assert_eq!(host.refused("ipam release 10.0.0.1 --force"), refused);
    assert_eq!(host.spoke("ps -q"), "in-blue\nin-red\n");
    host.spoke("ipam release 10.0.0.1 --force --network blue");
    assert_eq!(host.spoke("ps -q"), "in-red\n");
    assert_eq!(host.refused("ipam release 10.0.0.1 --network blue").0, 3);
    assert_eq!(host.refused("ipam release 10.1.0.2 --network blue").0, 2);
    assert_eq!(host.refused("ipam reserve 10.0.0.7").0, 4);
    host.spoke("ipam reserve 10.0.0.7 --network red");
    host.spoke("ipam reserve 10.0.0.7 --network blue");
    assert_eq!(host.refused("ipam release 10.0.0.7").0, 4);
    host.spoke("ipam release 10.0.0.7 --network red");
    // One is left, and is meant.
    host.spoke("ipam release 10.0.0.7");
}

#[test]
fn a_container_is_told_from_a_network() {
    let host = network();
    let (code, _, error) = host.try_spoke(&["ps", "web"]);
    assert_eq!(code, 3);
    assert!(error.contains("web is a container, no network; `spoke inspect web`"), "{error}");
    let (_, _, error) = host.try_spoke(&["ps", "nothing"]);
    assert!(error.contains("no network nothing"), "{error}");
}

#[test]
fn what_a_firewall_may_be_is_completed() {
    let host = network();
    assert!(host.spoke("completion bash").contains("ufw firewalld none"));
}
