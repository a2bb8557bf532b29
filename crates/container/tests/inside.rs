//! What is in a container: namespaces, files, rights. As root, with busybox-static.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use common::{BOUNDS, Lab, call, eventually, in_own_mounts, mounted, said, sh, shell};
use container::{Capabilities, Devices, Ending, Mount, Propagation, Spec};
use model::Kind;

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
    assert_eq!(String::from_utf8_lossy(&ended.stdout), expected(0x2435fb, 1), "another user");
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
        let spec = Spec { capabilities: Capabilities::All, ..lab.spec() };
        let running = lab.engine.start(&lab.directory(), &spec, b"").unwrap();
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
            room: None,
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
