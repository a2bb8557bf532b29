//! The image that containers run.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::{fs, io};

/// The host's static busybox.
const BUSYBOX: &str = "/bin/busybox";

/// The image as a tar archive: made once per process.
pub(super) fn archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        assert!(fs::exists(BUSYBOX).is_ok_and(|is| is), "busybox-static (make test)");
        let folder = tempfile::tempdir().expect("a folder");
        root(folder.path()).expect("the image's files");
        output(Command::new("tar").arg("-C").arg(folder.path()).args(["-c", "."]))
    })
}

/// Fills `root` with busybox under all its names, and a page to serve. Each name is a link that is made
/// here: a program for each of 400 links takes a third of a second, in every test.
fn root(root: &Path) -> io::Result<()> {
    for folder in ["bin", "etc", "proc", "sys", "dev", "tmp", "www"] {
        fs::create_dir(root.join(folder))?;
    }
    fs::copy(BUSYBOX, root.join("bin/busybox"))?;
    let names = String::from_utf8(output(Command::new(BUSYBOX).arg("--list"))).expect("names");
    for name in names.lines().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(name))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    fs::write(root.join("www/index.html"), "a page\n")
}

fn output(command: &mut Command) -> Vec<u8> {
    let done = command.output().expect("it starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}
