use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use model::Kind;
use tempfile::TempDir;

use super::*;

struct Host {
    root: TempDir,
}

impl Host {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::write(root.path().join("program"), "ours").unwrap();
        Self { root }
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("opt/cni/bin")
    }

    fn directory(&self) -> Directory {
        Directory::new(&self.bin())
    }

    fn install(&self, takeover: bool) -> Result<Answer> {
        install(&self.directory(), takeover, &self.root.path().join("program"))
    }

    fn foreign(&self, name: &str, text: &str) {
        fs::create_dir_all(self.bin()).unwrap();
        fs::write(self.bin().join(name), text).unwrap();
        fs::set_permissions(self.bin().join(name), fs::Permissions::from_mode(0o711)).unwrap();
    }
}

/// Every name with its inode, mode and content or target.
fn snapshot(directory: &Path) -> Vec<(PathBuf, u64, u32, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let there = fs::symlink_metadata(&path).unwrap();
        let content = match there.is_symlink() {
            true => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            false if there.is_dir() => Vec::new(),
            false => fs::read(&path).unwrap(),
        };
        found.push((path, there.ino(), there.mode(), content));
    }
    found.sort();
    found
}

#[test]
fn installs_and_leaves_nothing() {
    let host = Host::new();
    host.install(false).unwrap();
    assert_eq!(fs::read(host.bin().join("bridge")).unwrap(), b"ours");
    assert_eq!(fs::read_link(host.bin().join("tuning")).unwrap(), Path::new("spoke"));
    assert_eq!(fs::metadata(host.bin().join("spoke")).unwrap().mode() & 0o777, 0o755);
    let once = snapshot(&host.bin());
    host.install(false).unwrap();
    let names = |found: Vec<(PathBuf, u64, u32, Vec<u8>)>| {
        found.into_iter().map(|(path, ..)| path).collect::<Vec<_>>()
    };
    assert_eq!(names(snapshot(&host.bin())), names(once));
    uninstall(&host.directory()).unwrap();
    assert!(!host.bin().exists());
    assert_eq!(uninstall(&host.directory()).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn an_upgrade_replaces_the_program() {
    let host = Host::new();
    host.install(false).unwrap();
    fs::write(host.root.path().join("program"), "newer").unwrap();
    let state =
        |host: &Host| states(&host.bin(), &host.root.path().join("program")).unwrap()[0].state;
    assert_eq!(state(&host), "other-spoke");
    host.install(false).unwrap();
    assert_eq!(state(&host), "spoke");
    assert_eq!(fs::read(host.bin().join("bridge")).unwrap(), b"newer");
}

#[test]
fn refuses_to_replace_others() {
    let host = Host::new();
    host.foreign("bridge", "theirs");
    host.foreign("spoke", "a wheel");
    let before = snapshot(&host.bin());
    let error = host.install(false).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().contains("bridge, spoke, which are a third party's"), "{error}");
    assert_eq!(snapshot(&host.bin()), before);
}

#[test]
fn takes_over_and_puts_back_exactly() {
    let host = Host::new();
    host.foreign("bridge", "theirs");
    host.foreign("spoke", "a wheel");
    host.foreign("dhcp", "theirs too");
    host.foreign("whereabouts", "not ours to touch");
    symlink("/usr/lib/cni/ptp", host.bin().join("ptp")).unwrap();
    let before = snapshot(&host.bin());
    host.install(true).unwrap();
    host.install(true).unwrap();
    assert_eq!(fs::read(host.bin().join("ptp")).unwrap(), b"ours");
    let states = states(&host.bin(), &host.root.path().join("program")).unwrap();
    assert!(states.iter().all(|plugin| plugin.state == "spoke"), "{states:?}");
    assert_eq!(states.iter().filter(|plugin| plugin.replaced).count(), 4);
    uninstall(&host.directory()).unwrap();
    assert_eq!(snapshot(&host.bin()), before);
}

#[test]
fn what_a_package_upgrade_put_there_stays() {
    let host = Host::new();
    host.foreign("bridge", "theirs");
    host.install(true).unwrap();
    fs::remove_file(host.bin().join("bridge")).unwrap();
    host.foreign("bridge", "theirs, newer");
    let answer = uninstall(&host.directory()).unwrap();
    assert_eq!(answer.notes.len(), 1);
    assert_eq!(fs::read(host.bin().join("bridge")).unwrap(), b"theirs, newer");
    assert_eq!(fs::read(host.directory().kept("bridge")).unwrap(), b"theirs");
}

/// Every prefix of the steps of taking over, then installing again, then removing.
#[test]
fn a_crash_anywhere_is_mended_by_running_again() {
    for crash in 0..5 {
        let host = Host::new();
        host.foreign("bridge", "theirs");
        host.foreign("spoke", "a wheel");
        let before = snapshot(&host.bin());
        let directory = host.directory();
        let manifest = Manifest {
            replaced: vec!["bridge".to_owned(), "spoke".to_owned()],
            ..Manifest::default()
        };
        let program = host.root.path().join("program");
        let steps: [&dyn Fn() -> Result<()>; 5] = [
            &|| directory.remember(&manifest),
            &|| directory.keep("bridge"),
            &|| directory.keep("spoke"),
            &|| directory.place_program(&program),
            &|| directory.place_link("bridge"),
        ];
        steps[..=crash].iter().for_each(|step| step().unwrap());
        let half = Host::directory(&host);
        if crash % 2 == 0 {
            host.install(true).unwrap();
        }
        uninstall(&half).unwrap();
        assert_eq!(snapshot(&host.bin()), before, "after step {crash}");
    }
}

/// Every prefix of the steps of putting back, then the whole again.
#[test]
fn a_crash_while_putting_back_is_mended_too() {
    for crash in 0..3 {
        let host = Host::new();
        host.foreign("bridge", "theirs");
        host.foreign("spoke", "a wheel");
        let before = snapshot(&host.bin());
        host.install(true).unwrap();
        let directory = host.directory();
        let steps: [&dyn Fn() -> Result<()>; 3] = [
            &|| directory.give_back("bridge"),
            &|| {
                let mut others = links().filter(|name| *name != "bridge");
                others.try_for_each(|name| directory.give_back(name))
            },
            &|| directory.give_back("spoke"),
        ];
        steps[..=crash].iter().for_each(|step| step().unwrap());
        uninstall(&directory).unwrap();
        assert_eq!(snapshot(&host.bin()), before, "after step {crash}");
    }
}
