use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use engine::Members;
use engine::port::{Granted, Ipam};
use model::{
    Attachment, ForeignIpam, Layer, Network, Order, Phase, Pool, PoolId, Process, Range, Runtime,
    Space, Timestamp, Wiring,
};

use super::Delegates;

fn pools() -> Vec<Pool> {
    let ip = |text: &str| text.parse().unwrap();
    let range = Range::new(
        "10.9.0.0/29".parse().unwrap(),
        ip("10.9.0.1"),
        ip("10.9.0.3"),
        Some(ip("10.9.0.1")),
    );
    let id = PoolId { network: "n".parse().unwrap(), index: 0 };
    vec![Pool { id, space: Space::Host, ranges: vec![range.unwrap()], order: Order::NextAfterLast }]
}

fn attachment(container: &str, ipam: model::Ipam, addresses: &[&str]) -> Attachment {
    let pool = pools().remove(0);
    Attachment {
        ipam,
        leases: addresses.iter().map(|a| pool.lease(a.parse().unwrap()).unwrap()).collect(),
        ..Attachment::new(
            doubles::attachment_id("n", container),
            Layer::Link,
            Runtime::Cni,
            Timestamp(0),
            Phase::Attaching { by: Process { pid: 1, start: 1 } },
        )
    }
}

fn network(ipam: model::Ipam) -> Network {
    Network::new("n".parse().unwrap(), Runtime::Cni, Timestamp(0), Wiring::default(), ipam)
}

/// A directory, and a boot that began before or after everything in it.
struct Bench {
    root: tempfile::TempDir,
    delegates: Delegates,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let stat = root.path().join("stat");
        fs::write(&stat, "cpu 1 2 3\nbtime 1000\nprocesses 5\n").unwrap();
        Self { delegates: Delegates { stat, devices: "/nowhere".into(), locks: None }, root }
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("networks/n")
    }

    fn ipam(&self) -> model::Ipam {
        model::Ipam::HostLocal { pools: pools(), directory: self.directory() }
    }

    fn of(&self, container: &str, addresses: &[&str]) -> Attachment {
        attachment(container, self.ipam(), addresses)
    }

    fn put(&self, address: &str, content: &str) {
        fs::create_dir_all(self.directory()).unwrap();
        fs::write(self.directory().join(address), content).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn reboot(&self) {
        fs::write(&self.delegates.stat, "btime 99999999999\n").unwrap();
    }
}

#[test]
fn writes_and_removes_what_the_reference_would() {
    let bench = Bench::new();
    let one = bench.of("c1", &["10.9.0.2"]);
    assert_eq!(bench.delegates.lease(&one).unwrap(), Granted::Chosen);
    assert_eq!(bench.delegates.lease(&one).unwrap(), Granted::Chosen, "adopted");
    assert_eq!(bench.names(), ["10.9.0.2", "last_reserved_ip.0", "lock"]);
    let read = |name: &str| fs::read_to_string(bench.directory().join(name)).unwrap();
    assert_eq!(
        (read("10.9.0.2"), read("last_reserved_ip.0")),
        ("c1\r\neth0".into(), "10.9.0.2".into())
    );
    bench.delegates.check(&one).unwrap();
    bench.delegates.release(&one).unwrap();
    bench.delegates.release(&one).unwrap();
    assert_eq!(bench.names(), ["last_reserved_ip.0", "lock"]);
    assert!(bench.delegates.check(&one).unwrap_err().to_string().contains("container c1"));
}

#[test]
fn an_address_of_this_boot_is_not_taken_from_its_owner() {
    let bench = Bench::new();
    bench.put("10.9.0.3", "other\r\neth0");
    let granted = bench.delegates.lease(&bench.of("c1", &["10.9.0.2", "10.9.0.3"])).unwrap();
    let Granted::Held { address, by, all } = granted else { panic!("{granted:?}") };
    assert_eq!(address.to_string(), "10.9.0.3");
    assert!(all.contains(&address));
    assert!(by.starts_with("container other eth0, as "), "{by}");
    assert_eq!(bench.names(), ["10.9.0.3", "lock"], "all or none");
}

#[test]
fn what_a_reboot_or_a_crash_left_is_free() {
    let bench = Bench::new();
    bench.put("10.9.0.2", "");
    bench.put("10.9.0.3", "dead\r\neth0");
    let one = bench.of("c1", &["10.9.0.2"]);
    assert_eq!(bench.delegates.lease(&one).unwrap(), Granted::Chosen);
    bench.reboot();
    let two = bench.of("c2", &["10.9.0.3"]);
    assert_eq!(bench.delegates.lease(&two).unwrap(), Granted::Chosen);
}

