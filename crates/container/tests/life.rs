//! Containers begin and end. As root, with busybox-static.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{BOUNDS, Lab, call, eventually, mounted, said, sh};
use container::{Capabilities, Devices, Ending, Mount, Propagation, Spec};
use model::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork};

fn namespaces(running: &container::Running) -> Vec<String> {
    let look = "for n in net ipc uts user cgroup mnt pid; do readlink /proc/self/ns/$n; done";
    said(running, look).lines().map(str::to_owned).collect()
}

#[test]
fn only_mounts_and_processes_are_its_own() {
    let lab = Lab::new();
    let running = lab.start();
    let inside = namespaces(&running);
    for (index, name) in ["net", "ipc", "uts", "user", "cgroup", "mnt", "pid"].iter().enumerate() {
        let host = fs::read_link(format!("/proc/thread-self/ns/{name}")).unwrap();
        let same = host.to_str().unwrap() == inside[index];
        assert_eq!(same, index < 5, "{name}: {}", inside[index]);
        let main = fs::read_link(format!("/proc/{}/ns/{name}", running.process().pid)).unwrap();
        assert_eq!(main.to_str().unwrap(), inside[index], "{name} of its init");
    }
    assert_eq!(said(&running, "readlink /proc/$$/ns/pid").trim(), inside[6]);
    assert_eq!(said(&running, "cat /proc/2/comm").trim(), "sh", "its main process is seen");
}

#[test]
fn the_file_system_is_as_it_should() {
    let lab = Lab::new();
    let running = lab.start();
    let files = "echo a > /dev/null; head -c 3 /dev/zero | wc -c; ls /dev /dev/pts/ptmx; \
                 readlink /dev/fd; readlink /dev/ptmx; ls / ; cat /etc/resolv.conf > /dev/null";
    let shown = said(&running, files);
    for name in ["null", "urandom", "shm", "pts", "/proc/self/fd", "pts/ptmx", "volume"] {
        assert!(shown.contains(name), "{name} in {shown}");
    }
    assert!(!shown.contains("vda"), "{shown}");
    assert_ne!(
        call(&running, "mkdir /sys/kernel/x || echo a > /sys/kernel/uevent_helper").status,
        Ending::Exited(0)
    );
    said(&running, "echo mine > /bin/mine");
    assert!(!lab.home.path().join("layer/bin/mine").exists(), "layers are not changed");
    assert_eq!(mounted(lab.home.path()), Vec::<String>::new(), "nothing is mounted on the host");
    running.stop(Duration::from_secs(5)).unwrap();
    let again = lab.start();
    assert_eq!(said(&again, "cat /bin/mine"), "mine\n", "what it wrote stays");
    again.stop(Duration::ZERO).unwrap();
    assert_eq!(mounted(lab.home.path()), Vec::<String>::new());
}

#[test]
fn the_main_process_reads_its_input_to_the_end() {
    let lab = Lab::new();
    let config = vec![b'x'; 300_000];
    let _running = lab.engine.start(&lab.directory(), &lab.spec(), &config).unwrap();
    let read = lab.volume().join("stdin");
    eventually("the input is read", || fs::read(&read).is_ok_and(|read| read == config));
}

#[test]
fn capabilities_are_exact() {
    let lab = Lab::new();
    let sets = "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status";
    let expected = |mask: u64, nnp: u8| {
        let set = |name: &str| format!("Cap{name}:\t{mask:016x}\n");
        let sets: String = ["Inh", "Prm", "Eff", "Bnd", "Amb"].into_iter().map(set).collect();
        format!("{sets}NoNewPrivs:\t{nnp}\n")
    };
    let running = lab.start();
    assert_eq!(said(&running, sets), expected(0x2435fb, 1));
    assert_eq!(said(&running, &sets.replace("self", "2")), expected(0x2435fb, 1), "main");
    let mut user = sh(sets);
    (user.uid, user.gid, user.groups) = (1234, 1235, vec![7, 8]);
    let ended = running.exec(&user, b"", &BOUNDS).unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), expected(0x2435fb, 1), "somebody else");
    running.stop(Duration::ZERO).unwrap();

    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapPrm:\t")).unwrap();
    let all = Spec {
        capabilities: Capabilities::All,
        no_new_privileges: false,
        devices: Devices::Host,
        ..lab.spec()
    };
    let running = lab.engine.start(&lab.directory(), &all, b"").unwrap();
    assert_eq!(said(&running, sets), expected(u64::from_str_radix(own, 16).unwrap(), 0));
    said(&running, "test -e /dev/vda -o -e /dev/sda -o -e /dev/loop0 -o -e /dev/kmsg");
    let none = Spec { capabilities: Capabilities::Set([].into()), ..lab.spec() };
    running.stop(Duration::ZERO).unwrap();
    let running = lab.engine.start(&lab.directory(), &none, b"").unwrap();
    assert_eq!(said(&running, sets), expected(0, 1));
}

