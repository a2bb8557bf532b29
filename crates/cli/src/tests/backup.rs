use super::*;

fn host() -> Fixture {
    let host = Fixture::new();
    host.spoke("network create --subnet 10.70.1.0/24 --label tier=web front");
    host.spoke("network create --subnet 10.70.2.0/24 back");
    host.spoke("ipam reserve 10.70.1.9 --for db --network front");
    host
}

fn backup(host: &Fixture) -> String {
    host.spoke("backup -")
}

#[test]
fn what_was_lost_comes_back_while_containers_run() {
    let host = host();
    let before = host.spoke("network inspect front back");
    host.attach("front", "c1", None);
    let book = backup(&host);
    let other = Fixture::new();
    other.write("book", &book);
    let path = other.path("book").display().to_string();
    let restored = "network back\nX network front\nX the reservation of 10.70.1.9\n\
                    X the addresses that db had of network front\n";
    let would = format!("would restore {}", restored.replace('X', "would restore"));
    assert_eq!(other.spoke(&format!("restore --dry-run {path}")), would);
    assert_eq!(other.spoke("network ls -q"), "");
    let did = format!("restored {}", restored.replace('X', "restored"));
    assert_eq!(other.spoke(&format!("restore {path}")), did);
    assert_eq!(other.spoke("network inspect front back"), before);
    assert_eq!(other.spoke(&format!("restore {path}")), "4 are here as they were\n");
    let db = other.attach("front", "c5", Some("db"));
    assert_eq!(db.leases[0].address.addr().to_string(), "10.70.1.9");
}

#[test]
fn what_others_have_meanwhile_is_named_and_nothing_is_written() {
    let host = host();
    let other = Fixture::new();
    other.write("book", &backup(&host));
    let path = other.path("book").display().to_string();
    other.spoke("network create --subnet 10.70.2.0/25 mine");
    let (code, error) = other.refused(&format!("restore {path}"));
    assert_eq!(code, 4);
    assert!(error.contains("network back cannot be restored"), "{error}");
    assert!(error.contains("overlaps network mine"), "{error}");
    assert_eq!(other.spoke("network ls -q"), "mine\n");
    other.spoke("network rm mine");
    other.spoke("network create --subnet 10.70.9.0/24 back");
    let (code, error) = other.refused(&format!("restore {path}"));
    assert_eq!(code, 4);
    assert!(error.contains("network back is in the book already, and differs"), "{error}");
    let line = ["restore", "--keep-existing", &path];
    let (code, out, err) = other.try_spoke(&line);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("restored network front\n"), "{out}");
    assert_eq!(err, "spoke: network back is here and differs; it stays\n");
}

#[test]
fn a_damaged_backup_is_refused_whole() {
    let host = host();
    let book = backup(&host);
    host.write("cut", &book[..book.len() - 40]);
    host.write("edited", &book.replacen("10.70.1.0", "10.70.3.0", 1));
    for (name, why) in [("cut", "last line"), ("edited", "digest"), ("spoke-binary", "no whole")] {
        let (code, error) = host.refused(&format!("restore {}", host.path(name).display()));
        assert_eq!(code, 2, "{name}");
        assert!(error.contains(why), "{name}: {error}");
    }
}

#[test]
fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let host = host();
    let path = host.path("book.spoke");
    host.spoke(&format!("backup {}", path.display()));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(path).unwrap(), backup(&host));
}

#[test]
fn a_backup_replaces_files_only() {
    let host = host();
    let (target, link) = (host.path("target"), host.path("link"));
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for path in [link, host.path(""), "/dev/null".into(), "/dev/stdout".into()] {
        let (code, error) = host.refused(&format!("backup {}", path.display()));
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("not a regular file"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
}

/// What the same container has is its own; what another one has is not given to two.
#[test]
fn an_address_that_others_have_meanwhile_is_named() {
    let host = host();
    host.spoke("endpoint create --ip 10.70.2.7 back kept");
    let book = backup(&host);
    let lost = |holder: &str, network: &str, address: &str| {
        let other = Fixture::new();
        other.write("book", &book);
        other.spoke("network create --subnet 10.70.1.0/24 --label tier=web front");
        other.spoke("network create --subnet 10.70.2.0/24 back");
        other.spoke(&format!("ipam reserve {address} --for {holder} --network {network}"));
        other.attach(network, "c9", Some(holder));
        other.try_spoke(&["ipam", "release", address]);
        let path = other.path("book").display().to_string();
        let result = other.try_spoke(&["restore", &path]);
        (result.0, result.2, other.spoke("ipam show -o json"))
    };
    let (code, error, _) = lost("web", "front", "10.70.1.9");
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("the reservation of 10.70.1.9 cannot be restored"), "{error}");
    assert!(error.contains("container web"), "{error}");
    let (code, error, _) = lost("web", "back", "10.70.2.7");
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("10.70.2.7"), "{error}");
    let (code, error, book) = lost("db", "front", "10.70.1.9");
    assert_eq!(code, 0, "{error}");
    assert!(book.contains("10.70.1.9"), "{book}");
}

#[test]
fn what_does_not_fit_a_network_that_stays_is_left_out() {
    let host = host();
    host.spoke("endpoint create --ip 10.70.2.7 back kept");
    let other = Fixture::new();
    other.write("book", &backup(&host));
    let path = other.path("book").display().to_string();
    other.spoke("network create --subnet 10.70.9.0/24 back");
    let (code, out, err) = other.try_spoke(&["restore", "--keep-existing", &path]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("restored network front\n") && !out.contains("kept"), "{out}");
    for what in ["endpoint kept of network back", "the reservation of 10.70.2.7"] {
        assert!(err.contains(&format!("{what} does not fit what stays; it is left out")), "{err}");
    }
    assert!(!other.spoke("endpoint ls").contains("kept"));
}

#[test]
fn a_backup_into_a_file_says_so_in_json() {
    let host = host();
    let path = host.path("book").display().to_string();
    assert_eq!(host.spoke(&format!("backup {path}")), "");
    let said: serde_json::Value =
        serde_json::from_str(&host.spoke(&format!("backup -o json {path}"))).unwrap();
    assert_eq!((&said["file"], &said["damaged"]), (&path.as_str().into(), &serde_json::json!([])));
    assert_eq!(said["records"], 4, "two networks, a reservation, a name's addresses");
    assert_eq!(host.spoke("backup -o json -"), host.spoke("backup -"), "the backup itself");
}
