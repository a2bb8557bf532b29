//! The commands for the daemon: its units, its events, the ports that it publishes.

use super::*;

const UNITS: &str = "units";

fn units(host: &Fixture, command: &str, more: &[&str]) -> (u8, String, String) {
    units_of("docker", host, command, more)
}

fn units_of(noun: &str, host: &Fixture, command: &str, more: &[&str]) -> (u8, String, String) {
    let directory = host.path(UNITS).display().to_string();
    let line = [&[noun, command, "--unit-dir", &directory], more].concat();
    let (code, out, err) = host.try_spoke(&line);
    let root = host.root.path().display().to_string();
    (code, out.replace(&root, ""), err.replace(&root, ""))
}

#[test]
fn units_come_and_go() {
    let host = Fixture::new();
    host.write("run/systemd/system/x", "");
    let (code, out, err) = units(&host, "install", &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "wrote /units/spoke.socket\nwrote /units/spoke.service\n\
         enabled spoke.socket and spoke.service\n"
    );
    let asked = ["daemon-reload", "enable --now spoke.socket spoke.service"];
    assert_eq!(*host.asked.borrow(), asked);
    let socket = std::fs::read_to_string(host.path("units/spoke.socket")).unwrap();
    let plugin = host.path("run/docker/plugins/spoke.sock");
    assert!(socket.contains(&format!("\nListenStream={}\n", plugin.display())), "{socket}");
    assert!(socket.contains("\nBefore=docker.service\n"));
    let service = std::fs::read_to_string(host.path("units/spoke.service")).unwrap();
    assert!(service.contains("/spoke-binary serve\n"), "{service}");
    assert!(!service.contains("@SPOKE@") && !service.contains("@SOCKET@"), "{service}");

    assert_eq!(units(&host, "install", &["--no-enable"]).0, 0);
    let (code, out, _) = units(&host, "status", &[]);
    assert_eq!(code, 1, "no process listens");
    assert!(out.contains("spoke.socket") && out.contains("installed"), "{out}");
    let (code, out, _) = units(&host, "uninstall", &[]);
    assert_eq!((code, out.lines().count()), (0, 2));
    assert_eq!(host.asked.borrow()[2], "disable --now spoke.socket spoke.service");
    assert!(names(&host.path(UNITS)).is_empty());
    assert_eq!(units(&host, "uninstall", &[]).0, 3);
}

#[test]
fn systemd_understands_the_units() {
    use std::os::unix::fs::PermissionsExt;
    let host = Fixture::new();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(host.path("spoke-binary"), executable).unwrap();
    assert_eq!(units_of("dhcp", &host, "install", &["--no-enable"]).0, 0);
    assert_eq!(units(&host, "install", &["--no-enable"]).0, 0);
    assert_eq!(units_of("kuryr", &host, "install", &["--no-enable"]).0, 0);
    let all = [
        "spoke.socket",
        "spoke.service",
        "spoke-dhcp.socket",
        "spoke-dhcp.service",
        "spoke-kuryr.socket",
    ];
    // It succeeds in spite of keys that it does not know, and says so.
    let given = std::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(all.map(|unit| host.path(UNITS).join(unit)))
        .output()
        .expect("systemd-analyze (scripts/setup test)");
    let complaints = String::from_utf8_lossy(&given.stderr);
    assert!(given.status.success() && complaints.is_empty(), "{complaints}");
    // What docs/docker.md says of their bounds, in tenths.
    for (unit, exposure) in [("spoke.service", 67), ("spoke-dhcp.service", 51)] {
        let given = std::process::Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--no-pager"])
            .arg(format!("--threshold={exposure}"))
            .arg(host.path(UNITS).join(unit))
            .output()
            .expect("systemd-analyze (scripts/setup test)");
        assert!(given.status.success(), "{unit}: {}", String::from_utf8_lossy(&given.stdout));
    }
}