#[test]
fn releases_what_others_wrote_for_the_same_owner() {
    let bench = Bench::new();
    bench.put("10.9.0.2", "c1\r\neth0");
    bench.put("10.9.0.3", "c1\r\neth1");
    bench.delegates.check(&bench.of("c1", &[])).unwrap();
    bench.delegates.release(&bench.of("c1", &[])).unwrap();
    assert_eq!(bench.names(), ["10.9.0.3", "lock"]);
    bench.put("10.9.0.2", "c2\n");
    bench.delegates.release(&bench.of("c2", &[])).unwrap();
    assert_eq!(bench.names(), ["10.9.0.3", "lock"], "an old version knew no interface");
    bench.put("10.9.0.2", "c2");
    bench.delegates.release(&bench.of("c2", &["10.9.0.2"])).unwrap();
    assert_eq!(bench.names(), ["10.9.0.3", "lock"], "the address is known, too");
    bench.delegates.release(&bench.of("c1", &["10.9.0.3"])).unwrap();
    assert_eq!(bench.names(), ["10.9.0.3", "lock"], "of another interface");
}

#[test]
fn gc_keeps_the_valid_only() {
    let bench = Bench::new();
    bench.delegates.gc(&network(bench.ipam()), &Members::new()).unwrap();
    bench.put("10.9.0.2", "c1\r\neth0");
    bench.put("10.9.0.3", "c2\r\neth0");
    bench.put("last_reserved_ip.0", "10.9.0.3");
    let valid = Members::from([("c1".parse().unwrap(), "eth0".parse().unwrap())]);
    bench.delegates.gc(&network(bench.ipam()), &valid).unwrap();
    assert_eq!(bench.names(), ["10.9.0.2", "last_reserved_ip.0", "lock"]);
}

/// Another process may be writing the file of a claim: without the lock nothing is removed.
#[test]
fn nothing_goes_while_the_directory_cannot_be_locked() {
    let bench = Bench::new();
    bench.put("10.9.0.2", "");
    fs::create_dir(bench.directory().join("lock")).unwrap();
    let network = network(bench.ipam());
    let refused = [
        bench.delegates.gc(&network, &Members::new()).unwrap_err(),
        bench.delegates.remove(&network).unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().contains("locking the directory"), "{error}");
    }
    assert!(bench.names().contains(&"10.9.0.2".to_owned()));
}

#[test]
fn status_counts_files_of_this_boot() {
    let bench = Bench::new();
    let status = || bench.delegates.status(&network(bench.ipam()));
    status().unwrap();
    bench.put("10.9.0.2", "c1\r\neth0");
    status().unwrap();
    bench.put("10.9.0.3", "c2\r\neth0");
    assert_eq!(status().unwrap_err().kind(), model::Kind::Exhausted);
    bench.reboot();
    status().unwrap();
}

