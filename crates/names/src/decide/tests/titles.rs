//! What runtimes call networks.

use super::*;

/// A network that a runtime made, and what some runtimes call it.
fn made(table: &mut Table, name: &str, by: Runtime, gateway: &str) {
    let name: NetworkName = name.parse().unwrap();
    let mut member = RecordBuilder::on(name.as_str(), "web", gateway).record;
    member.sandbox = Some(Sandbox { path: format!("/run/netns/{name}").into(), inode: 7 });
    let (wiring, ipam) = (member.wiring.clone(), member.ipam.clone());
    let network = model::Network::new(name.clone(), by, Timestamp(0), wiring, ipam);
    table.put_network(&name, true, Some(&network));
    table.put_attachment(&member.id, Layer::Link, Some(&member));
}

fn alias(network: &str, id: &str, title: &str) -> model::Alias {
    model::Alias {
        id: id.parse().unwrap(),
        network: network.parse().unwrap(),
        runtime: Runtime::Docker,
        since: Timestamp(0),
        title: Some(title.parse().unwrap()),
        publisher: model::Publisher::Spoke,
        handoff: model::Handoff::Finish,
        publish_on: None,
        prefix: None,
        lister: None,
    }
}

fn titled(table: &mut Table, network: &str, id: &str, title: &str) {
    let alias = alias(network, id, title);
    table.put_alias(&alias.id, Some(&alias));
}

/// Docker's user names the network, and Spoke names it in the book after its subnet.
#[test]
fn a_network_of_dockers_is_called_as_docker_calls_it() {
    let (book, asker) = ("docker-10.1.0.0-24", ("docker-10.1.0.0-24", "10.1.0.2"));
    let mut table = Table::default();
    made(&mut table, book, Runtime::Docker, "10.1.0.2/24");
    made(&mut table, "front", Runtime::Spoke, "10.2.0.2/24");
    let pointer = |table: &Table| asks(table, asker, "2.0.1.10.in-addr.arpa", Rtype::PTR);
    assert_eq!(pointer(&table), "web.docker-10.1.0.0-24.spoke.");
    let before = table.generation();
    titled(&mut table, book, "a", "Shop");
    titled(&mut table, "front", "b", "lan");
    assert_ne!(table.generation(), before);
    for name in ["web.shop.spoke", "web.docker-10.1.0.0-24.spoke"] {
        assert_eq!(asks(&table, asker, name, Rtype::A), "10.1.0.2", "{name}");
    }
    assert_eq!(asks(&table, asker, "web.lan.spoke", Rtype::A), "NXDOMAIN");
    assert_eq!(pointer(&table), "web.shop.spoke.");
    assert_eq!(table.called(&book.parse().unwrap()).as_str(), "Shop");
    let domains = |table: &Table, network: &str| {
        let places = table.places();
        let place = places.iter().find(|it| it.network.as_str() == network).unwrap();
        place.domains(&places)
    };
    assert_eq!(domains(&table, book), ["shop.spoke", "docker-10.1.0.0-24.spoke"]);
    // Who made the other one has named it.
    assert_eq!(domains(&table, "front"), ["front.spoke", "lan.spoke"]);
    let other = ("front", "10.2.0.2");
    assert_eq!(asks(&table, other, "web.lan.spoke", Rtype::A), "10.2.0.2");
    assert_eq!(asks(&table, other, "2.0.2.10.in-addr.arpa", Rtype::PTR), "web.front.spoke.");
    table.put_alias(&"a".parse().unwrap(), None);
    assert_eq!(asks(&table, asker, "web.shop.spoke", Rtype::A), "NXDOMAIN");
}

#[test]
fn what_a_runtime_calls_a_network_takes_no_name_of_another_one() {
    let (book, asker) = ("docker-10.1.0.0-24", ("docker-10.1.0.0-24", "10.1.0.2"));
    for (title, other) in [("FRONT", ""), ("same", "Same"), ("a.front", ""), ("spare", "x.spare")] {
        let mut table = Table::default();
        made(&mut table, book, Runtime::Docker, "10.1.0.2/24");
        made(&mut table, "front", Runtime::Spoke, "10.2.0.2/24");
        titled(&mut table, book, "a", title);
        if !other.is_empty() {
            titled(&mut table, "front", "b", other);
        }
        let name = format!("web.{}.spoke", title.to_ascii_lowercase());
        assert_eq!(asks(&table, asker, &name, Rtype::A), "NXDOMAIN", "{title}");
        let pointer = asks(&table, asker, "2.0.1.10.in-addr.arpa", Rtype::PTR);
        assert_eq!(pointer, "web.docker-10.1.0.0-24.spoke.", "{title}");
        let found = asks(&table, ("front", "10.2.0.2"), "web.front.spoke", Rtype::A);
        assert_eq!(found, "10.2.0.2", "{title}");
    }
}

/// What is above or below takes a title away from another network only, and names are found as before.
#[test]
fn a_network_may_have_names_below_its_own() {
    let (book, asker) = ("front", ("front", "10.1.0.2"));
    let mut table = Table::default();
    made(&mut table, book, Runtime::Docker, "10.1.0.2/24");
    let api = RecordBuilder::on(book, "v1.z", "10.1.0.3/24").record;
    table.put_attachment(&api.id, Layer::Link, Some(&api));
    titled(&mut table, book, "a", "z.front");
    for (name, expected) in [
        ("web.z.front.spoke", "10.1.0.2"),
        ("web.front.spoke", "10.1.0.2"),
        ("v1.z.front.spoke", "10.1.0.3"),
        ("v1.z.z.front.spoke", "10.1.0.3"),
        ("z.front.spoke", ""),
        ("no.z.front.spoke", "NXDOMAIN"),
    ] {
        assert_eq!(asks(&table, asker, name, Rtype::A), expected, "{name}");
    }
}

/// A second network of Docker's that leads there is what the first one is not.
#[test]
fn a_network_is_called_what_docker_called_it_first() {
    let called = |book: &str, titles: &[(&str, &str, u64)]| {
        let mut table = Table::default();
        made(&mut table, book, Runtime::Docker, "10.1.0.2/24");
        for (id, title, since) in titles {
            let alias = model::Alias { since: Timestamp(*since), ..alias(book, id, title) };
            table.put_alias(&alias.id, Some(&alias));
        }
        let found = asks(&table, (book, "10.1.0.2"), "web.other.spoke", Rtype::A);
        assert_eq!(found, "10.1.0.2");
        table.called(&book.parse().unwrap()).to_string()
    };
    let book = "docker-10.1.0.0-24";
    assert_eq!(called(book, &[("a", "other", 9), ("b", "shop", 5)]), "shop");
    assert_eq!(called(book, &[("a", "shop", 5), ("b", "other", 9)]), "shop");
    // Its name in the book is what Docker calls it.
    assert_eq!(called("shop", &[("a", "Shop", 5), ("b", "other", 9)]), "shop");
    assert_eq!(called("shop", &[("a", "other", 5), ("b", "shop", 9)]), "shop");
}
