//! Published ports are seen to be taken by everybody else.

use tests::{Release, Serve};

use crate::bed::Bed;

/// That no program of the host can bind ports 8700 (TCP) and 8701 (UDP) of either family, once the
/// daemon has heard of them.
const TAKEN: &str = "[ $(ss -Htuan 2>/dev/null | grep -c :8701) -ge 2 ]";

/// A program of the host at a port, until [`GONE`].
const RIVAL: &str = "busybox nc -ll -p 8700 -e cat >/dev/null 2>&1 & echo $! >/run/rival";
const GONE: &str = "kill $(cat /run/rival)";

#[track_caller]
fn everybody_sees_published_ports(release: Release) {
    let Some(mut bed) = Bed::new(release) else { return };
    bed.network("--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64 ours");
    bed.serve("--name one --network ours -p 8700:80 -p 8701:80/udp");
    for life in 0..2 {
        bed.until(TAKEN);
        // The engine's own bridge, and a program.
        bed.refused("run --rm --name other -p 8700:80 busybox true", &["8700"]);
        bed.docker("rm -f other");
        let program = bed.world().try_sh("timeout 2 busybox nc -l -p 8700 </dev/null");
        assert_eq!(program.status, 1, "it binds: {}", program.stderr);
        // Packets do not come to the sockets.
        bed.asked("", "127.0.0.1", 8700);
        bed.asked("", "10.84.0.1", 8700);
        // No server can answer there: a client of localhost goes on at once.
        let six = bed.world().sh("timeout 5 bash -c 'exec 3<>/dev/tcp/::1/8700' 2>&1 || true");
        assert!(six.contains("refused"), "{six}");
        if life == 0 {
            bed.serve.kill();
            bed.serve = Serve::start(bed.engine.world(), &[]);
        }
    }
    // Another container of ours gets the port at once, and Docker's own bridge when that is gone.
    bed.remove("one");
    bed.run("--name two --network ours -p 8700:80 -p 8701:80/udp");
    bed.remove("two");
    bed.until("docker run --rm -p 8700:80 busybox true");
    // What another process took while the daemon was not there is reported.
    bed.run("--name three --network ours -p 8700:80");
    bed.serve.kill();
    bed.engine.world().sh(RIVAL);
    bed.serve = Serve::start(bed.engine.world(), &[]);
    let spoke = format!("{}/spoke", tests::Plugins::MOUNT);
    bed.until(&format!("{spoke} events | grep -q \"8700/tcp is in use by process.*(busybox)\""));
    let reported = bed.world().try_sh(&format!("{spoke} doctor")).stdout;
    assert!(
        reported.contains("host port 8700/tcp leads to") && reported.contains("(busybox)"),
        "{reported}"
    );
    bed.world().sh(GONE);
    bed.until(&format!("{spoke} events | grep -q \"8700/tcp leads to .* alone again\""));
    bed.remove("three");
    bed.docker("network rm ours");
    bed.is_clean();
}

#[test]
fn everybody_sees_published_ports_20_10() {
    everybody_sees_published_ports(Release::V20_10);
}

#[test]
fn everybody_sees_published_ports_28_5() {
    everybody_sees_published_ports(Release::V28_5);
}