#[test]
fn the_socket_of_kuryr_is_passed_to_the_one_daemon() {
    let host = Fixture::new();
    host.write("run/systemd/system/x", "");
    let (code, out, err) = units_of("kuryr", &host, "install", &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("wrote /units/spoke.service\n"), "{out}");
    assert!(out.ends_with("enabled spoke-kuryr.socket\n"), "{out}");
    let started = ["stop spoke.service", "enable --now spoke-kuryr.socket", "start spoke.service"];
    assert_eq!(host.asked.borrow()[3..], started);
    let socket = std::fs::read_to_string(host.path("units/spoke-kuryr.socket")).unwrap();
    let plugin = host.path("run/docker/plugins/kuryr.sock");
    assert!(socket.contains(&format!("\nListenStream={}\n", plugin.display())), "{socket}");
    let (code, out, _) = units_of("kuryr", &host, "uninstall", &[]);
    assert_eq!((code, out.as_str()), (0, "removed /units/spoke-kuryr.socket\n"));
    assert_eq!(host.asked.borrow().last().unwrap(), "try-restart spoke.service");
    assert!(host.has("units/spoke.service"), "it is docker's");
}

#[test]
fn units_of_dhcp_come_where_serve_does_not_run() {
    let host = Fixture::new();
    host.write("run/systemd/system/x", "");
    let (code, out, err) = units_of("dhcp", &host, "install", &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.ends_with("enabled spoke-dhcp.socket and spoke-dhcp.service\n"), "{out}");
    let socket = std::fs::read_to_string(host.path("units/spoke-dhcp.socket")).unwrap();
    assert!(socket.starts_with("# Written by `spoke dhcp install`; "), "{socket}");
    assert!(socket.contains("\nListenStream=/run/cni/dhcp.sock\n"), "{socket}");
    let service = std::fs::read_to_string(host.path("units/spoke-dhcp.service")).unwrap();
    assert!(service.contains("/spoke-binary dhcp daemon\n"), "{service}");
    assert!(units_of("dhcp", &host, "status", &[]).1.contains("installed"));
    assert_eq!(units(&host, "install", &["--no-enable"]).0, 0);
    let (code, _, err) = units_of("dhcp", &host, "install", &[]);
    assert_eq!(code, 4);
    assert!(err.contains("keeps DHCP leases too"), "{err}");
    assert_eq!(units_of("dhcp", &host, "uninstall", &[]).0, 0);
    assert_eq!(names(&host.path(UNITS)), ["spoke.service", "spoke.socket"]);
}

#[test]
fn units_of_others_stay() {
    let host = Fixture::new();
    host.write("units/spoke.service", "[Service]\nExecStart=/bin/true\n");
    let (code, _, err) = units(&host, "install", &[]);
    assert_eq!(code, 4);
    assert!(err.contains("/units/spoke.service is of another program"), "{err}");
    assert_eq!(names(&host.path(UNITS)), ["spoke.service"]);
    std::fs::remove_file(host.path("units/spoke.service")).unwrap();

    let (code, _, err) = units(&host, "install", &[]);
    assert_eq!(code, 0);
    assert!(err.contains("systemd does not run here"), "{err}");
    let path = host.path("units/spoke.socket");
    let changed = std::fs::read_to_string(&path).unwrap() + "Backlog=5\n";
    std::fs::write(&path, changed).unwrap();
    let (code, out, err) = units(&host, "uninstall", &[]);
    assert_eq!((code, out.as_str()), (0, "removed /units/spoke.service\n"));
    assert!(err.contains("changed by hand and stays"), "{err}");
    assert_eq!(names(&host.path(UNITS)), ["spoke.socket"]);
}