#[test]
fn a_namespace_that_is_made_later_is_visible() {
    // In a mount namespace of its own, so that the host's mounts stay as they are.
    let lab = Lab::new();
    let (volume, home) = (lab.volume(), lab.home.path().to_owned());
    in_own_mounts(|| {
        let v = volume.display();
        shell(&format!("mount --bind {v} {v} && mount --make-shared {v}"));
        let running = lab.start();
        shell(&format!("touch {v}/pod && mount --bind /proc/self/ns/uts {v}/pod"));
        let host = fs::read_link("/proc/self/ns/uts").unwrap();
        assert_eq!(format!("nsfs {}", host.display()), {
            let inode = said(&running, "stat -c %i /volume/pod");
            format!("nsfs uts:[{}]", inode.trim())
        });
        shell(&format!("umount {v}/pod"));
        assert_eq!(said(&running, "stat -c %s /volume/pod").trim(), "0");
        said(&running, "mkdir /volume/mine && mount -t tmpfs none /volume/mine");
        assert_eq!(mounted(&home).len(), 1, "nothing comes back: {:?}", mounted(&home));
        running.stop(Duration::ZERO).unwrap();
    });
}

#[test]
fn targets_of_mounts_cannot_escape() {
    let lab = Lab::new();
    let layer = lab.home.path().join("layer");
    let out = lab.home.path().join("out");
    fs::create_dir(&out).unwrap();
    symlink(&out, layer.join("absolute")).unwrap();
    symlink("../../../../../../../../etc", layer.join("up")).unwrap();
    let bind = |target: &str| Mount::Bind {
        source: lab.volume(),
        target: target.into(),
        read_only: true,
        propagation: Propagation::Private,
    };
    let mut spec = lab.spec();
    spec.mounts
        .extend([bind("/up/hidden"), Mount::Tmpfs { target: "/scratch".into(), size: 4096 }]);
    let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
    said(&running, "test -d /etc/hidden && ! touch /etc/hidden/x 2> /dev/null");
    said(&running, "head -c 4096 /dev/zero > /scratch/x; ! echo y > /scratch/y 2> /dev/null");
    assert!(!Path::new("/etc/hidden").exists());
    running.stop(Duration::ZERO).unwrap();
    for target in ["/absolute/x", "/../x", "/bin/sh"] {
        spec.mounts = vec![bind(target)];
        let error = lab.engine.start(&lab.directory(), &spec, b"").unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.to_string().contains(target), "{error}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
}

#[test]
fn a_read_only_root_is() {
    let lab = Lab::new();
    let running = lab.engine.start(&lab.directory(), &Spec { read_only: true, ..lab.spec() }, b"");
    let running = running.unwrap();
    said(&running, "! touch /bin/x 2> /dev/null && touch /volume/x /dev/shm/x");
}

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
    assert_eq!(lab.engine.last_end(&lab.directory()).unwrap(), None);
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
        assert_eq!(lab.engine.last_end(&lab.directory()).unwrap(), Some(ending));
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
    let error = running.exec(&sh("kill -9 2; sleep 1000"), b"", &BOUNDS).unwrap_err();
    assert_eq!(error.kind(), Kind::TryAgain, "{error}");
    eventually("it ends", || running.ended().is_some());
    assert_eq!(running.ended(), Some(Ending::Signaled(9)));
    let again = lab.start();
    assert_ne!(again.process(), running.process());
    // Its init, from outside: nobody is left to say how.
    kill(Pid::from_raw(again.process().pid as i32), Signal::SIGKILL).unwrap();
    eventually("it ends", || again.ended().is_some());
    assert_eq!(again.ended(), Some(Ending::Unseen));
    assert_ne!(lab.start().process(), again.process());
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
fn it_needs_nobody_and_has_nothing_of_its_starter() {
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

fn shell(command: &str) {
    let done = Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(done.success(), "{command}");
}

/// Does `work` in a child that has a mount namespace of its own.
fn in_own_mounts(work: impl FnOnce()) {
    use nix::mount::{MsFlags, mount};
    // SAFETY: the child does its work and ends.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
                let flags = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
                mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
                work();
            }));
            // SAFETY: ends the child, and nothing of the parent with it.
            unsafe { nix::libc::_exit(i32::from(done.is_err())) }
        }
        ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
    }
}

/// Where overlayfs refuses the upper directory, the layers are copied.
#[test]
fn without_overlayfs_layers_are_copied() {
    let lab = Lab::new();
    let home = lab.home.path().to_owned();
    in_own_mounts(|| {
        let h = home.display();
        shell(&format!(
            "mkdir {h}/o {h}/u {h}/w {h}/m && \
             mount -t overlay -o lowerdir={h}/o,upperdir={h}/u,workdir={h}/w none {h}/m"
        ));
        let mut spec = lab.spec();
        spec.root = container::Root::Layers {
            lowers: vec![home.join("layer")],
            upper: home.join("m/upper"),
        };
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
        said(&running, "echo mine > /bin/mine");
        assert!(home.join("m/upper/copy/bin/mine").exists());
        assert!(!home.join("layer/bin/mine").exists());
        running.stop(Duration::ZERO).unwrap();
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
        assert_eq!(said(&running, "cat /bin/mine"), "mine\n");
        running.stop(Duration::ZERO).unwrap();
    });
}
