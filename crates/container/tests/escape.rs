//! The known ways out of a container, tried in one that is not privileged. As root, with
//! busybox-static.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{BOUNDS, Lab, call, eventually, in_own_mounts, said, sh, shell};
use container::{Capabilities, Devices, Ending, Resources, Root, Running, Spec};

/// As network plugins run that are not privileged.
fn confined(lab: &Lab) -> Spec {
    let mut spec = lab.spec();
    let Root::Layers { room, .. } = &mut spec.root;
    *room = Some(4 << 20);
    Spec { limits: Some(Resources { processes: 64, memory: 64 << 20 }), ..spec }
}

fn privileged(lab: &Lab) -> Spec {
    Spec {
        capabilities: Capabilities::All,
        devices: Devices::Host,
        no_new_privileges: false,
        ..lab.spec()
    }
}

fn start(lab: &Lab, spec: &Spec) -> Running {
    lab.engine.start(&lab.directory(), spec, b"").unwrap()
}

/// What `script` says that it did. It must not have written `out`.
fn tried(running: &Running, script: &str) -> String {
    let ended = running.exec(&sh(&format!("{script} && echo out")), b"", &BOUNDS).unwrap();
    String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr)
}

#[track_caller]
fn held(running: &Running, script: &str) {
    let said = tried(running, script);
    assert!(!said.lines().any(|line| line == "out"), "{script}: {said}");
}

#[test]
fn settings_of_the_host_are_not_written() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/sysrq",
        "/proc/sys/vm/panic_on_oom",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger",
        "/proc/mtrr",
        "/proc/dynamic_debug/control",
        "/sys/kernel/uevent_helper",
    ] {
        // With what is there already: where it fails, nothing happens to the machine.
        held(&running, &format!("test -e {path} && (cat {path} > /tmp.x; : >> {path}) 2>&1"));
        for again in [
            format!("mount -o remount,rw {path}"),
            "mount -o remount,rw /proc/sys".to_owned(),
            "umount /proc/sys".to_owned(),
            "mkdir -p /p; mount -t proc proc /p".to_owned(),
        ] {
            held(&running, &again);
        }
    }
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
    for masked in
        ["/proc/kcore", "/proc/keys", "/proc/kpagecount", "/proc/kmsg", "/proc/timer_list"]
    {
        assert_eq!(
            said(&running, &format!("! test -e {masked} || head -c 16 {masked}")).trim(),
            "",
            "{masked}"
        );
    }
    assert_eq!(
        said(&running, "ls /sys/firmware /sys/kernel/debug 2>/dev/null | grep -v :; true").trim(),
        ""
    );
}

/// What the host mounts below /sys while the container runs.
#[test]
fn later_mounts_of_the_host_are_not_written() {
    in_own_mounts(|| {
        shell("mount --make-rshared /");
        let lab = Lab::new();
        let running = start(&lab, &confined(&lab));
        shell("mount -t tmpfs later /sys/fs && touch /sys/fs/seen");
        held(&running, "test -e /sys/fs/seen");
        held(&running, "touch /sys/fs/mine");
        running.stop(Duration::ZERO).unwrap();
    });
}

/// A process that may send events of the kernel has udev load modules and start units.
#[test]
fn events_of_the_kernel_are_not_forged() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    // It listens until it is ended, where it may.
    let ended = call(&running, "timeout 3 uevent");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("Operation not permitted"), "{ended:?}");
    // Other sockets of netlink are what network plugins are made for.
    assert!(common::said(&running, "ip link").contains("lo"));
}

#[test]
fn settings_of_networks_are() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    // In a network namespace of the test's own: the host's settings stay.
    said(
        &running,
        "unshare -n sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; cat /proc/sys/net/ipv4/ip_forward' \
         | grep -q 1",
    );
}

