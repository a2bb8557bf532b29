//! The plugins whose names Spoke took (`spoke cni install --takeover`): where they are kept, and how a call is left to
//! one of them.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::{Error, Result};

/// Where replaced plugins are kept: in the same file system, out of the way of runtimes.
pub const FOLDER: &str = ".spoke-replaced";

/// Where what the plugin `name` of a directory replaced is kept.
pub fn kept(directory: &Path, name: &str) -> PathBuf {
    directory.join(FOLDER).join(name)
}

/// Becomes the program that the plugin `name` replaced, with the arguments, the environment and the standard input of
/// this process, of which nothing may have been read. Returns where there is none.
///
/// # Errors
/// Where it cannot be executed.
pub fn execute(name: &str) -> Result<()> {
    let own = std::env::current_exe()
        .map_err(|cause| Error::os("finding the directory of this plugin", cause))?;
    let Some(program) = program(&own, name) else { return Ok(()) };
    let mut args = std::env::args_os();
    // A program of many names goes by the one under which it is called.
    let called = args.next().unwrap_or_else(|| OsString::from(name));
    let cause = Command::new(&program).arg0(called).args(args).exec();
    let doing =
        format!("executing {}, which the plugin {name} of Spoke replaced", program.display());
    Err(Error::os(doing, cause))
}

/// The program that the plugin `name` replaced, unless it leads back to `own`.
fn program(own: &Path, name: &str) -> Option<PathBuf> {
    let directory = own.parent()?;
    let kept = kept(directory, name);
    // A link was relative to the directory of plugins.
    let program = fs::read_link(&kept).map_or(kept, |target| directory.join(target));
    match fs::metadata(&program) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => None,
        // Executing it says why.
        Err(_) => Some(program),
        Ok(there) => {
            let is_own = fs::metadata(own)
                .is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()));
            (!is_own).then_some(program)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_replaced_is_found() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("spoke");
        fs::create_dir(root.path().join(FOLDER)).unwrap();
        fs::write(&own, "ours").unwrap();
        fs::write(root.path().join("many"), "theirs").unwrap();
        fs::write(kept(root.path(), "bridge"), "theirs").unwrap();
        for (name, target) in [("ptp", "many"), ("tap", "spoke"), ("vlan", "gone")] {
            symlink(target, kept(root.path(), name)).unwrap();
        }
        symlink("spoke", root.path().join("loopback")).unwrap();
        symlink("loopback", kept(root.path(), "loopback")).unwrap();

        assert_eq!(program(&own, "bridge"), Some(kept(root.path(), "bridge")));
        assert_eq!(program(&own, "ptp"), Some(root.path().join("many")));
        for none in ["tap", "vlan", "loopback", "tuning"] {
            assert_eq!(program(&own, none), None, "{none}");
        }
    }
}
