//! The names of containers in lists and errors, and the values of filters.

use super::network::two_networks;
use super::*;

#[test]
fn filters_have_values_that_there_are() {
    let host = two_networks();
    for (line, said) in [
        (
            "ps -f runtime=podmann",
            "there is no runtime 'podmann'; did you mean podman? it is one of cni, docker, kurma",
        ),
        ("ps -f state=xx", "there is no state 'xx'; it is one of reserved, attaching, attached"),
        ("endpoint ls -f state=xx", "there is no state 'xx'"),
        ("network ls -f runtime=podmann", "there is no runtime 'podmann'"),
    ] {
        let (code, error) = host.refused(line);
        assert!(code == 2 && error.contains(said), "{line}: {code} {error}");
    }
    for runtime in ["cni", "docker", "kurma", "podman", "reference"] {
        assert_eq!(host.spoke(&format!("network ls -q -f runtime={runtime}")), "");
    }
    assert_eq!(host.spoke("network ls -q -f runtime=spoke"), "back\nfront\n");
    assert_eq!(host.spoke("network ls -q -f driver=macvlan"), "");
    let (code, out, said) = host.try_spoke(&["network", "ls", "-q", "-f", "driver=bogus"]);
    assert_eq!((code, out.as_str()), (0, ""), "a plugin may have a network of it later");
    assert!(said.contains("there is no driver 'bogus'; it is one of bridge, ptp"), "{said}");
}

