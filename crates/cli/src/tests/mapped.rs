//! Ports that Docker maps.

use docker::api::Endpoint;

use super::network::{entitle, two_networks};
use super::*;

const THEIRS: &str = "fedcba9876543210";

fn end(network: &str, id: &str, addresses: &[&str]) -> (Option<model::AliasId>, Endpoint) {
    let endpoint = Endpoint {
        id: id.parse().unwrap(),
        name: Some("till".parse().unwrap()),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    };
    (Some(network.parse().unwrap()), endpoint)
}

fn port(host: &str, port: u16) -> model::PortMap {
    model::PortMap {
        host: Some(host.parse().unwrap()),
        host_port: port.try_into().unwrap(),
        container_port: 80.try_into().unwrap(),
        protocol: model::Protocol::Tcp,
    }
}

fn container(ends: Vec<(Option<model::AliasId>, Endpoint)>, ports: &[model::PortMap]) -> Container {
    let networks = [(THEIRS.parse().unwrap(), "shop_default".parse().unwrap())].into();
    Container { endpoints: ends, networks, ports: ports.to_vec() }
}

/// The first five columns of each row.
fn rows(out: &str) -> Vec<Vec<&str>> {
    out.lines().skip(1).map(|line| line.split_whitespace().take(5).collect()).collect()
}

#[test]
fn ports_that_docker_maps_are_shown_with_ours() {
    let host = two_networks();
    let alias = entitle(&host, "back", "shop", model::Publisher::Runtime);
    host.attach("back", "c1", None);
    let answer = || {
        let ours = container(
            vec![end(THEIRS, "c7", &[]), end(alias.id.as_str(), "c1", &[])],
            &[port("0.0.0.0", 8080), port("::", 8080)],
        );
        vec![Ok(vec![ours]), Err(Error::try_again("no answer"))]
    };
    host.running.replace(answer());
    let (code, out, err) = host.try_spoke(&["ports"]);
    assert_eq!(code, 0);
    assert_eq!(err, "spoke: ports that Docker maps by itself are missing: no answer\n");
    let row = |host| vec!["8080/tcp", host, "?:80", "any", "till"];
    assert_eq!(rows(&out), [row("0.0.0.0"), row("::")], "{out}");
    host.running.replace(answer());
    let (_, out, _) = host.try_spoke(&["ps"]);
    assert!(out.contains("0.0.0.0:8080->80/tcp,[::]:8080->80/tcp"), "{out}");
    host.running.replace(answer());
    let (_, out, err) = host.try_spoke(&["ports", "front"]);
    assert!(!out.contains("8080") && !err.is_empty(), "{out}");
}

#[test]
fn ports_of_dockers_own_networks_are_listed() {
    let host = two_networks();
    let answer = || {
        let bound = [port("0.0.0.0", 5432), port("::", 5432), port("127.0.0.1", 9)];
        let theirs = container(vec![end(THEIRS, "c7", &["172.18.0.2"])], &bound);
        vec![Ok(vec![theirs, container(vec![end(THEIRS, "c8", &[])], &[])])]
    };
    for (command, of_front) in [
        (["ports"].as_slice(), ["ports", "front"].as_slice()),
        (&["port", "ls"], &["port", "ls", "--network", "front"]),
    ] {
        host.running.replace(answer());
        let (code, out, err) = host.try_spoke(command);
        assert_eq!((code, err.as_str()), (0, ""));
        let all = [
            vec!["9/tcp", "127.0.0.1", "172.18.0.2:80", "local"],
            vec!["5432/tcp", "0.0.0.0", "172.18.0.2:80", "any"],
            vec!["5432/tcp", "::", "172.18.0.2:80", "any"],
        ];
        let shown: Vec<Vec<&str>> = rows(&out).into_iter().map(|row| row[..4].to_vec()).collect();
        assert_eq!(shown, all, "{out}");
        assert!(out.lines().skip(1).all(|it| it.ends_with("till  docker   shop_default")), "{out}");
        host.running.replace(answer());
        let (code, out, _) = host.try_spoke(of_front);
        assert_eq!((code, rows(&out).len()), (0, 0), "{out}");
    }
}

/// What is not there has no ports; what does not answer may have some.
#[test]
fn a_host_without_docker_hears_nothing_of_it() {
    let host = two_networks();
    let (absent, silent) = (Error::not_found("no engine"), Error::try_again("no answer"));
    for (error, said) in
        [(absent, ""), (silent, "spoke: ports that Docker maps by itself are missing: no answer\n")]
    {
        host.running.replace(vec![Err(error)]);
        let (code, _, err) = host.try_spoke(&["ports"]);
        assert_eq!((code, err.as_str()), (0, said));
    }
}
