//! Packets in files, read by Debian's tcpdump.

use std::process::Command;

use tests::{Engine, World};

use crate::bed::{Beside, SPOKE, fetch, until};

/// What tcpdump of this host reads in a file of a world.
#[track_caller]
fn read_back(world: &World, file: &str) -> String {
    let path = world.path(file);
    let mut tcpdump = Command::new("tcpdump");
    let done = tcpdump.arg("-nnr").arg(&path).output().expect("tcpdump (scripts/setup test)");
    let (text, said) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}");
    text.into_owned()
}

/// Waits until a capture listens: its file has its header.
#[track_caller]
fn until_listens(world: &World, file: &str) {
    let path = world.path(file);
    until("a header", || path.metadata().ok().filter(|it| it.len() > 100));
}

/// A connection from its first to its last packet, and nothing besides.
#[track_caller]
pub(crate) fn reads_back(world: &World, web: &str) {
    world.sh("touch /run/web.pcapng; chmod 644 /run/web.pcapng");
    let capture = format!("capture {web} -w /run/web.pcapng -c 6 tcp port 80 and host 192.0.2.2");
    let running = Beside::spoke(world, &capture);
    until_listens(world, "/run/web.pcapng");
    fetch(world, "line", "10.76.1.9", 80);
    fetch(world, "client", "192.0.2.1", 8080);
    let (is_done, _, notes) = running.end();
    assert!(is_done && notes.contains("6 packets captured"), "{notes}");
    let text = read_back(world, "/run/web.pcapng");
    assert_eq!(text.lines().count(), 6, "{text}");
    let beginning =
        |line: &str| line.contains("192.0.2.2.") && line.contains("> 10.76.1.9.80: Flags [S]");
    assert!(text.lines().any(beginning), "{text}");
    assert!(text.contains("HTTP: GET /index.html"), "{text}");
    assert!(!text.contains("10.76.1.14"), "{text}");
    let mode = world.sh("stat -c %a /run/web.pcapng");
    assert_eq!(mode.trim(), "600");
    let comments = Command::new("tshark")
        .args(["-r", &world.path("/run/web.pcapng").to_string_lossy()])
        .args([
            "-T",
            "fields",
            "-e",
            "frame.interface_name",
            "-e",
            "frame.p2p_dir",
            "-e",
            "tcp.port",
        ])
        .output();
    let comments = comments.expect("tshark (scripts/setup test)");
    let fields = String::from_utf8_lossy(&comments.stdout).into_owned();
    assert!(fields.lines().count() == 6 && fields.starts_with("eth0\t"), "{fields}");
    through_a_pipe(world, web);
    refused(world, web);
}

/// Lines of text, and a reader that goes.
#[track_caller]
fn through_a_pipe(world: &World, web: &str) {
    let mut running = Beside::spoke(world, &format!("capture {web} -c 3 -o json dst port 80"));
    // Before it listens it sees nothing.
    until("three packets", || {
        fetch(world, "client", "192.0.2.1", 8080);
        running.child.try_wait().expect("our child")
    });
    let (is_done, out, notes) = running.end();
    let text = String::from_utf8_lossy(&out).into_owned();
    assert!(is_done && text.lines().count() == 3, "{text}{notes}");
    for line in text.lines() {
        let packet: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!((&packet["direction"], &packet["destination_port"]), (&"in".into(), &80.into()));
    }
    // It ends though no packet comes any more.
    let left = world.try_sh(&format!(
        "timeout 30 bash -c 'set -o pipefail; {SPOKE} capture {web} -w - host 203.0.113.1 | head -c 24 >/dev/null'"
    ));
    assert_eq!(left.status, 0, "{left:?}");
}

#[track_caller]
fn refused(world: &World, web: &str) {
    world.sh("echo kept >/run/kept; ln -s /run/kept /run/link.pcapng
        cp /run/kept /run/others; chown 65534 /run/others");
    let on_terminal = |file| format!("script -qec '{SPOKE} capture {web} -w {file}' /dev/null");
    for (command, status, part) in [
        (format!("{SPOKE} capture nobody"), 3, "'nobody'"),
        (format!("{SPOKE} capture {web} port http"), 2, "'http'"),
        (format!("{SPOKE} capture {web} -i eth9"), 3, "eth9"),
        (format!("{SPOKE} capture {web} -w /run/link.pcapng"), 2, "symbolic link"),
        (format!("{SPOKE} capture {web} -w /run/others"), 2, "another user's"),
        (on_terminal("-"), 2, "not for a terminal"),
        (on_terminal("/dev/stdout"), 2, "not for a terminal"),
    ] {
        let answer = world.try_sh(&command);
        let said = format!("{}{}", answer.stdout, answer.stderr);
        assert!(answer.status == status && said.contains(part), "{command}: {answer:?}");
    }
    assert_eq!(world.sh("cat /run/kept /run/others"), "kept\nkept\n");
}

/// The sockets of a capture keep no container's namespace: it ends, with a sentence, and the file is whole.
#[track_caller]
pub(crate) fn ends_with_its_container(engine: &Engine, web: &str) {
    let world = engine.world();
    let running = Beside::spoke(world, &format!("capture {web} -w /run/gone.pcapng"));
    until_listens(world, "/run/gone.pcapng");
    fetch(world, "client", "192.0.2.1", 8080);
    engine.docker("stop -t 0 web");
    let (is_done, _, notes) = running.end();
    assert!(is_done && notes.contains("is gone; the capture ends here"), "{notes}");
    assert!(read_back(world, "/run/gone.pcapng").contains("> 10.76.1.9.80"));
    // A namespace that its user deletes is gone though a socket has it.
    let running = Beside::spoke(world, "capture line -w /run/line.pcapng");
    until_listens(world, "/run/line.pcapng");
    world.sh("ip netns del line");
    let (is_done, _, notes) = running.end();
    assert!(is_done && notes.contains("container line is gone"), "{notes}");
}
