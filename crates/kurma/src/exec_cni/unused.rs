//! Namespaces that plugins still see although their runtime has not ended the attachment: it
//! crashed, or the host did.

use std::path::Path;
use std::time::Duration;

use model::Result;

use super::PREFIX;
use super::mark::Mark;
use crate::Directories;
use crate::users::{Used, Users};
use crate::volume::Volume;

/// The kernel's directory of processes.
const PROC: &str = "/proc";

/// A namespace that was shown more recently may be about to be used.
const YOUNG: Duration = Duration::from_secs(60);

/// A namespace without a known user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The name in the volume.
    pub name: String,
    /// Whether it is a namespace still, rather than the file that one was mounted on.
    pub is_mounted: bool,
    /// The remedy.
    pub fate: Fate,
}

/// The remedy for a namespace without a known user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It provably has no user.
    Clear,
    /// So it is, but it was shown less than a minute ago.
    Wait,
    /// Some processes of the host cannot be inspected.
    Keep,
}

/// The namespaces without a known user: no process is in one or has it open, and it has no mount
/// but Spoke's. Takes a while where there are processes to inspect.
///
/// # Errors
/// Where the volume or the processes cannot be listed.
pub fn unused(directories: &Directories) -> Result<Vec<Unused>> {
    let volume = Volume::new(&directories.netns);
    let mut shown = volume.names()?;
    shown.retain(|name| is_shown(name));
    if shown.is_empty() {
        return Ok(Vec::new());
    }
    let users = Users::gather(Path::new(PROC))?;
    Ok(shown.into_iter().filter_map(|name| judge(&volume, name, &users)).collect())
}

/// Hides the namespaces in `seen` that still have no user; returns those that were hidden. Young
/// ones only on request.
///
/// # Errors
/// As [`unused`]; the kernel's refusal, after everything else was tried.
pub fn clear(directories: &Directories, seen: &[Unused], with_young: bool) -> Result<Vec<Unused>> {
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let volume = Volume::new(&directories.netns);
    // No namespace is shown meanwhile.
    let _lock = volume.lock()?;
    let goes = |unused: &Unused| match unused.fate {
        Fate::Clear => true,
        Fate::Wait => with_young,
        Fate::Keep => false,
    };
    let is_seen = |unused: &Unused| seen.iter().any(|before| before.name == unused.name);
    let (mut hidden, mut done) = (Vec::new(), Ok(()));
    for unused in unused(directories)?.into_iter().filter(|unused| goes(unused) && is_seen(unused))
    {
        match free(directories, &volume, &unused.name) {
            Ok(()) => hidden.push(unused),
            Err(error) => done = done.and(Err(error)),
        }
    }
    done.map(|()| hidden)
}

/// Hides it; from now on its DEL is waited for.
fn free(directories: &Directories, volume: &Volume<'_>, name: &str) -> Result<()> {
    Mark::new(directories, name).refresh()?;
    volume.hide(name)
}

/// `None` where it is in use.
fn judge(volume: &Volume<'_>, name: String, users: &Users) -> Option<Unused> {
    let inode = volume.inode(&name);
    let used = match inode {
        Some(inode) => users.of(inode, is_shown),
        // The removal of the file takes the namespace from processes that have mounted it
        // elsewhere.
        None => users.of_mounts(&name),
    };
    let fate = match (used, volume.age(&name)?) {
        (Used::Yes, _) => return None,
        (Used::Unknown, _) => Fate::Keep,
        (Used::No, age) if age < YOUNG => Fate::Wait,
        (Used::No, _) => Fate::Clear,
    };
    Some(Unused { name, is_mounted: inode.is_some(), fate })
}

/// Whether [`super::Shown`] makes such names.
pub(super) fn is_shown(name: &str) -> bool {
    let digest = name.strip_prefix(PREFIX).unwrap_or_default();
    digest.len() == 24 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;
    use crate::exec_cni::mark::{OVER, forget};

    #[test]
    fn a_mark_is_kept_for_a_day_after_its_namespace_was_freed() {
        let base = tempfile::tempdir().unwrap();
        let [runtime, netns] = ["runtime", "netns"].map(|name| base.path().join(name));
        let directories = Directories { runtime, netns };
        fs::create_dir_all(directories.runtime.join("called")).unwrap();
        fs::create_dir_all(&directories.netns).unwrap();
        let name = format!("{PREFIX}{}", "a".repeat(24));
        let (volume, file) = (Volume::new(&directories.netns), directories.netns.join(&name));
        File::create(&file).unwrap();
        free(&directories, &volume, &name).unwrap();
        let mark = directories.runtime.join("called").join(&name);
        assert!(!mark.exists(), "no plugin was called for it");
        Mark::new(&directories, &name).set().unwrap();
        let age = || {
            let long_ago = SystemTime::now() - 2 * OVER;
            File::options().append(true).open(&mark).unwrap().set_modified(long_ago).unwrap();
        };
        age();
        File::create(&file).unwrap();
        free(&directories, &volume, &name).unwrap();
        assert!(!file.exists());
        assert_eq!(forget(&directories).unwrap(), Vec::<String>::new());
        age();
        assert_eq!(forget(&directories).unwrap(), [name]);
        assert!(!mark.exists());
    }
}
