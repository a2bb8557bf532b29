//! Containers by an OCI runtime. As root, with busybox-static, crun, runc and strace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{BOUNDS, Lab, eventually, marked, mounted, own_mounts, said, sh, shell};
use container::{Bounds, Ending, Engine, Process, Resources, Spec};
use model::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

macro_rules! by_each_runtime {
    ($($test:ident),+ $(,)?) => {
        mod runc {
            $(#[test] fn $test() { super::$test("runc"); })+
        }
        mod crun {
            $(#[test] fn $test() { super::unified_cgroups(); super::$test("crun"); })+
        }
    };
}

by_each_runtime!(
    a_container_comes_and_goes,
    how_it_ended_is_known,
    it_is_started_when_its_program_runs,
    without_a_main_process_it_waits_to_be_stopped,
    the_limit_ends_the_whole_tree,
    a_killed_keeper_leaves_nothing_for_long,
    calls_are_compared_with_the_runtimes,
    its_limits_hold,
    the_upper_half_of_an_argument_hides_nothing,
);

fn lab(runtime: &str) -> Lab {
    Lab::with(Engine::Runtime(runtime.into()))
}

/// As this host may not have them: crun takes cgroups of one version only.
fn unified_cgroups() {
    own_mounts();
    // On a host that has only these, the same are not mounted twice in one place.
    shell(
        "[ $(stat -f -c %T /sys/fs/cgroup) = cgroup2fs ] || mount -t cgroup2 none /sys/fs/cgroup",
    );
}

#[test]
fn what_crun_says_of_cgroups_of_both_versions_is_explained() {
    own_mounts();
    shell("mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/unified");
    shell("mount -t cgroup2 none /sys/fs/cgroup/unified");
    let lab = lab("crun");
    let error = lab.engine.start(&lab.directory(), &lab.spec(), b"").unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("or let runc or the native engine run it"), "{error}");
}

/// As those of ours: main process and calls share them, and they go with the container. Where there are
/// none, as where cgroups of both versions are hidden behind one without controllers, the log says so.
fn its_limits_hold(runtime: &str) {
    let lab = lab(runtime);
    let limits = Some(Resources { processes: 48, memory: 64 << 20 });
    let spec = Spec { limits, ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    let made = fs::read_to_string(lab.directory().join("cgroups")).unwrap();
    let own = said(&running, "cat /proc/self/cgroup");
    // Out of the cgroup of the service that has started it.
    let keeper = fs::read_to_string(format!("/proc/{}/cgroup", running.process().pid)).unwrap();
    let unified = keeper.lines().find(|line| line.starts_with("0::"));
    assert!(unified.is_none_or(|line| line.ends_with("/spoke/keepers")), "{keeper}");
    let log = fs::read_to_string(lab.directory().join("log")).unwrap_or_default();
    if log.contains("no limit of pids") {
        assert!(log.contains("no limit of memory"), "{log}");
        return;
    }
    let main = said(&running, "cat /proc/1/cgroup");
    let ours = |text: &str| text.lines().filter(|line| line.contains("/spoke/test-")).count();
    assert_eq!(ours(&own), made.lines().count(), "{own}\n{made}");
    assert!(ours(&main) >= made.lines().count(), "{main}\n{made}");
    let forks = "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; true";
    let ended = running.exec(&sh(forks), b"", &BOUNDS).unwrap();
    assert_ne!(ended.status, Ending::Exited(0), "100 processes of at most 48");
    let ended = running.exec(
        &sh("pkill sleep; exec dd if=/dev/zero of=/dev/null bs=200M count=1"),
        b"",
        &BOUNDS,
    );
    assert!(!ended.is_ok_and(|ended| ended.status == Ending::Exited(0)), "200 MB of at most 64");
    running.stop(Duration::ZERO).unwrap();
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    assert!(made.lines().all(|path| !Path::new(path).exists()), "{made}");
}

/// The library of runtimes compares 64 bits, the kernel takes 32: udev would believe what such a socket sends.
fn the_upper_half_of_an_argument_hides_nothing(runtime: &str) {
    let lab = lab(runtime);
    // This program is static.
    fs::copy(std::env::current_exe().unwrap(), lab.home.path().join("layer/bin/probe")).unwrap();
    let running = lab.start();
    let said = said(&running, "PROBE=1 probe --exact --nocapture sockets_are_tried");
    for (socket, result) in [
        ("16 3 0x0", "made"),
        ("16 3 0x10", "made"),
        ("2 1 0x0", "made"),
        ("16 3 0xf", "refused"),
        ("16 3 0x10000000f", "refused"),
        ("4294967312 3 0xf", "refused"),
        ("40 1 0x0", "refused"),
        ("4294967336 1 0x0", "refused"),
    ] {
        assert!(said.contains(&format!("<{socket} {result}>")), "{socket} is not {result}: {said}");
    }
}

/// What the test before runs in the container; by itself it does nothing.
#[test]
#[allow(unsafe_code, clippy::print_stdout)]
fn sockets_are_tried() {
    if std::env::var_os("PROBE").is_none() {
        return;
    }
    for (family, kind, protocol) in [
        (16_u64, 3_u64, 0_u64),
        (16, 3, 0x10),
        (2, 1, 0),
        (16, 3, 0xf),
        (16, 3, 0x1_0000_000f),
        (0x1_0000_0010, 3, 0xf),
        (40, 1, 0),
        (0x1_0000_0028, 1, 0),
    ] {
        // SAFETY: socket(2) takes three numbers, and has no other effect than a new descriptor.
        let made = unsafe { libc::syscall(libc::SYS_socket, family, kind, protocol) };
        let is_refused =
            made < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
        let result = if is_refused { "refused" } else { "made" };
        println!("<{family} {kind} {protocol:#x} {result}>");
    }
}

fn a_container_comes_and_goes(runtime: &str) {
    let lab = lab(runtime);
    let running = lab.start();
    let input = lab.volume().join("stdin");
    eventually("its input is read", || fs::read(&input).is_ok_and(|read| read == b"{}"));
    for (name, same) in
        [("net", true), ("ipc", true), ("uts", true), ("mnt", false), ("pid", false)]
    {
        let host = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let inside = said(&running, &format!("readlink /proc/self/ns/{name}"));
        assert_eq!(host.to_str() == Some(inside.trim()), same, "{name}");
    }
    let sets = said(&running, "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/1/status");
    assert_eq!(sets.matches("00000000002435fb").count(), 5, "{sets}");
    assert!(sets.contains("NoNewPrivs:\t1"), "{sets}");
    assert_eq!(said(&running, "ls /proc/1/environ > /dev/null; cat /proc/1/comm"), "sh\n");
    said(&running, "echo mine > /bin/mine; ! touch /sys/kernel/x 2> /dev/null");
    assert!(!lab.home.path().join("layer/bin/mine").exists(), "layers are not changed");
    assert_eq!(mounted(lab.home.path()), Vec::<String>::new(), "nothing is mounted on the host");
    let found = lab.engine.adopt(&lab.directory()).unwrap().unwrap();
    assert_eq!(found.process(), running.process());
    assert_eq!(said(&found, "echo there"), "there\n");
    running.stop(Duration::from_secs(20)).unwrap();
    assert_eq!(running.ended(), Some(Ending::Exited(0)), "it was asked first");
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    let error = running.exec(&sh("true"), b"", &BOUNDS).unwrap_err();
    assert_eq!(error.kind(), Kind::TryAgain, "{error}");
    assert_eq!(said(&lab.start(), "cat /bin/mine"), "mine\n", "what it wrote stays");
}

fn how_it_ended_is_known(runtime: &str) {
    let lab = lab(runtime);
    let mut spec = Spec { process: Some(sh("echo word; exit 7")), ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    eventually("it ends", || running.ended().is_some());
    assert_eq!(running.ended(), Some(Ending::Exited(7)));
    assert_eq!(lab.last_end(), Some(Ending::Exited(7)));
    assert_eq!(fs::read_to_string(lab.directory().join("log")).unwrap(), "word\n");
    spec.process = Some(sh("trap '' TERM; while :; do sleep 1000; done"));
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    running.stop(Duration::from_millis(50)).unwrap();
    assert_eq!(running.ended(), Some(Ending::Signaled(9)));
    spec.process = Some(Process::new(["/bin/none"]));
    let error = lab.engine.start(&lab.directory(), &spec, b"").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    assert!(error.to_string().contains("/bin/none"), "{error}");
    let none = Engine::Runtime("no-such-runtime".into());
    let error = none.start(&lab.directory(), &spec, b"").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
}

/// A runtime that takes its time between making the first process and having it execute the program:
/// before that it is the runtime's own, which SIGTERM ends.
fn it_is_started_when_its_program_runs(runtime: &str) {
    let slow = tempfile::NamedTempFile::new().unwrap();
    let script = format!(
        "#!/bin/sh\n\
         case \" $* \" in *' run '*) ;; *) exec {runtime} \"$@\" ;; esac\n\
         exec strace -D -f -o /dev/null -e inject=execve:delay_enter=100000 {runtime} \"$@\"\n"
    );
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let slow = slow.into_temp_path();
    let lab = Lab::with(Engine::Runtime(slow.to_path_buf()));
    let deaf = sh("trap '' TERM; while :; do sleep 1000; done");
    let spec = Spec { process: Some(deaf), ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    running.stop(Duration::from_millis(50)).unwrap();
    assert_eq!(running.ended(), Some(Ending::Signaled(9)));
}

fn without_a_main_process_it_waits_to_be_stopped(runtime: &str) {
    let lab = lab(runtime);
    let spec = Spec { process: None, ..lab.spec() };
    for _ in 0..2 {
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
        assert_eq!(said(&running, "echo there"), "there\n");
        running.stop(Duration::from_secs(20)).unwrap();
        assert_eq!(running.ended(), Some(Ending::Exited(0)));
    }
}

fn the_limit_ends_the_whole_tree(runtime: &str) {
    let lab = lab(runtime);
    let running = lab.start();
    let mark = format!("4{}.25", std::process::id());
    let script = format!("(setsid sleep {mark} &); setsid sleep {mark} & sleep {mark}");
    let bounds = Bounds { limit: Duration::from_millis(500), ..BOUNDS };
    let ended = running.exec(&sh(&script), b"", &bounds).unwrap();
    assert_eq!(ended.status, Ending::TimedOut);
    assert_eq!(marked(&mark), Vec::<u32>::new());
    assert_eq!(said(&running, "echo ok"), "ok\n", "the container goes on");
}

fn a_killed_keeper_leaves_nothing_for_long(runtime: &str) {
    let lab = lab(runtime);
    let mark = format!("5{}.25", std::process::id());
    let script = format!("sleep {mark} & wait");
    let spec = Spec { process: Some(sh(&script)), ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    kill(Pid::from_raw(running.process().pid.cast_signed()), Signal::SIGKILL).unwrap();
    eventually("it is seen", || running.ended().is_some());
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    eventually("its container is gone", || marked(&mark).is_empty());
}

/// How long calls take is printed, not judged: other things run here, too.
#[allow(clippy::print_stdout)]
fn calls_are_compared_with_the_runtimes(runtime: &str) {
    let lab = lab(runtime);
    let _theirs = lab.start();
    let native = Lab::new();
    let running = native.start();
    let state = lab.directory().join("runtime");
    let name = fs::read_dir(&state).unwrap().next().unwrap().unwrap().file_name();
    let median = |mut work: Box<dyn FnMut() + '_>| {
        let mut taken: Vec<_> = (0..100)
            .map(|_| {
                let before = Instant::now();
                work();
                before.elapsed()
            })
            .collect();
        taken.sort_unstable();
        taken[50]
    };
    let program = Process::new(["/bin/true"]);
    let ours = median(Box::new(|| {
        let ended = running.exec(&program, b"", &BOUNDS).unwrap();
        assert_eq!(ended.status, Ending::Exited(0));
    }));
    let theirs = median(Box::new(|| {
        let mut command = Command::new(runtime);
        command.arg("--root").arg(&state).arg("exec").arg(&name).arg("/bin/true");
        assert!(command.status().unwrap().success());
    }));
    println!("medians of 100 calls of /bin/true: {ours:?} by ourselves, {theirs:?} by {runtime}");
}