#[test]
fn file_systems_are_not_mounted() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    said(&running, "mkdir /m");
    for kind in ["devtmpfs", "proc", "sysfs", "tmpfs", "cgroup", "cgroup2", "debugfs", "bpf"] {
        held(&running, &format!("mount -t {kind} none /m"));
    }
    // A release agent is a setting of a cgroup mounted anew.
    held(&running, "mount -t cgroup -o rdma,release_agent=/x none /m");
    held(&running, "mount --bind / /m");
    held(&running, "umount /dev");
    held(&running, "pivot_root / /m");
    held(&running, "unshare -m true");
    held(&running, "unshare -U true");
    held(&running, "unshare -p true");
    held(&running, "nsenter -t 1 -m true");
    held(&running, "nsenter --mount=/proc/1/ns/mnt true");
    said(&running, "unshare -n true");
}

#[test]
fn devices_and_modules_are_out_of_reach() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    held(&running, "mknod /disk b 254 0");
    held(&running, "mknod /mem c 1 1");
    held(&running, "mknod /dev/kmsg c 1 11");
    held(&running, "echo x > /x.ko; insmod /x.ko");
    held(&running, "rmmod dummy");
    held(&running, "dmesg > /dev/null");
    held(&running, "reboot -f");
    held(&running, "hostname $(hostname)");
    held(&running, "swapon /bin/busybox");
}

#[test]
fn no_call_leads_around_the_list() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    assert_eq!(said(&running, "grep Seccomp: /proc/self/status").trim(), "Seccomp:\t2");
    assert_eq!(said(&running, "grep Seccomp: /proc/2/status").trim(), "Seccomp:\t2", "main");
    running.stop(Duration::ZERO).unwrap();
    let all = Spec {
        capabilities: Capabilities::All,
        devices: Devices::Host,
        no_new_privileges: false,
        ..lab.spec()
    };
    let running = start(&lab, &all);
    said(&running, "mkdir /m && mount -t tmpfs none /m && umount /m");
    assert_eq!(said(&running, "grep Seccomp: /proc/self/status").trim(), "Seccomp:\t0");
}

#[test]
fn bombs_go_off_inside() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    let forks = "i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; true";
    let ended = call(&running, forks);
    assert_ne!(ended.status, Ending::Exited(0), "400 processes of at most 64");
    running.stop(Duration::ZERO).unwrap();
    let running = start(&lab, &confined(&lab));
    let memory = "dd if=/dev/zero of=/dev/null bs=200M count=1";
    let ended = running.exec(&sh(memory), b"", &BOUNDS);
    let is_done = ended.is_ok_and(|ended| ended.status == Ending::Exited(0));
    assert!(!is_done, "200 MB of at most 64");
    running.stop(Duration::ZERO).unwrap();
}

#[test]
fn what_it_writes_is_bounded_and_in_no_directory_of_ours() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    let ended = call(&running, "head -c 8000000 /dev/zero > /full");
    assert_ne!(ended.status, Ending::Exited(0));
    assert_eq!(said(&running, "test $(stat -c %s /full) -le 4194304 && echo less"), "less\n");
    let upper = lab.home.path().join("upper");
    assert!(!upper.join("diff/full").exists());
    said(&running, "rm /full; echo again > /bin/mine; cat /bin/mine");
    running.stop(Duration::ZERO).unwrap();
    let running = start(&lab, &confined(&lab));
    said(&running, "test ! -e /bin/mine");
}

/// Main process and calls are in cgroups that bound both, by the files of whichever version the host has.
#[test]
fn its_cgroups_bound_it() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    let made = fs::read_to_string(lab.directory().join("cgroups")).unwrap();
    let read = |files: [&str; 2]| {
        let places = made.lines().flat_map(|path| files.map(|file| Path::new(path).join(file)));
        let read: Vec<String> = places.filter_map(|file| fs::read_to_string(file).ok()).collect();
        assert_eq!(read.len(), 1, "{files:?} in {made}");
        read[0].trim().to_owned()
    };
    assert_eq!(read(["pids.max", "pids.max.none"]), "64");
    assert_eq!(read(["memory.limit_in_bytes", "memory.max"]), (64 << 20).to_string());
    // Those of the call are the main process's: one of version 2, or one of each of version 1.
    let own = said(&running, "cat /proc/self/cgroup");
    let main = fs::read_to_string(format!("/proc/{}/cgroup", running.process().pid)).unwrap();
    let ours = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("/spoke/")).map(str::to_owned).collect()
    };
    assert_eq!(ours(&own), ours(&main));
    assert_eq!(ours(&own).len(), made.lines().count(), "{own}\n{made}");
}

