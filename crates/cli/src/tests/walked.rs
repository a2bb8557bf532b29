//! What a reader met who typed what the pages say.

use docker::api::Reach;
use model::Runtime;

use super::network::two_networks;
use super::*;

/// As after `/var/lib/spoke` was deleted: Docker goes on to list its networks.
#[test]
fn doctor_names_networks_that_the_book_has_lost() {
    let host = two_networks();
    super::network::entitle(&host, "back", "fen", model::Publisher::Runtime);
    let aliases = host.engine().records.aliases().unwrap();
    let listed = |id: &str, name: &str, driver: &str, reach| docker::api::Network {
        id: id.parse().unwrap(),
        name: name.parse().ok(),
        driver: driver.to_owned(),
        ipam: driver.to_owned(),
        reach,
        subnets: Vec::new(),
    };
    let known = aliases[0].id.to_string();
    host.docker_networks.replace(vec![
        listed(&known, "fen", "spoke", Reach::Local),
        listed("aa", "bridge", "bridge", Reach::Local),
        listed("bb", "tasks", "spoke:latest", Reach::Swarm),
    ]);
    assert!(!host.try_spoke(&["doctor"]).1.contains("that the book has not"));
    host.docker_networks.borrow_mut().push(listed("cc", "shop", "spoke:latest", Reach::Local));
    host.engines_asked.take();
    let (code, report, _) = host.try_spoke(&["doctor"]);
    assert_eq!((code, host.engines_asked.take()), (1, 1), "engines are asked once");
    assert!(
        report.contains(
            "FAIL  Docker has networks of driver spoke:latest that the book has not: shop;"
        ),
        "{report}"
    );
    for (driver, is_found) in [
        ("example/spoke:latest", true),
        ("registry.example:5000/net/spoke", true),
        ("spoke2", false),
        ("spoke/net:latest", false),
    ] {
        host.docker_networks.replace(vec![listed("cc", "shop", driver, Reach::Local)]);
        let report = host.try_spoke(&["doctor"]).1;
        let found = format!("Docker has networks of driver {driver} that the book has not: shop;");
        assert_eq!(report.contains(&found), is_found, "{driver}: {report}");
    }
}

/// Whoever asks is called as in other commands.
#[test]
fn an_asker_has_its_runtime_before_its_name() {
    let host = Fixture::new();
    host.spoke("network create --names --subnet 10.70.2.0/24 shop");
    let network = host.engine().records.network(&"shop".parse().unwrap()).unwrap();
    let network = Network { runtime: Runtime::Podman, ..network };
    for name in ["web", "api"] {
        host.engine().attachments.attach(&request(&network, name, None)).unwrap();
    }
    let found = host.spoke("dns query --as web api");
    for asker in ["podman/web", "podman:web"] {
        assert_eq!(host.spoke(&format!("dns query --as {asker} api")), found, "{asker}");
    }
    host.spoke("network create plain");
    host.attach("plain", "apart", None);
    for (asker, said) in [
        ("nobody", "no container 'nobody' is attached"),
        ("docker/web", "no container 'docker/web' is attached"),
        ("apart", "container 'apart' is on no network with names"),
    ] {
        let (code, error) = host.refused(&format!("dns query --as {asker} api"));
        assert!(code == 3 && error.contains(said), "{asker}: {code} {error}");
    }
}

/// `docker ps` shows the first digits of an id that an engine lists among a container's names.
#[test]
fn the_id_that_docker_shows_is_a_name() {
    let host = two_networks();
    let network = host.engine().records.network(&"front".parse().unwrap()).unwrap();
    let network = Network { runtime: Runtime::Docker, ..network };
    let wanted = request(&network, "endpoint", None);
    let names = vec!["7d567808bf26".parse().unwrap()];
    host.engine().attachments.attach(&Request { names, ..wanted }).unwrap();
    let long = format!("7d567808bf26{}", "0".repeat(52));
    for id in ["7d567808bf26", "docker:7d567808bf26", &long] {
        host.spoke(&format!("limit {id}"));
    }
    assert_eq!(host.refused("limit podman:7d567808bf26").0, 3);
}

