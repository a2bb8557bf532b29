//! Containers of a user other than root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use common::{Lab, said, sh, shell};
use container::{Mount, Propagation, Spec, rootless};
use model::Kind;
use nix::unistd::{ForkResult, Gid, Uid, fork, setgid, setgroups, setuid};

/// Does `work` as a user without processes, in a process with one thread.
fn as_unused_user(work: impl FnOnce()) {
    // SAFETY: the child does its work and ends.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                setgroups(&[]).unwrap();
                setgid(Gid::from_raw(54321)).unwrap();
                setuid(Uid::from_raw(54321)).unwrap();
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

#[test]
fn a_user_has_containers_and_networks() {
    let lab = Lab::new();
    let home = lab.home.path().to_owned();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    shell(&format!("chown -R -h 54321:54321 {}", home.display()));
    chown(&home, Some(54321), Some(54321)).unwrap();
    let before = fs::read_link("/proc/self/ns/net").unwrap();
    let host = before.clone();
    as_unused_user(|| {
        rootless::enter(&home).unwrap();
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(own, host);
        let v = lab.volume().display().to_string();
        shell(&format!("mount --bind {v} {v} && mount --make-shared {v}"));
        let ip = Mount::Bind {
            source: "/usr".into(),
            target: "/usr".into(),
            read_only: true,
            propagation: Propagation::Private,
        };
        let mut spec = Spec { name: "rootless".parse().unwrap(), ..lab.spec() };
        spec.mounts.push(ip);
        for (name, to) in [("lib", "usr/lib"), ("lib64", "usr/lib64")] {
            std::os::unix::fs::symlink(to, home.join("layer").join(name)).unwrap();
        }
        let running = lab.engine.start(&lab.directory(), &spec, b"{}").unwrap();
        assert_eq!(said(&running, "readlink /proc/self/ns/net").trim(), own.to_str().unwrap());
        assert_eq!(said(&running, "id -u").trim(), "0");
        said(&running, "! cat /proc/1/environ /proc/1/mem 2> /dev/null");
        said(&running, "! readlink /proc/1/exe 2> /dev/null");
        // Two pods' namespaces, made later; a bridge, and a pair between them, made by the container.
        for pod in ["one", "two"] {
            shell(&format!("touch {v}/{pod}; unshare -n mount --bind /proc/self/ns/net {v}/{pod}"));
        }
        said(
            &running,
            "set -e; ip=/usr/bin/ip; $ip link add br0 type bridge; \
             $ip link add v0 type veth peer name v1; $ip link set v0 master br0; \
             $ip link add left type veth peer name right; \
             $ip link set left netns /volume/one; $ip link set right netns /volume/two",
        );
        for (pod, link, peer) in [("one", "left", "right"), ("two", "right", "left")] {
            let shown = said(&running, &format!("nsenter --net=/volume/{pod} /usr/bin/ip -o link"));
            assert!(shown.contains(&format!("{link}@")), "{shown}");
            assert!(!shown.contains(&format!("{peer}@")), "{shown}");
        }
        let shown = said(&running, "/usr/bin/ip -o link");
        assert!(shown.contains("master br0"), "{shown}");
    });
    as_unused_user(|| {
        // Another user finds all of it.
        rootless::enter(&home).unwrap();
        assert_ne!(fs::read_link("/proc/self/ns/net").unwrap(), host);
        let running = lab.engine.adopt(&lab.directory()).unwrap().unwrap();
        assert!(said(&running, "/usr/bin/ip -o link").contains("br0"));
        running.stop(Duration::ZERO).unwrap();
    });
    assert_eq!(fs::read_link("/proc/self/ns/net").unwrap(), before);
    let record = fs::read_to_string(home.join("rootless/running")).unwrap();
    let keeper = record.lines().next().unwrap().trim_start_matches("pid ").parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
}

#[test]
fn several_threads_are_too_many() {
    let home = tempfile::tempdir().unwrap();
    let error = rootless::enter(home.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn without_rights_it_is_said() {
    let lab = Lab::new();
    let home = lab.home.path().to_owned();
    shell(&format!("chown -R -h 54321:54321 {}", home.display()));
    as_unused_user(|| {
        let spec = Spec { process: Some(sh("true")), ..lab.spec() };
        let error = lab.engine.start(&lab.directory(), &spec, b"").unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{error}");
        assert!(error.to_string().contains("not permitted"), "{error}");
    });
}