/// A plugin that writes down how it was called and then does what its script says.
fn foreign(root: &std::path::Path, version: &str, body: &str) -> ForeignIpam {
    use std::os::unix::fs::PermissionsExt;
    let file = root.join("other-ipam");
    let log = root.join("log");
    let script = format!(
        "#!/bin/sh\necho \"$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_ARGS\" >>{0}\n\
         cat >>{0}\necho >>{0}\n{body}\n",
        log.display()
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    ForeignIpam {
        plugin: "other-ipam".parse().unwrap(),
        path: vec![root.join("nowhere"), root.to_owned()],
        config: format!(r#"{{"cniVersion":"{version}","name":"n","prevResult":{{}},"x":[1]}}"#),
        args: "A=b".into(),
        own_namespace: false,
    }
}

/// Most plugins refuse to work in their own network namespace; the runtime allows it.
#[test]
fn a_foreign_plugin_is_allowed_its_own_namespace() {
    let root = tempfile::tempdir().unwrap();
    let say = r#"echo "${CNI_NETNS_OVERRIDE-none}" >>"$0".override; "#;
    let add = r#"[ $CNI_COMMAND != ADD ] || echo '{"ips":[{"address":"10.1.0.5/24"}]}'"#;
    let ipam = foreign(root.path(), "1.1.0", &format!("{say}{add}"));
    let delegates = Delegates::default();
    for own_namespace in [true, false] {
        let ipam = ForeignIpam { own_namespace, ..ipam.clone() };
        let one = attachment("c1", model::Ipam::Foreign(ipam), &[]);
        delegates.lease(&one).unwrap();
        delegates.check(&one).unwrap();
        delegates.release(&one).unwrap();
    }
    let said = fs::read_to_string(root.path().join("other-ipam.override")).unwrap();
    assert_eq!(said, "1\n1\n1\nnone\nnone\nnone\n");
}

#[test]
fn executes_a_foreign_plugin_as_specified() {
    let root = tempfile::tempdir().unwrap();
    let body = r#"case $CNI_COMMAND in ADD) echo '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{"domain":"d"}}';; esac"#;
    let ipam = foreign(root.path(), "1.1.0", body);
    let delegates = Delegates::default();
    let mut one = attachment("c1", model::Ipam::Foreign(ipam.clone()), &[]);
    let Granted::Offered(offer) = delegates.lease(&one).unwrap() else { panic!() };
    assert_eq!(offer.addresses[0].address.to_string(), "10.1.0.5/24");
    assert_eq!((offer.routes.len(), offer.dns.domain.as_deref()), (1, Some("d")));
    one.addresses = offer.addresses;
    delegates.release(&one).unwrap();
    let valid = Members::from([("c1".parse().unwrap(), "eth0".parse().unwrap())]);
    delegates.gc(&network(one.ipam.clone()), &valid).unwrap();
    delegates.status(&network(one.ipam.clone())).unwrap();
    let log = fs::read_to_string(root.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "ADD c1 eth0 A=b");
    assert!(lines[1].contains(r#""x":[1]"#) && !lines[1].contains("prevResult"), "{}", lines[1]);
    assert_eq!(lines[2], "DEL c1 eth0 A=b");
    assert!(
        lines[3]
            .contains(r#""prevResult":{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"}]"#)
    );
    assert_eq!(lines[4], "GC   A=b");
    assert!(
        lines[5].contains(r#""cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]"#)
    );
    assert_eq!(lines[6], "STATUS   A=b");
}

/// The plugin has the lock, and not its caller: where only that is killed, the plugin asks on, and DEL comes.
#[test]
fn a_plugin_that_asks_ends_before_its_addresses_are_released() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for pipe in ["began", "go"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, at(pipe), 0o600.into()).unwrap();
    }
    let body = format!(
        r#"cd {}; case $CNI_COMMAND in ADD) echo >began; read x <go; echo allocated >>order;; DEL) echo released >>order;; esac"#,
        root.path().display()
    );
    let one = attachment("c1", model::Ipam::Foreign(foreign(root.path(), "1.1.0", &body)), &[]);
    let delegates = Delegates::with_locks(root.path());
    let lock = delegates.lock(&one).unwrap();
    let asking = {
        let (delegates, one) = (delegates.clone(), one.clone());
        std::thread::spawn(move || delegates.lease(&one))
    };
    fs::read(at("began")).unwrap();
    let releasing = {
        let (delegates, one) = (delegates.clone(), one.clone());
        std::thread::spawn(move || delegates.release(&one))
    };
    fs::write(at("go"), "\n").unwrap();
    releasing.join().unwrap().unwrap();
    drop(asking.join().unwrap());
    assert_eq!(fs::read_to_string(at("order")).unwrap(), "allocated\nreleased\n");
    assert!(!lock.exists());
}

#[test]
fn says_what_a_foreign_plugin_said() {
    let root = tempfile::tempdir().unwrap();
    let delegates = Delegates::default();
    let fails = |body: &str| {
        let ipam = model::Ipam::Foreign(foreign(root.path(), "0.4.0", body));
        delegates.lease(&attachment("c1", ipam, &[])).unwrap_err()
    };
    let answer = fails(r#"echo '{"code":11,"msg":"try later","details":"no server"}'; exit 1"#);
    assert_eq!(answer.kind(), model::Kind::TryAgain);
    assert!(answer.to_string().ends_with("try later; no server"), "{answer}");
    let silent = fails("exit 3");
    assert!(silent.to_string().contains("failed with no error message"), "{silent}");
    let uncoded = fails(r#"echo '{"msg":"the pool is full"}'; exit 1"#);
    assert!(uncoded.to_string().ends_with("the pool is full"), "{uncoded}");
    let plain = fails("echo no database; exit 1");
    assert!(plain.to_string().contains("no database"), "{plain}");
    let nonsense = fails("echo nonsense");
    assert_eq!(nonsense.kind(), model::Kind::Invalid);
    let mut missing = foreign(root.path(), "0.4.0", "");
    missing.path.truncate(1);
    let error = delegates.release(&attachment("c", model::Ipam::Foreign(missing), &[]));
    assert!(error.unwrap_err().to_string().starts_with("failed to find plugin \"other-ipam\""));
    let old = network(model::Ipam::Foreign(foreign(root.path(), "1.0.0", "exit 1")));
    delegates.gc(&old, &Members::new()).unwrap();
    delegates.status(&old).unwrap();
}

/// Only where there certainly is no daemon is nothing to be released.
#[test]
fn a_daemon_that_does_not_answer_still_has_the_lease() {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("dhcp.sock");
    let dhcp = model::Dhcp {
        socket: socket.clone(),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    };
    let ipam = model::Ipam::Dhcp(dhcp);
    let held = attachment("c1", ipam.clone(), &[]);
    let (delegates, none) = (Delegates::default(), Members::new());
    let network = network(ipam);
    delegates.release(&held).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    // As a daemon that has too many callers.
    let hung_up = std::thread::spawn(move || {
        for _ in 0..2 {
            drop(listener.accept().unwrap());
        }
    });
    let errors = [delegates.release(&held), delegates.gc(&network, &none)].map(Result::unwrap_err);
    hung_up.join().unwrap();
    for error in errors {
        assert_eq!(error.kind(), model::Kind::TryAgain, "{error}");
        assert!(error.to_string().contains("dhcp.sock has a DHCP daemon is unknown"), "{error}");
    }
    // Its socket is left, and no process has it open.
    delegates.release(&held).unwrap();
    delegates.gc(&network, &none).unwrap();
}