#[test]
fn a_managed_plugin() {
    let host = Fixture::new();
    let directory = host.path("plugin").display().to_string();
    let (code, out, err) = host.try_spoke(&["docker", "plugin", &directory]);
    assert_eq!((code, out.lines().count()), (0, 2), "{err}");
    assert!(err.contains("docker plugin create spoke"), "{err}");
    assert_eq!(std::fs::read_to_string(host.path("plugin/rootfs/spoke")).unwrap(), "the program");
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(host.path("plugin/config.json")).unwrap()).unwrap();
    assert_eq!(config["interface"]["socket"], "spoke.sock");
    assert_eq!(host.try_spoke(&["docker", "plugin", &directory]).0, 4, "it is not empty");
    host.write("spoke-binary", "\x7fELF /lib64/ld-linux-x86-64.so.2");
    let other = host.path("other").display().to_string();
    assert_eq!(host.try_spoke(&["docker", "plugin", &other]).0, 2, "it would not start");
}

#[test]
fn events_are_shown_in_order() {
    let host = Fixture::new();
    assert_eq!(host.spoke("events"), "TIME  EVENT  WHAT\n");
    let line = |time: u64, event: &str| {
        format!("{{\"time\":{time},\"event\":\"{event}\",\"message\":\"m{time}\"}}\n")
    };
    host.write("run/spoke/events.1", &line(1, "started"));
    let torn = format!("{}garbage\n{}{{\"time\":4", line(2, "attached"), line(3, "clash"));
    host.write("run/spoke/events", &torn);
    assert_eq!(
        host.spoke("events"),
        "TIME                  EVENT     WHAT\n\
         1970-01-01T00:00:01Z  started   m1\n\
         1970-01-01T00:00:02Z  attached  m2\n\
         1970-01-01T00:00:03Z  clash     m3\n"
    );
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("events --last 1 -o json")).unwrap();
    assert_eq!(json[0]["event"], "clash");
    assert_eq!(json.as_array().unwrap().len(), 1);
}

#[test]
fn following_without_a_daemon_says_what_writes_events() {
    let host = Fixture::new();
    let (code, error) = host.refused("events -f");
    assert!(error.contains("`spoke serve` writes it"), "{code} {error}");
}

#[test]
fn ports_of_every_runtime() {
    let host = Fixture::new();
    host.spoke("network create --subnet 10.70.1.0/24 back");
    host.attach("back", "4be1d7a0c3f24be1d7a0c3f24be1d7a0c3f2", Some("web"));
    host.attach("back", "c2", None);
    assert_eq!(
        host.spoke("ports"),
        "PORT      HOST IP  TO            FROM  NAME  RUNTIME  NETWORK\n\
         8080/tcp  0.0.0.0  10.70.1.2:80  any   web   spoke    back\n"
    );
    assert_eq!(host.spoke("ports -q back"), "8080/tcp\n");
    assert_eq!(host.spoke("ports nix -q"), "");
    let json: serde_json::Value = serde_json::from_str(&host.spoke("ports -o json")).unwrap();
    assert_eq!(json[0]["container_ip"], "10.70.1.2");
    assert_eq!(host.spoke("ports --format {{.HostPort}}>{{.Name}}"), "8080>web\n");
    let by_name = "PORT      HOST IP  TO            FROM  BY       STATE      NAME  RUNTIME  NETWORK\n\
                   8080/tcp  0.0.0.0  10.70.1.2:80  any   runtime  published  web   spoke    back\n";
    for asked in ["port ls", "port ls web", "port ls --network back", "port ls 4be1d7a"] {
        assert_eq!(host.spoke(asked), by_name, "{asked}");
    }
    assert_eq!(host.spoke("port ls c2 -q"), "");
    assert_eq!(host.spoke("port ls -q --network nix"), "");
    assert_eq!(host.spoke("port ls -q --filter label=tier"), "");
    let json: serde_json::Value = serde_json::from_str(&host.spoke("port ls -o json")).unwrap();
    assert_eq!(
        (&json[0]["container_ip"], &json[0]["state"]),
        (&"10.70.1.2".into(), &"published".into())
    );
    assert_eq!(host.spoke("port ls --format {{.HostPort}}>{{.Name}}"), "8080>web\n");
}

