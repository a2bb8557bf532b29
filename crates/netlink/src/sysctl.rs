//! Kernel parameters below `/proc/sys`. Those of the network are the calling thread's
//! namespace's: see [`crate::Netns::enter`].

mod parameter;

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Component, Display, Path, PathBuf};

use model::{Error, Fact, Result};

use crate::reason;
pub use parameter::Parameter;

/// Longer values are cut.
const LONGEST: u64 = 4096;

/// The value of `key`, such as `net/ipv4/ip_forward`, without white space around it.
///
/// # Errors
/// [`model::Kind::Invalid`] if `key` is not a relative path of plain names;
/// [`model::Kind::NotFound`] if there is no such parameter; [`model::Kind::Denied`].
pub fn read(key: impl AsRef<Path>) -> Result<String> {
    let (key, path) = path(key.as_ref())?;
    let mut value = String::new();
    OpenOptions::new()
        .read(true)
        .open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut value))
        .map_err(|error| {
            let words = format!("open /proc/sys/{key}: {}", reason(&error));
            failed(format!("reading kernel parameter {key}"), error).about(Fact::Whole(words))
        })?;
    value.truncate(value.trim_end().len());
    Ok(value)
}

/// Sets `key`, such as `net/ipv4/ip_forward`, to `value`.
///
/// # Errors
/// As [`read`]; [`model::Kind::Invalid`] if the kernel does not take the value.
pub fn write(key: impl AsRef<Path>, value: &str) -> Result<()> {
    let (key, path) = path(key.as_ref())?;
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| {
            let act = if error.kind() == io::ErrorKind::NotFound { "open" } else { "write" };
            let words = format!("{act} /proc/sys/{key}: {}", reason(&error));
            failed(format!("setting kernel parameter {key} to {value:?}"), error)
                .about(Fact::Whole(words))
        })
}

/// As [`write()`], unless `key` has that value already: some writes that change nothing still fight
/// for the kernel's lock, and are restarted until they get it.
///
/// # Errors
/// As [`write()`].
pub fn ensure(key: impl AsRef<Path>, value: &str) -> Result<()> {
    match read(&key) {
        Ok(there) if there == value => Ok(()),
        Ok(_) | Err(_) => write(key, value),
    }
}

fn is_name(component: Component<'_>) -> bool {
    matches!(component, Component::Normal(_))
}

/// The key for showing, and the file.
fn path(key: &Path) -> Result<(Display<'_>, PathBuf)> {
    if key.as_os_str().is_empty() || !key.components().all(is_name) {
        let what = format!("kernel parameter {key:?} is not a path below /proc/sys");
        return Err(Error::invalid(what));
    }
    Ok((key.display(), Path::new("/proc/sys").join(key)))
}

fn failed(doing: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(doing).because(error),
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
            Error::invalid(doing).because(error)
        }
        _ => Error::os(doing, error),
    }
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    #[test]
    fn stays_below_its_directory() {
        for bad in ["", "/etc/passwd", "../etc", "net/../../etc", "net/..", "./net", "a\0"] {
            assert_eq!(read(bad).unwrap_err().kind(), Kind::Invalid, "{bad:?}");
            assert_eq!(write(bad, "1").unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn reads_and_tells_what_is_missing() {
        assert!(!read("kernel/ostype").unwrap().is_empty());
        assert_eq!(read("net/ipv4/conf/no-such-if/forwarding").unwrap_err().kind(), Kind::NotFound);
        assert_eq!(read("net").unwrap_err().kind(), Kind::Invalid);
    }
}
