//! Calls into containers. As root, with busybox-static.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::{BOUNDS, Lab, call, eventually, marked, said, sh};
use container::{Bounds, Capabilities, Ending, Process, Spec};
use model::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, fork};

#[test]
fn a_call_is_what_it_was_asked_to_be() {
    let lab = Lab::new();
    let running = lab.start();
    let mut process = sh("");
    process.args =
        ["sh", "-c", "for a in \"$@\"; do echo \"[$a]\"; done; env; pwd; id; umask; cat"]
            .into_iter()
            .chain(["zero", "a b", "", "ü"])
            .map(Into::into)
            .collect();
    process.env.push(("HOME".into(), "/root".into()));
    (process.cwd, process.uid, process.gid, process.groups) = ("/volume".into(), 7, 8, vec![9]);
    let ended = running.exec(&process, b"to be read", &BOUNDS).unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..3], ["[a b]", "[]", "[ü]"], "{said}");
    let mut env = lines[3..lines.len() - 4].to_vec();
    env.sort_unstable();
    // The last three are the shell's own.
    env.retain(|line| !["PWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own)));
    assert_eq!(env, ["HOME=/root", "PATH=/bin"], "{said}");
    let rest = &lines[lines.len() - 4..];
    assert_eq!(rest, ["/volume", "uid=7 gid=8 groups=9", "0022", "to be read"], "{said}");
    assert_eq!((ended.status, ended.truncated), (Ending::Exited(0), false));
}

#[test]
fn it_has_three_files_and_no_signal_blocked() {
    let lab = Lab::new();
    let running = lab.start();
    let look = Process::new(["/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
    let signals = running.exec(&look, b"", &BOUNDS).unwrap().stdout;
    let none = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
    assert_eq!(String::from_utf8(signals).unwrap(), none);
    assert_eq!(said(&running, "ls /proc/self/fd"), "0\n1\n2\n3\n");
}

#[test]
fn output_and_errors_are_apart_and_bounded() {
    let lab = Lab::new();
    let running = lab.start();
    let ended = call(&running, "echo out; echo err >&2; echo out");
    assert_eq!((&*ended.stdout, &*ended.stderr), (&b"out\nout\n"[..], &b"err\n"[..]));

    let bounds = Bounds { stdout: 1000, stderr: 10, ..BOUNDS };
    let script = "yes | head -c 3000000; yes no | head -c 2000000 >&2; exit 4";
    let ended = running.exec(&sh(script), b"", &bounds).unwrap();
    assert_eq!((ended.stdout.len(), ended.stderr.len(), ended.truncated), (1000, 10, true));
    assert_eq!(ended.status, Ending::Exited(4));

    // Without end, and to a caller that reads nothing.
    let bounds = Bounds { limit: Duration::from_millis(300), ..bounds };
    let ended = running.exec(&sh("yes & yes >&2"), &[b'x'; 1_000_000], &bounds).unwrap();
    assert_eq!(ended.status, Ending::TimedOut);
}

#[test]
fn a_large_input_comes_whole() {
    let lab = Lab::new();
    let running = lab.start();
    let ended = running.exec(&sh("wc -c"), &vec![b'y'; 5_000_000], &BOUNDS).unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap().trim(), "5000000");
    let ended = running.exec(&sh("cat /dev/stdin /proc/self/fd/0"), b"abc", &BOUNDS).unwrap();
    assert!(ended.stdout.starts_with(b"abc"));
}

#[test]
fn how_it_ended_is_reported() {
    let lab = Lab::new();
    let running = lab.start();
    for (script, ending) in [
        ("exit 0", Ending::Exited(0)),
        ("exit 255", Ending::Exited(255)),
        ("kill -15 $$", Ending::Signaled(15)),
        ("kill -9 $$", Ending::Signaled(9)),
    ] {
        assert_eq!(call(&running, script).status, ending, "{script}");
    }
    for (program, kind) in [("/bin/none", Kind::NotFound), ("none", Kind::NotFound)] {
        let error = running.exec(&Process::new([program]), b"", &BOUNDS).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let error = running.exec(&Process::new(["/volume"]), b"", &BOUNDS).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    let lost = Process { cwd: "/nowhere".into(), ..sh("true") };
    assert_eq!(running.exec(&lost, b"", &BOUNDS).unwrap_err().kind(), Kind::Invalid);
}

/// Every way that a process has to leave its parent.
const TREE: &str = "(sleep MARK &) ; setsid sleep MARK & setsid sh -c 'trap \"\" TERM HUP; \
                    (setsid sleep MARK &); sleep MARK; sleep MARK' & echo up; sleep MARK";

#[test]
fn the_limit_ends_the_whole_tree() {
    let lab = Lab::new();
    let all = Spec { capabilities: Capabilities::All, ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &all, b"").unwrap();
    for broken in ["", "umount /proc; "] {
        let mark = format!("1{}.25", std::process::id());
        let script = format!("{broken}{}", TREE.replace("MARK", &mark));
        // Long enough for the shell to come to the end of its line on a busy machine.
        let bounds = Bounds { limit: Duration::from_secs(3), ..BOUNDS };
        let before = Instant::now();
        let ended = running.exec(&sh(&script), b"", &bounds).unwrap();
        // Far from as long as any of them sleeps.
        assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
        assert_eq!((ended.status, &*ended.stdout), (Ending::TimedOut, &b"up\n"[..]));
        assert_eq!(marked(&mark), Vec::<u32>::new());
    }
    assert_eq!(said(&running, "echo ok"), "ok\n", "the container goes on");
}

#[test]
fn what_a_call_left_in_the_background_stays() {
    let lab = Lab::new();
    let running = lab.start();
    let mark = format!("2{}.25", std::process::id());
    let script = format!("setsid sleep {mark} > /dev/null 2>&1 & echo $! > /volume/pid");
    let before = Instant::now();
    assert_eq!(call(&running, &script).status, Ending::Exited(0));
    assert!(before.elapsed() < Duration::from_secs(10), "the call waits for it");
    // The shell may end before its child has become `sleep`.
    eventually("it is there", || marked(&mark).len() == 1);
    // A later call finds it by the number that it has in the container.
    said(&running, "kill -9 $(cat /volume/pid)");
    eventually("it is gone", || marked(&mark).is_empty());
    // It has no command line from its end on, and a number until it is reaped.
    eventually("it is reaped", || {
        call(&running, "test ! -e /proc/$(cat /volume/pid)").status == Ending::Exited(0)
    });
    call(&running, &script);
    eventually("it is there again", || marked(&mark).len() == 1);
    running.stop(Duration::ZERO).unwrap();
    assert_eq!(marked(&mark), Vec::<u32>::new(), "it ends with the container");
}

#[test]
fn a_killed_caller_takes_its_calls_along() {
    let lab = Lab::new();
    let running = lab.start();
    let mark = format!("3{}.25", std::process::id());
    let script = format!("echo > /volume/up; {}", TREE.replace("MARK", &mark));
    // SAFETY: the child calls and ends.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let _ = running.exec(&sh(&script), b"", &BOUNDS);
            std::process::exit(0);
        }
        ForkResult::Parent { child } => child,
    };
    eventually("the call runs", || marked(&mark).len() >= 4);
    kill(child, Signal::SIGKILL).unwrap();
    nix::sys::wait::waitpid(child, None).unwrap();
    eventually("its tree is gone", || marked(&mark).is_empty());
    assert_eq!(said(&running, "echo ok"), "ok\n");
}

#[test]
fn many_call_at_once() {
    let lab = Lab::new();
    let running = lab.start();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let running = &running;
            scope.spawn(move || {
                for call in 0..10 {
                    let text = format!("{thread}.{call}");
                    assert_eq!(said(running, &format!("echo {text}")).trim(), text);
                }
            });
        }
    });
    // Nothing of ours stays in it: init, main, its sleep, this shell and its shim.
    eventually("all shims are gone", || {
        said(&running, "echo /proc/[0-9]*").split_whitespace().count() <= 5
    });
    let own = fs::read_link("/proc/thread-self/ns/pid_for_children").unwrap();
    assert_eq!(own, fs::read_link("/proc/thread-self/ns/pid").unwrap());
}