#[test]
fn serve_runs_the_daemon() {
    let host = Fixture::new();
    assert_eq!(host.spoke("serve"), "");
}

/// A killed daemon leaves a socket at which nothing listens: Docker waits at it.
#[test]
fn doctor_says_that_no_daemon_answers_docker() {
    let host = Fixture::new();
    host.write("run/systemd/system/spoke.service", "");
    let (name, wiring) = ("front".parse().unwrap(), model::Wiring::default());
    let network =
        Network::new(name, model::Runtime::Docker, Timestamp(NOW), wiring, model::Ipam::None);
    host.engine().networks.create(&network).unwrap();
    let said = || host.try_spoke(&["doctor"]).1;
    assert!(said().contains("FAIL  `spoke serve` does not run"), "{}", said());
    // A daemon that Docker manages has its socket elsewhere.
    let daemon = served(&host);
    assert!(!said().contains("spoke serve"), "{}", said());
    let socket = host.path("run/docker/plugins/spoke.sock");
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(!said().contains("spoke serve"), "{}", said());
    // Stopped, with as many calls as may wait: the one before was not taken.
    rustix::net::listen(&listener, 0).unwrap();
    let text = said();
    assert!(text.contains("FAIL  `spoke serve` does not answer"), "{text}");
    assert!(text.contains("fix: systemctl restart spoke"), "{text}");
    drop((listener, daemon));
    let text = said();
    assert!(
        text.contains("FAIL  `spoke serve` does not run") && text.contains("network front "),
        "{text}"
    );
}

/// What a daemon has while it runs.
pub(super) fn served(host: &Fixture) -> std::fs::File {
    std::fs::create_dir_all(host.path("run/spoke")).unwrap();
    let lock = std::fs::File::create(host.path("run/spoke").join(::host::serving::LOCK)).unwrap();
    file::lock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}

/// Only where one is expected: CNI and commands need none.
#[test]
fn lists_say_that_no_daemon_runs() {
    let host = Fixture::new();
    host.write("run/systemd/system/spoke.service", "");
    let lists = [
        "ps",
        "ports",
        "port ls",
        "network ls",
        "endpoint ls",
        "dns ls",
        "egress show front",
        "ipam show",
        "events",
        "denied",
    ];
    let said = |list: &str| host.try_spoke(&list.split(' ').collect::<Vec<_>>()).2;
    host.spoke("network create --egress none front");
    for list in lists {
        assert_eq!(said(list), "", "{list}");
    }
    let (name, wiring) = ("dock".parse().unwrap(), model::Wiring::default());
    let network =
        Network::new(name, model::Runtime::Docker, Timestamp(NOW), wiring, model::Ipam::None);
    let wanted = "spoke: `spoke serve` does not run: what is listed may be out of date, and nothing of it is repaired; \
                  systemctl start spoke\n";
    let all_say = || lists.iter().for_each(|list| assert_eq!(said(list), wanted, "{list}"));
    host.engine().networks.create(&network).unwrap();
    all_say();
    let daemon = served(&host);
    for list in lists {
        assert_eq!(said(list), "", "{list}");
    }
    drop(daemon);
    all_say();
    host.engine().networks.remove(&network.name, false).unwrap();
    assert_eq!(said("ps"), "");
    // Of one that was killed.
    host.write("run/docker/plugins/spoke.sock", "");
    all_say();
    let unit = host.path("run/systemd/system/spoke.service");
    std::fs::remove_file(unit).unwrap();
    let end = "of it is repaired; start `spoke serve`, or enable its plugin\n";
    assert!(said("ps").ends_with(end), "{}", said("ps"));
    host.write("etc/systemd/system/spoke.service", "");
    assert!(said("ps").ends_with("; systemctl start spoke\n"), "{}", said("ps"));
    std::fs::remove_dir_all(host.path("run/systemd")).unwrap();
    assert!(said("ps").ends_with("of it is repaired; spoke serve\n"), "{}", said("ps"));
    assert_eq!(said("network inspect front"), "");
}
