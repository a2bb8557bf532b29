//! The versions of the specification.

use std::fmt;

/// A released version of the CNI specification. They are compared as exact strings: `1.0` is not
/// `1.0.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.1.0
    V010,
    /// 0.2.0: VERSION
    V020,
    /// 0.3.0: lists, `prevResult`, results with interfaces
    V030,
    /// 0.3.1
    V031,
    /// 0.4.0: CHECK
    V040,
    /// 1.0.0: no `ips[].version`
    V100,
    /// 1.1.0: GC, STATUS
    V110,
}

impl Version {
    /// Every version, the oldest first.
    pub const ALL: [Version; 7] = [
        Version::V010,
        Version::V020,
        Version::V030,
        Version::V031,
        Version::V040,
        Version::V100,
        Version::V110,
    ];

    /// The newest.
    pub const LATEST: Version = Version::V110;

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V010 => "0.1.0",
            Version::V020 => "0.2.0",
            Version::V030 => "0.3.0",
            Version::V031 => "0.3.1",
            Version::V040 => "0.4.0",
            Version::V100 => "1.0.0",
            Version::V110 => "1.1.0",
        }
    }

    /// The version that is written exactly so; an empty string is 0.1.0, which had no such field.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Version::V010),
            _ => Self::ALL.into_iter().find(|version| version.as_str() == text),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_strings_are_versions() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(version));
        }
        assert_eq!(Version::parse(""), Some(Version::V010));
        for bad in ["1.0", "0.5.0", "v1.0.0", "1.1.0 ", "1.2.0"] {
            assert_eq!(Version::parse(bad), None, "{bad:?}");
        }
    }
}