/// As Docker's containers are: their name is learned after they are attached, and their ports have a record of
/// their own.
#[test]
fn a_container_has_one_name_everywhere() {
    const ENDPOINT: &str = "92ddfa92f5a292ddfa92f5a292ddfa92f5a292ddfa92f5a292ddfa92f5a292dd";
    let host = two_networks();
    let id = host.attach("back", ENDPOINT, None).id;
    let network = host.engine().records.network(&"back".parse().unwrap()).unwrap();
    let mut ports = request(&network, ENDPOINT, Some("web"));
    (ports.layer, ports.owner, ports.ipam) = (Layer::Publish, None, model::Ipam::None);
    ports.wiring.link = None;
    host.engine().attachments.attach(&ports).unwrap();
    host.engine().attachments.set_owner(&id, &"shop".parse().unwrap()).unwrap();

    assert_eq!(host.spoke("ps -q back"), "shop\n");
    let shown = host.spoke("ipam show back");
    assert!(shown.contains("shop") && !shown.contains("92ddfa92"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("ipam show back -o json")).unwrap();
    assert_eq!(json["addresses"][0]["owner"], "shop");
    let records = host.engine().records.attachments().unwrap();
    let published: Vec<String> =
        linux::meter::published(&records).iter().map(|it| it.container_name()).collect();
    assert_eq!(published, ["shop"]);

    let (code, error) = host.refused("network rm back");
    let said = "network back still has an attachment, container shop (eth0) on network back";
    assert!(code == 4 && error.contains(said), "{error}");
    let (code, error) = host.refused("ipam release 10.70.1.2");
    assert!(code == 4 && error.contains("is held by container shop (eth0)"), "{error}");
}

/// Docker's network is called as its user calls it, and its container as it was called a moment later.
#[test]
fn what_was_refused_says_whose_it_was() {
    let host = two_networks();
    super::network::entitle(&host, "back", "fen", model::Publisher::Runtime);
    let line = |id: &str| {
        format!(
            "{{\"time\":1,\"network\":\"back\",\"id\":\"{id}\",\"runtime\":\"docker\",\
             \"source\":\"10.70.1.2\",\"act\":\"name-refused\",\"name\":\"a.example\",\
             \"why\":\"not in egress of back, which learns\"}}\n"
        )
    };
    host.write("run/spoke/denied", &(line("92dd") + &line("77")));
    let event = "{\"time\":1,\"event\":\"detached\",\"network\":\"back\",\"container\":\"92dd\",\
                 \"name\":\"web\",\"runtime\":\"docker\",\"message\":\"web left network back\"}\n";
    host.write("run/spoke/events", event);
    let text = host.spoke("denied back");
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert!(rows[0].contains(" fen ") && rows[0].contains(" docker/web "), "{text}");
    assert!(rows[0].ends_with("not in egress of fen, which learns"), "{text}");
    assert!(rows[1].contains(" 10.70.1.2 "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&host.spoke("denied -o json")).unwrap();
    assert_eq!((&json[0]["network"], &json[0]["container"]), (&"back".into(), &"web".into()));
}

/// What was written down keeps the network's name; people read what its runtime calls it.
#[test]
fn events_and_refusals_say_what_the_runtime_calls_the_network() {
    let host = two_networks();
    let event = "{\"time\":1,\"event\":\"attached\",\"network\":\"back\",\"container\":\"92dd\",\
                 \"name\":\"web\",\"runtime\":\"docker\",\"message\":\"web is on network back with 10.70.1.2\"}\n\
                 {\"time\":2,\"event\":\"attached\",\"network\":\"back\",\"container\":\"c1\",\
                 \"runtime\":\"cni\",\"message\":\"c1 is on network back with 10.70.1.3\"}\n";
    host.write("run/spoke/events", event);
    assert!(host.spoke("events").contains("web is on network back with"));
    super::network::entitle(&host, "back", "fen", model::Publisher::Runtime);
    let text = host.spoke("events");
    assert!(text.contains("web is on network fen with"), "{text}");
    assert!(text.contains("c1 is on network back with"), "another runtime's: {text}");
    let json: serde_json::Value = serde_json::from_str(&host.spoke("events -o json")).unwrap();
    assert_eq!((&json[0]["network"], &json[0]["title"]), (&"back".into(), &"fen".into()));
    assert_eq!(
        (&json[1]["network"], &json[1]["title"]),
        (&"back".into(), &serde_json::Value::Null)
    );
    assert!(json[0]["message"].as_str().unwrap().contains("network back"), "{json}");

    let denied = "{\"time\":1,\"network\":\"back\",\"id\":\"92dd\",\"runtime\":\"docker\",\
                  \"source\":\"10.70.1.2\",\"act\":\"name-refused\",\"why\":\"not in egress of back\"}\n";
    host.write("run/spoke/denied", denied);
    let json: serde_json::Value = serde_json::from_str(&host.spoke("denied fen -o json")).unwrap();
    assert_eq!((&json[0]["network"], &json[0]["title"]), (&"back".into(), &"fen".into()));
}

/// Two engines may have a network of one name.
#[test]
fn a_title_of_two_networks_means_neither() {
    let host = two_networks();
    let alias = super::network::entitle(&host, "back", "fen", model::Publisher::Spoke);
    let front = host.engine().records.network(&"front".parse().unwrap()).unwrap();
    let id = "fedcba9876543210".parse().unwrap();
    let other = model::Alias { id, network: front.name.clone(), ..alias };
    host.engine().networks.enroll(&other, &front).unwrap();
    host.attach("back", "c1", None);
    for line in [
        "denied fen",
        "egress show fen",
        "egress set fen 10.9.0.7:443",
        "top fen",
        "ps fen",
        "flows fen",
    ] {
        let (code, said) = host.refused(line);
        let is_clear = said.contains("call a network fen") && said.contains("back, front");
        assert!(code == 4 && is_clear, "{line}: {code} {said}");
    }
}

/// A network that a command renamed, whatever its runtime goes on to call it.
#[test]
fn a_renamed_network_has_its_new_name_in_lists() {
    let host = two_networks();
    super::network::entitle(&host, "back", "fen", model::Publisher::Spoke);
    host.attach("back", "web", None);
    assert!(host.spoke("ps").contains(" fen "), "{}", host.spoke("ps"));
    host.spoke("network rename back edge");
    let text = host.spoke("ps");
    assert!(text.contains(" edge ") && !text.contains(" fen "), "{text}");
}

/// As every other view does; what scripts and arguments name goes on to be the book's name.
#[test]
fn lists_call_networks_as_their_runtime_does() {
    let host = two_networks();
    super::network::entitle(&host, "back", "fen", model::Publisher::Spoke);
    host.attach("back", "c1", Some("web"));
    host.spoke("endpoint create back db");
    let row = |line: &str, of: &str| {
        let text = host.spoke(line);
        let found = text.lines().find(|row| row.contains(of));
        found.unwrap_or_else(|| panic!("{line}: {of} in {text}")).to_owned()
    };
    for (line, of) in [
        ("network ls", "10.70.1.0/24"),
        ("network ls -f name=fen", "10.70.1.0/24"),
        ("ipam show", "10.70.1.0/24"),
        ("ipam show fen", "10.70.1.0/24"),
        ("ipam show 10.70.1.77", "10.70.1.77"),
        ("endpoint ls", "db"),
        ("endpoint ls fen", "db"),
    ] {
        let row = row(line, of);
        let words: Vec<&str> = row.split_whitespace().collect();
        assert!(words.contains(&"fen") && !words.contains(&"back"), "{line}: {row}");
    }
    assert_eq!(host.spoke("network ls -q"), "back\nfront\n");
    for (line, at) in [
        ("network ls -o json", "/0"),
        ("endpoint ls -o json", "/0"),
        ("ipam show fen -o json", "/pools/0"),
        ("ipam show fen -o json", "/addresses/0"),
    ] {
        let json: serde_json::Value = serde_json::from_str(&host.spoke(line)).unwrap();
        let shown = json.pointer(at).unwrap();
        let name = shown.get("network").unwrap_or(&shown["name"]);
        assert_eq!((name, &shown["title"]), (&"back".into(), &"fen".into()), "{line}: {shown}");
    }
}
