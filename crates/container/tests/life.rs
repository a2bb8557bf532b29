//! Containers begin and end. As root, with busybox-static.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{BOUNDS, Lab, call, eventually, mounted, said, sh};
use container::{Ending, Mount, Propagation, Spec};
use model::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork};

#[test]
fn what_cannot_be_is_refused() {
    let lab = Lab::new();
    let start = |spec: &Spec| lab.engine.start(&lab.directory(), spec, b"").unwrap_err();
    let program = Spec { process: Some(container::Process::new(["/bin/none"])), ..lab.spec() };
    let error = start(&program);
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    assert!(error.to_string().contains("/bin/none"), "{error}");
    let mut source = lab.spec();
    source.mounts = vec![Mount::Bind {
        source: "/nowhere/at/all".into(),
        target: "/x".into(),
        read_only: false,
        propagation: Propagation::Private,
    }];
    let error = start(&source);
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    assert_eq!(lab.last_end(), None);
    lab.start();
}

#[test]
fn a_directory_has_one_container() {
    let lab = Lab::new();
    let first = lab.start().process();
    assert_eq!(lab.start().process(), first);
    assert_eq!(lab.engine.adopt(&lab.directory()).unwrap().unwrap().process(), first);
    lab.start().stop(Duration::ZERO).unwrap();
    // Many at once.
    let started: Vec<_> = std::thread::scope(|scope| {
        let starters: Vec<_> = (0..4).map(|_| scope.spawn(|| lab.start().process())).collect();
        starters.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(started.iter().all(|one| *one == started[0] && *one != first), "{started:?}");
}

#[test]
fn how_it_ended_is_known() {
    let lab = Lab::new();
    for (script, ending) in [("exit 7", Ending::Exited(7)), ("kill -9 $$", Ending::Signaled(9))] {
        let spec = Spec { process: Some(sh(script)), ..lab.spec() };
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
        eventually("it ends", || running.ended().is_some());
        assert_eq!(running.ended(), Some(ending));
        assert_eq!(lab.last_end(), Some(ending));
        let error = running.exec(&sh("true"), b"", &BOUNDS).unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
        running.stop(Duration::ZERO).unwrap();
        running.stop(Duration::from_secs(9)).unwrap();
    }
    let running = lab.start();
    assert_eq!(running.ended(), None);
}

#[test]
fn a_killed_main_process_ends_its_container() {
    let lab = Lab::new();
    let running = lab.start();
    // Also whatever is being called meanwhile.
    let call = running.exec(&sh("echo said; kill -9 2; sleep 1000"), b"", &BOUNDS).unwrap();
    assert_eq!(call.status, Ending::Unseen, "{call:?}");
    eventually("it ends", || running.ended().is_some());
    assert_eq!(running.ended(), Some(Ending::Signaled(9)));
    let again = lab.start();
    assert_ne!(again.process(), running.process());
    // Its init, from outside: no process is left to say how.
    kill(Pid::from_raw(again.process().pid as i32), Signal::SIGKILL).unwrap();
    eventually("it ends", || again.ended().is_some());
    assert_eq!(again.ended(), Some(Ending::Unseen));
    assert_ne!(lab.start().process(), again.process());
}

/// What it wrote last is reported with its end, not what an earlier one wrote.
#[test]
fn its_last_words_are_known() {
    let lab = Lab::new();
    let ended = |script: &str| {
        let spec = Spec { process: Some(sh(script)), ..lab.spec() };
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
        eventually("it ends", || running.ended().is_some());
        let end = lab.engine.last_end(&lab.directory()).unwrap().unwrap();
        assert_eq!(end.process, running.process());
        (end.ending, end.words)
    };
    let (ending, words) = ended("echo no route; echo exited 9 >&2; exit 3");
    assert_eq!((ending, words.as_str()), (Ending::Exited(3), "no route\nexited 9\n"));
    assert_eq!(ended("kill -9 $$"), (Ending::Signaled(9), String::new()));
    let (_, words) = ended("yes | head -c 100000; echo; echo last; exit 1");
    assert!(words.len() <= 1024 && words.ends_with("y\n\nlast\n"), "{words:?}");
}

#[test]
fn stopping_asks_first() {
    let lab = Lab::new();
    let script =
        "trap 'echo bye > /volume/said; exit 3' TERM; echo > /volume/up; sleep 1000 & wait";
    let polite = Spec { process: Some(sh(script)), ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &polite, b"").unwrap();
    eventually("it is up", || lab.volume().join("up").exists());
    running.stop(Duration::from_secs(20)).unwrap();
    assert_eq!(running.ended(), Some(Ending::Exited(3)));
    assert_eq!(fs::read_to_string(lab.volume().join("said")).unwrap(), "bye\n");

    let deaf =
        Spec { process: Some(sh("trap '' TERM; while :; do sleep 1000; done")), ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &deaf, b"").unwrap();
    let before = Instant::now();
    running.stop(Duration::from_millis(50)).unwrap();
    assert!(before.elapsed() < Duration::from_secs(5));
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
}

#[test]
fn without_a_main_process_it_waits_to_be_stopped() {
    let lab = Lab::new();
    let spec = Spec { process: None, ..lab.spec() };
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    assert_eq!(said(&running, "echo there"), "there\n");
    running.stop(Duration::from_secs(20)).unwrap();
    assert_eq!(running.ended(), Some(Ending::Exited(0)));
}

#[test]
fn the_log_is_bounded() {
    let lab = Lab::new();
    let script = "echo begin; echo wrong >&2; yes | head -c 5000000; echo end; sleep 1000";
    let spec = Spec { process: Some(sh(script)), ..lab.spec() };
    let _running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    let log = lab.directory().join("log");
    eventually("all is written", || {
        fs::read_to_string(&log).is_ok_and(|log| log.ends_with("end\n"))
    });
    let length = |name: &str| fs::metadata(lab.directory().join(name)).unwrap().len();
    assert!(length("log") < 1_200_000 && length("log.1") < 1_200_000);
}

/// A starter that is killed after a while: whatever is left, the next start makes it good.
#[test]
fn a_start_can_be_killed_at_any_point() {
    let lab = Lab::new();
    let mark = "1000.5";
    let script = format!("trap 'exit 0' TERM; sleep {mark} & wait");
    let spec = Spec { process: Some(sh(&script)), ..lab.spec() };
    let mut seen = [0, 0];
    for step in 0..60 {
        // SAFETY: the child starts a container and ends.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let started = lab.engine.start(&lab.directory(), &spec, b"").is_ok();
                std::process::exit(i32::from(!started));
            }
            ForkResult::Parent { child } => child,
        };
        std::thread::sleep(Duration::from_micros(step * 300));
        kill(child, Signal::SIGKILL).unwrap();
        nix::sys::wait::waitpid(child, None).unwrap();
        let left = lab.engine.adopt(&lab.directory()).unwrap();
        seen[usize::from(left.is_some())] += 1;
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
        assert_eq!(said(&running, "echo ok"), "ok\n");
        running.stop(Duration::ZERO).unwrap();
    }
    eventually("no container is left", || !runs_in(&lab.directory()));
    assert_eq!(mounted(lab.home.path()), Vec::<String>::new());
    println!("killed before it ran: {}, after: {}", seen[0], seen[1]);
}