/// The address is right: what it lacks is said.
#[test]
fn a_subnet_says_what_it_lacks() {
    let host = Fixture::new();
    for (subnet, said) in [
        ("10.90.9.0", "no prefix length, as 10.90.9.0/24 has"),
        ("10.90.9.0/33", "a number from 0 to 32"),
        ("fd00::/129", "a number from 0 to 128"),
        ("10.90.9", "invalid IP address syntax"),
    ] {
        let (code, error) = host.refused(&format!("network create --subnet {subnet} lan"));
        assert!(code == 2 && error.contains(said), "{subnet}: {error}");
    }
}

/// Each mistake has its line.
#[test]
fn validate_says_all_that_is_wrong_with_a_network() {
    let host = Fixture::new();
    let put = |fields: &str| {
        host.write("etc/kurma/kurma.json", &format!(r#"{{"pod_networks": [{{{fields}}}]}}"#));
        let (code, out, _) = host.try_spoke(&["kurma", "validate"]);
        (code, out)
    };
    let (code, out) = put(r#""name": "My_net", "aci": "fil://x", "default": 5, "limit": 0"#);
    assert_eq!((code, out.lines().count()), (2, 4), "{out}");
    let (code, out) = put(r#""name": "mynet", "aci": "file:///nothere.aci", "type": "bridge""#);
    assert!(code == 2 && out.contains("image /nothere.aci is not there"), "{out}");
    let image = host.path("spoke-binary").display().to_string();
    let (code, out) = put(&format!(r#""name": "mynet", "aci": "file://{image}", "typ": "bridge""#));
    assert!(code == 0 && out.contains("has no type") && !out.contains("nothing wrong"), "{out}");
}

/// Each list is in the order of its columns, as they are shown: by name, and not by the name in the book.
#[test]
fn lists_are_in_the_order_of_what_they_show() {
    let host = two_networks();
    super::network::entitle(&host, "back", "zen", model::Publisher::Spoke);
    let first = |line: &str| -> Vec<String> {
        let text = host.spoke(line);
        let cells = text.lines().skip(1).map(|row| row.split_whitespace().next().unwrap());
        cells.map(str::to_owned).collect()
    };
    assert_eq!(first("network ls"), ["front", "zen"]);
    host.attach("back", "b", None);
    host.attach("front", "c", None);
    host.attach("front", "a", None);
    assert_eq!(first("ps"), ["a", "b", "c"]);
    host.spoke("endpoint create front y");
    host.spoke("endpoint create back x");
    assert_eq!(first("endpoint ls"), ["a", "b", "c", "x", "y"]);
}

/// As the scripts of shells ask; bash itself is asked in `tests/connect`.
#[test]
fn names_complete_a_command_line() {
    let host = two_networks();
    super::network::entitle(&host, "back", "fen", model::Publisher::Spoke);
    host.attach("front", "4be1", Some("web"));
    let names = |words: &[&str]| host.try_spoke(&[&["complete", "--"], words].concat());
    assert_eq!(names(&["network", "rm", "f"]), (0, "fen\nfront\n".into(), String::new()));
    assert_eq!(names(&["network", "rm", "x"]).1, "");
    assert_eq!(names(&["limit", ""]).1, "web\n");
    assert_eq!(names(&["limit", "--network", "b"]).1, "back\n");
    assert_eq!(names(&["top", ""]).1, "back\nfen\nfront\nweb\n");
    assert_eq!(names(&["network", "create", ""]), (0, String::new(), String::new()));
}

/// Most networks are ready, and no column says so.
#[test]
fn a_network_that_takes_no_containers_says_why() {
    let host = two_networks();
    let text = host.spoke("network ls");
    assert!(!text.contains("STATE"), "{text}");
    host.spoke("network create --config-only frame");
    let text = host.spoke("network ls");
    assert!(text.lines().next().unwrap().ends_with("STATE"), "{text}");
    for (name, state) in [("back", "ready"), ("frame", "config-only")] {
        let row = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row.ends_with(state), "{row}");
        let shown = host.spoke(&format!("network inspect {name}"));
        assert!(shown.contains(&format!("\"state\": \"{state}\"")), "{shown}");
    }
}