/// A service manager ends what is in the cgroup of a service, as that of the daemon that starts containers.
#[test]
fn a_privileged_one_is_in_a_cgroup_of_its_own() {
    let lab = Lab::new();
    let running = start(&lab, &privileged(&lab));
    let main = fs::read_to_string(format!("/proc/{}/cgroup", running.process().pid)).unwrap();
    let own = said(&running, "cat /proc/self/cgroup");
    // As systemd knows its services by: version 2, or its own of version 1.
    let is_of_services = |line: &&str| line.starts_with("0::") || line.contains(":name=systemd:");
    for text in [&main, &own] {
        let lines: Vec<&str> = text.lines().filter(is_of_services).collect();
        assert!(
            !lines.is_empty() && lines.iter().all(|line| line.contains(":/spoke/test-")),
            "{text}"
        );
    }
    let made = fs::read_to_string(lab.directory().join("cgroups")).unwrap();
    running.stop(Duration::ZERO).unwrap();
    assert!(made.lines().all(|path| !Path::new(path).exists()), "{made}");
}

/// One that runs containers itself makes cgroups in its own, and leaves them behind.
#[test]
fn cgroups_that_a_privileged_one_made_end_with_it() {
    let lab = Lab::new();
    for _ in 0..2 {
        let running = start(&lab, &privileged(&lab));
        let made = fs::read_to_string(lab.directory().join("cgroups")).unwrap();
        for path in made.lines() {
            fs::create_dir_all(Path::new(path).join("its/own")).unwrap();
            fs::create_dir_all(Path::new(path).join("its/other")).unwrap();
        }
        running.stop(Duration::ZERO).unwrap();
        assert!(made.lines().count() > 0 && made.lines().all(|path| !Path::new(path).exists()));
        assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    }
}

/// Why the kernel ended it is known.
#[test]
fn who_used_up_his_memory_is_known() {
    let lab = Lab::new();
    let spec = confined(&lab);
    start(&lab, &spec).stop(Duration::ZERO).unwrap();
    let last = || lab.engine.last_end(&lab.directory()).unwrap().unwrap();
    assert!(!last().was_short_of_memory, "{:?}", last());
    let hungry = sh("exec dd if=/dev/zero of=/dev/null bs=200M count=1");
    let running = start(&lab, &Spec { process: Some(hungry), ..spec });
    eventually("it ends", || running.ended().is_some());
    let end = last();
    assert!(end.was_short_of_memory && end.ending == Ending::Signaled(9), "{end:?}");
    // Also when its cgroups are gone, and no longer when the next one has been started.
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    assert!(last().was_short_of_memory);
    start(&lab, &confined(&lab)).stop(Duration::ZERO).unwrap();
    assert!(!last().was_short_of_memory);
}

/// The cgroups of a container are there as long as it is.
#[test]
fn cgroups_end_with_their_container() {
    let lab = Lab::new();
    let running = start(&lab, &confined(&lab));
    let made = fs::read_to_string(lab.directory().join("cgroups")).unwrap();
    let made: Vec<&Path> = made.lines().map(Path::new).collect();
    assert!(!made.is_empty() && made.iter().all(|path| path.is_dir()), "{made:?}");
    // A process in another PID namespace may have the same number, and the same cgroups above.
    let number = format!("-{}-", std::process::id());
    assert!(!made.iter().any(|path| path.to_string_lossy().contains(&number)), "{made:?}");
    let own = said(&running, "cat /proc/self/cgroup");
    assert!(own.contains("/spoke/"), "{own}");
    running.stop(Duration::ZERO).unwrap();
    assert!(made.iter().all(|path| !path.exists()), "{made:?}");
    // Also after an end by itself.
    let running = start(&lab, &confined(&lab));
    let made = fs::read_to_string(lab.directory().join("cgroups")).unwrap();
    let _ = running.exec(&sh("kill -9 2; sleep 100"), b"", &BOUNDS);
    eventually("it ends", || running.ended().is_some());
    assert!(lab.engine.adopt(&lab.directory()).unwrap().is_none());
    assert!(made.lines().all(|path| !Path::new(path).exists()), "{made}");
}