/// Whether a process has a file of `directory` open.
fn runs_in(directory: &Path) -> bool {
    let open =
        |fd: fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(directory));
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let files = fs::read_dir(process.path().join("fd"));
        files.into_iter().flatten().flatten().any(open)
    })
}

#[test]
fn it_needs_no_parent_and_has_nothing_of_its_starter() {
    let lab = Lab::new();
    let running = lab.start();
    let init = running.process().pid;
    let stat = fs::read_to_string(format!("/proc/{init}/stat")).unwrap();
    let parent: u32 =
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_ne!(parent, std::process::id());
    let main = said(&running, "for f in /proc/2/fd/*; do readlink $f; done");
    for line in main.lines() {
        let own =
            ["pipe:", "/memfd:stdin", "/volume/stdin"].iter().any(|own| line.starts_with(own));
        assert!(own, "{line}");
    }
    let refused = call(&running, "readlink /proc/1/exe; readlink /proc/1/cwd; cat /proc/1/mem");
    assert!(refused.stdout.is_empty(), "{:?}", String::from_utf8_lossy(&refused.stdout));
    // Its starter's environment and arguments may hold secrets.
    assert_eq!(said(&running, "tr -d '\\000' < /proc/1/environ"), "");
    assert_eq!(said(&running, "tr -d '\\000' < /proc/1/cmdline"), "spoke-plugin: test");
    let shims = "for p in /proc/[0-9]*; do case $(tr -d '\\000' < $p/cmdline) in \
                 'spoke-plugin: call') tr -d '\\000' < $p/environ; echo found;; esac; done";
    assert_eq!(said(&running, shims), "found\n");
}
