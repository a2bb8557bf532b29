//! A network that Docker removes while Spoke's daemon is dead.

use tests::{Release, Serve};

use crate::bed::Bed;

const SPOKE: &str = "/opt/cni/bin/spoke";

/// Docker tries each of the network's calls for a while, and says then that the network is removed. The book has it still:
/// `spoke doctor` says so, with what removes it, and the next daemon frees it.
#[track_caller]
fn removed_without_the_daemon(release: Release) {
    let Some(mut bed) = Bed::with(release, "[docker]\ngrace_seconds = 1", &[]) else { return };
    bed.network("--subnet 10.83.7.0/24 front");
    bed.network("--subnet 10.83.8.0/24 gone");
    for name in ["front", "gone"] {
        bed.until(&format!("{SPOKE} network inspect {name} >/dev/null 2>&1"));
    }
    bed.serve.kill();
    bed.engine.docker("network rm gone");
    let listed = bed.engine.docker("network ls --format \"{{.Name}}\"");
    assert!(listed.contains("front") && !listed.contains("gone"), "{listed}");
    let ours = bed.engine.world().try_sh(&format!("{SPOKE} network ls -q"));
    assert_eq!(ours.stdout, "docker-10.83.7.0-24\ndocker-10.83.8.0-24\n");
    assert!(ours.stderr.contains("`spoke serve` does not run: "), "{}", ours.stderr);
    let doctor = bed.engine.world().try_sh(&format!("{SPOKE} doctor")).stdout;
    let named = "network gone is in the book, and no Docker Engine that is asked lists it";
    assert!(doctor.contains(named) && !doctor.contains("network front is in the book"), "{doctor}");
    let note = "note: if no engine has it any more: spoke network rm --force docker-10.83.8.0-24";
    assert!(doctor.contains(note), "{doctor}");

    bed.serve = Serve::start(bed.engine.world(), &[]);
    bed.until(&format!("{SPOKE} events | grep -q \" freed .*subnet 10.83.8.0/24\""));
    let freed = bed.spoke("network ls -q");
    assert_eq!(freed.trim(), "docker-10.83.7.0-24");
    assert!(!bed.world().try_sh(&format!("{SPOKE} doctor")).stdout.contains("is in the book, and"));
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn removed_without_the_daemon_20_10() {
    removed_without_the_daemon(Release::V20_10);
}

#[test]
fn removed_without_the_daemon_28_5() {
    removed_without_the_daemon(Release::V28_5);
}
