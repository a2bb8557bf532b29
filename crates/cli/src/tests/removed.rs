//! Networks that Docker has removed, or that an engine has which is not asked.

use super::*;

/// A network of Docker's, which its user calls shop and the book docker-1.
fn of_docker(host: &Fixture, since: u64) -> (Network, model::Alias) {
    let (name, wiring) = ("docker-1".parse().unwrap(), model::Wiring::default());
    let network =
        Network::new(name, model::Runtime::Docker, Timestamp(NOW), wiring, model::Ipam::None);
    let alias = model::Alias {
        title: "shop".parse().ok(),
        since: Timestamp(since),
        ..doubles::alias("0123", &network)
    };
    host.engine().networks.enroll(&alias, &network).unwrap();
    (network, alias)
}

/// Docker removes a network also where the daemon does not answer.
#[test]
fn a_network_that_docker_has_removed_is_named() {
    let host = super::network::two_networks();
    let (_, alias) = of_docker(&host, NOW - 20);
    let is_named = || {
        let said = host.try_spoke(&["doctor"]).1;
        let is_named =
            said.contains("warn  network shop is in the book, and no Docker Engine that is asked");
        let note = "note: if no engine has it any more: spoke network rm --force docker-1\n";
        assert_eq!(said.contains(note), is_named, "{said}");
        assert!(!said.contains("fix: spoke network rm"), "{said}");
        is_named
    };
    let refused = || host.refused("network rm docker-1").1;
    assert!(!is_named(), "no engine answers");
    host.listed.replace(Some([alias.id.to_string()].into()));
    assert!(!is_named());
    assert!(refused().contains("remove it there, with `docker network rm shop`"), "{}", refused());
    host.listed.replace(Some(BTreeSet::new()));
    assert!(is_named());
    assert!(refused().ends_with("`spoke network rm --force docker-1`"), "{}", refused());
    let (code, out, said) = host.try_spoke(&["network", "rm", "--force", "docker-1"]);
    assert_eq!((code, out.as_str(), said.as_str()), (0, "docker-1\n", ""));
    assert!(!is_named());
}

/// One that an engine makes now is not listed yet.
#[test]
fn a_network_that_is_being_made_is_dockers() {
    let host = Fixture::new();
    of_docker(&host, NOW - 19);
    host.listed.replace(Some(BTreeSet::new()));
    let (_, said) = host.refused("network rm docker-1");
    assert!(said.ends_with("with `docker network rm shop`"), "{said}");
}

/// Another runtime's, or those of an engine that is not asked: no advice detaches them.
#[test]
fn nothing_advises_to_detach_containers_of_an_engine_that_is_not_asked() {
    let host = Fixture::new();
    host.write("run/systemd/system/spoke.service", "");
    of_docker(&host, NOW - 20);
    host.attach("docker-1", "c1", None);
    host.listed.replace(Some(BTreeSet::new()));
    let fix = || {
        let said = host.try_spoke(&["doctor"]).1;
        assert!(
            said.contains("network shop is in the book") && !said.contains("--force"),
            "{said}"
        );
        let (_, rest) = said.split_once("network shop is in the book").unwrap();
        let line = rest.lines().nth(1).unwrap().trim();
        line.trim_start_matches("fix: ").to_owned()
    };
    assert!(fix().starts_with("systemctl start spoke  # "), "{}", fix());
    assert!(fix().ends_with("name an engine that has it in [docker] api"), "{}", fix());
    let daemon = super::daemon::served(&host);
    assert_eq!(fix(), "note: name the engine that has it in [docker] api: containers are on it");
    drop(daemon);

    let (_, _, said) = host.try_spoke(&["network", "rm", "--force", "docker-1"]);
    assert!(said.contains("not in [docker] api has it, none of its containers"), "{said}");
    assert!(said.contains("`docker network rm shop`, and create it again"), "{said}");
}

/// One that hangs is waited for.
#[test]
fn engines_are_asked_once_and_only_about_networks_of_dockers() {
    let host = super::network::two_networks();
    host.spoke("network rm front");
    assert_eq!(host.engines_asked.take(), 0);
    host.spoke("network create --subnet 10.70.3.0/24 front");
    of_docker(&host, NOW - 20);
    let (code, _, _) = host.try_spoke(&["network", "rm", "docker-1", "docker-1", "front"]);
    assert_eq!((code, host.engines_asked.take()), (4, 1));
    host.try_spoke(&["network", "rm", "--force", "docker-1", "back"]);
    assert_eq!(host.engines_asked.take(), 1);
}
