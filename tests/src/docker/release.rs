//! The engines that are tested, and where they come from.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Base, skipped};

/// A Docker Engine of Debian's; scripts/peers unpacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 20.10, of Debian 12, on a copy of this host.
    V20_10,
    /// 26.1, of Debian trixie, on a Debian of its own.
    V26_1,
    /// 28.5, of Debian sid, on a Debian of its own.
    V28_5,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::V20_10, Self::V26_1, Self::V28_5];

    /// How its version begins.
    pub fn version(self) -> &'static str {
        match self {
            Self::V20_10 => "20.10.",
            Self::V26_1 => "26.1.",
            Self::V28_5 => "28.5.",
        }
    }

    /// Whether it can be had; says so aloud where Debian has moved on to another version.
    pub fn is_there(self) -> bool {
        let moved = fs::read_to_string(peers().join(format!("{}.moved", self.folder())));
        if let Ok(moved) = &moved {
            skipped(&format!("Docker {}*", self.version()), moved);
        }
        moved.is_err()
    }

    pub(super) fn base(self) -> Base {
        let folder = self.root();
        match self {
            Self::V20_10 => Base { programs: Some(folder), root: None },
            Self::V26_1 | Self::V28_5 => Base { programs: None, root: Some(folder) },
        }
    }

    /// Where its programs are.
    pub(super) fn root(self) -> PathBuf {
        let folder = peers().join(self.folder());
        folder
            .canonicalize()
            .unwrap_or_else(|error| panic!("{}: {error} (make test)", folder.display()))
    }

    fn folder(self) -> &'static str {
        match self {
            Self::V20_10 => "docker-20",
            Self::V26_1 => "docker-26",
            Self::V28_5 => "docker-28",
        }
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers")
}
