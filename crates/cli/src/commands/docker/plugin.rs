//! `spoke docker plugin`: this program as a managed plugin of Docker (`docker plugin create`).

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use model::{Error, Result};

use crate::answer::Answer;
use crate::context::CommandContext;

const CONFIG: &str = include_str!("../../../../../packaging/plugin/config.json");

/// The directories of the plugin's root besides the program: mount points of Docker and of the
/// configuration, and of the kernel's file systems.
const DIRECTORIES: [&str; 9] = [
    "run",
    "run/docker/plugins",
    "var/lib/spoke",
    "etc/spoke",
    "proc",
    "sys",
    "dev",
    "tmp",
    "usr/sbin",
];

/// How the kernel's loader knows a program that wants another one to load it.
const INTERPRETED: &[u8] = b"/ld-linux";

pub(super) fn write(directory: &Path, context: &CommandContext) -> Result<Answer> {
    let doing = |path: &Path| format!("writing {}", path.display());
    refuse_filled(directory)?;
    refuse_dynamic(&context.executable)?;
    let root = directory.join("rootfs");
    for below in DIRECTORIES {
        let path = root.join(below);
        fs::create_dir_all(&path).map_err(|cause| Error::os(doing(&path), cause))?;
    }
    let link = root.join("var/run");
    std::os::unix::fs::symlink("/run", &link).map_err(|cause| Error::os(doing(&link), cause))?;
    let program = root.join("spoke");
    let placed = fs::copy(&context.executable, &program)
        .and_then(|_| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)));
    placed.map_err(|cause| Error::os(doing(&program), cause))?;
    let config = directory.join("config.json");
    fs::write(&config, CONFIG).map_err(|cause| Error::os(doing(&config), cause))?;
    let notes = vec![format!(
        "to begin: mkdir -p /var/lib/spoke && docker plugin create spoke {} && docker plugin \
         enable spoke",
        directory.display()
    )];
    let text = format!("{}\n{}\n", config.display(), program.display());
    Ok(Answer { notes, ..Answer::text(text) })
}

fn refuse_filled(directory: &Path) -> Result<()> {
    // A directory that cannot be read cannot be written either; the write reports that.
    match fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
        false => Ok(()),
        true => Err(Error::conflict(format!(
            "{} is not empty; name a new directory",
            directory.display()
        ))),
    }
}

/// There is nothing in the plugin's root that could load the program.
fn refuse_dynamic(program: &Path) -> Result<()> {
    let mut head = Vec::new();
    let read = file::open(program).and_then(|file| file.take(4096).read_to_end(&mut head));
    read.map_err(|cause| file::failed(format!("reading {}", program.display()), cause))?;
    match head.windows(INTERPRETED.len()).any(|window| window == INTERPRETED) {
        false => Ok(()),
        true => Err(Error::unsupported(format!(
            "{} is linked dynamically, and a plugin is alone in its root; use a static build",
            program.display()
        ))),
    }
}
