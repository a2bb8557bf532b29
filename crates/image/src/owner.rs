//! The user and group as which an app runs.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::{Error, Result};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::{App, Image};

/// Longer files of users and groups are refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// The numbers of a user and its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// More groups.
    pub groups: Vec<u32>,
}

impl Image {
    /// The user of `app`: names are looked up in the image's own `/etc/passwd` and `/etc/group`, a
    /// path stands for the owner of that file (App Container specification 0.8, `app.user`).
    /// Without a group, it is the user's, or root's.
    ///
    /// # Errors
    /// The image has no such user, group or file.
    pub fn owner(&self, app: &App) -> Result<Owner> {
        let mut owner = Owner { groups: app.supplementary_groups.clone(), ..Owner::default() };
        let mut own_group = 0;
        match Named::read(&app.user) {
            Named::Unset => {}
            Named::File(path) => owner.uid = self.metadata(path)?.uid(),
            Named::Number(uid) => {
                owner.uid = uid;
                let known = |fields: &[&str]| fields.get(2) == Some(&app.user.as_str());
                own_group = self.line("etc/passwd", known)?.map_or(0, |(_, gid)| gid);
            }
            Named::Name(name) => {
                let known = |fields: &[&str]| fields.first() == Some(&name);
                let missing = || unknown("user", name, "/etc/passwd");
                (owner.uid, own_group) = self.line("etc/passwd", known)?.ok_or_else(missing)?;
            }
        }
        owner.gid = match Named::read(&app.group) {
            Named::Unset => own_group,
            Named::File(path) => self.metadata(path)?.gid(),
            Named::Number(gid) => gid,
            Named::Name(name) => {
                let known = |fields: &[&str]| fields.first() == Some(&name);
                let missing = || unknown("group", name, "/etc/group");
                self.line("etc/group", known)?.ok_or_else(missing)?.0
            }
        };
        Ok(owner)
    }

    /// The third and, where it is a number, the fourth field of the first line that is `wanted`.
    fn line(&self, path: &str, wanted: impl Fn(&[&str]) -> bool) -> Result<Option<(u32, u32)>> {
        let Some(file) = self.open(Path::new(path)) else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(|error| Error::os(format!("reading /{path} of the image"), error))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(|line| line.trim_end().split(':').collect::<Vec<_>>());
        let mut found = lines.filter(|fields| wanted(fields)).filter_map(|fields| {
            let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
            Some((number(2)?, number(3).unwrap_or(0)))
        });
        Ok(found.next())
    }

    fn metadata(&self, path: &str) -> Result<std::fs::Metadata> {
        let file = self.open(Path::new(path.trim_start_matches('/')));
        let file = file.ok_or_else(|| Error::invalid(format!("the image has no file {path}")))?;
        file.metadata().map_err(|error| Error::os(format!("looking at {path} of the image"), error))
    }

    /// The file in the highest layer that has it; links lead only into that layer.
    fn open(&self, path: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.layers.iter().rev().find_map(|layer| {
            let base = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let layer = rustix::fs::open(layer, base, Mode::empty()).ok()?;
            let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            let file: OwnedFd =
                rustix::fs::openat2(&layer, path, flags, Mode::empty(), within).ok()?;
            let file = File::from(file);
            file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
        })
    }
}

/// The forms of a user's name.
enum Named<'a> {
    Unset,
    Number(u32),
    Name(&'a str),
    File(&'a str),
}

impl<'a> Named<'a> {
    fn read(text: &'a str) -> Self {
        match text.parse() {
            Ok(number) => Self::Number(number),
            Err(_) if text.is_empty() => Self::Unset,
            Err(_) if text.starts_with('/') => Self::File(text),
            Err(_) => Self::Name(text),
        }
    }
}

fn unknown(what: &str, name: &str, path: &str) -> Error {
    Error::invalid(format!("the image's {path} knows no {what} {name:?}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::{Algorithm, Digest, ImageId};

    fn owner(image: &Image, user: &str, group: &str) -> Result<Owner> {
        let app = App { user: user.to_owned(), group: group.to_owned(), ..App::default() };
        image.owner(&app)
    }

    #[test]
    fn names_numbers_and_files_are_known() {
        let directory = tempfile::TempDir::new().unwrap();
        fs::create_dir(directory.path().join("etc")).unwrap();
        let write = |path: &str, text: &str| fs::write(directory.path().join(path), text).unwrap();
        write("etc/passwd", "root:x:0:0::/:\nbad\nu:x:7:8::/:\n");
        write("etc/group", "g:x:9:\n");
        std::os::unix::fs::symlink("../../../../etc/shadow", directory.path().join("l")).unwrap();
        let image = Image {
            id: ImageId::new(Digest::of(Algorithm::Sha256, b"")),
            name: "a".to_owned(),
            labels: BTreeMap::new(),
            app: None,
            layers: vec![directory.path().to_owned()],
        };
        let file = fs::metadata(directory.path().join("etc/group")).unwrap();
        for (user, group, uid, gid) in [
            ("", "", 0, 0),
            ("u", "", 7, 8),
            ("7", "", 7, 8),
            ("70", "", 70, 0),
            ("u", "g", 7, 9),
            ("u", "5", 7, 5),
            ("/etc/group", "/etc/group", file.uid(), file.gid()),
        ] {
            let owner = owner(&image, user, group).unwrap();
            assert_eq!((owner.uid, owner.gid), (uid, gid), "{user:?} {group:?}");
        }
        for (user, group) in [("x", ""), ("u", "x"), ("/l", ""), ("/no", ""), ("bad", "")] {
            assert!(owner(&image, user, group).is_err(), "{user:?} {group:?}");
        }
    }
}
