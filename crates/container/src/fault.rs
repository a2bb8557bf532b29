//! Failures in a forked process, and how they reach its starter.

use std::fmt::Display;
use std::io;

use model::{Error, Kind};
use rustix::io::Errno;

/// The kind of error for the starter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The kernel refused.
    System,
    /// The request is not possible.
    Request,
    /// There is no such program.
    Program,
    /// There is no overlayfs here.
    Overlay,
}

/// A failure that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    errno: i32,
    what: String,
}

impl Fault {
    pub(crate) fn new(class: Class, what: impl Display, errno: Errno) -> Self {
        Self { class, errno: errno.raw_os_error(), what: what.to_string() }
    }

    /// The kernel's number.
    pub(crate) fn errno(&self) -> Errno {
        Errno::from_raw_os_error(self.errno)
    }

    /// As bytes: the class, the number, the sentence.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let class = match self.class {
            Class::System => 0,
            Class::Request => 1,
            Class::Program => 2,
            Class::Overlay => 3,
        };
        let mut bytes = vec![class];
        bytes.extend(self.errno.to_ne_bytes());
        bytes.extend(self.what.as_bytes());
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (class, rest) = bytes.split_first()?;
        let (errno, what) = rest.split_first_chunk()?;
        let class = match class {
            0 => Class::System,
            1 => Class::Request,
            2 => Class::Program,
            3 => Class::Overlay,
            _ => return None,
        };
        let what = String::from_utf8_lossy(what).into_owned();
        Some(Self { class, errno: i32::from_ne_bytes(*errno), what })
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let cause = io::Error::from_raw_os_error(fault.errno);
        match fault.class {
            Class::Program => Self::new(Kind::NotFound, fault.what).because(cause),
            Class::Request => Self::invalid(fault.what).because(cause),
            Class::System | Class::Overlay => Self::os(fault.what, cause),
        }
    }
}

/// Says what was being done.
pub(crate) trait Doing<T> {
    /// The kernel's refusal to do `what`.
    fn doing(self, what: impl Display) -> Result<T, Fault>;
    /// `what` was asked for and cannot be.
    fn wanted(self, what: impl Display) -> Result<T, Fault>;
}

impl<T> Doing<T> for Result<T, Errno> {
    fn doing(self, what: impl Display) -> Result<T, Fault> {
        self.map_err(|errno| Fault::new(Class::System, what, errno))
    }

    fn wanted(self, what: impl Display) -> Result<T, Fault> {
        self.map_err(|errno| {
            let class = match errno {
                Errno::NOENT
                | Errno::EXIST
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::LOOP
                | Errno::INVAL => Class::Request,
                _ => Class::System,
            };
            Fault::new(class, what, errno)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_arrives_as_it_was_sent() {
        for class in [Class::System, Class::Request, Class::Program, Class::Overlay] {
            let fault = Fault::new(class, "mounting /x", Errno::PERM);
            assert_eq!(Fault::of_bytes(&fault.to_bytes()), Some(fault));
        }
        assert_eq!(Fault::of_bytes(&[9, 0, 0, 0, 0]), None);
        assert_eq!(Fault::of_bytes(&[0, 1]), None);
    }
}
