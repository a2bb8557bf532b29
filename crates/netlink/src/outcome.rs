//! The results of a batch, message by message.

use std::fmt;
use std::io;

use model::{Error, Kind, Result};
use rustix::io::Errno;

use crate::wire::{ACK_ATTRIBUTES, Attributes, Batch, CAPPED, HEADER, Message, aligned, array};

/// `NLMSGERR_ATTR_MSG`: a sentence.
const SENTENCE: u16 = 1;
/// The kernel's errors are below this.
const MAX_ERRNO: i32 = 4096;

/// The failures of a batch's messages; the others are done.
#[derive(Debug, Default)]
#[must_use = "the kernel may have refused"]
pub struct Outcome {
    failures: Vec<Failure>,
}

impl Outcome {
    /// Every failure, in the order of the messages.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Counts `errno` as done, for every message: EEXIST of what shall be there, ENOENT or ENODEV
    /// of what shall be gone.
    pub fn except(mut self, errno: Errno) -> Self {
        self.failures.retain(|failure| failure.errno != errno);
        self
    }

    /// Counts `errno` as done, for message `index` only.
    pub fn except_at(mut self, index: usize, errno: Errno) -> Self {
        self.failures.retain(|failure| (failure.index, failure.errno) != (index, errno));
        self
    }

    /// The first failure as an error.
    ///
    /// # Errors
    /// As [`Failure::into_error`].
    pub fn into_result(self) -> Result<()> {
        match self.failures.into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(failure.into_error()),
        }
    }

    pub(crate) fn push(&mut self, failure: Failure) {
        self.failures.push(failure);
    }
}

/// Why the kernel refused one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which message of the batch, from zero.
    pub index: usize,
    /// The kernel's error.
    pub errno: Errno,
    about: String,
    sentence: Option<String>,
}

impl Failure {
    /// Reads an `NLMSG_ERROR` about message `index`; `None` if it is an acknowledgement.
    pub(crate) fn read(message: &Message<'_>, batch: &Batch, index: usize) -> Option<Self> {
        let code = array(message.payload, 0).map_or(i32::MIN, i32::from_ne_bytes);
        let known = code.checked_neg().filter(|number| (1..MAX_ERRNO).contains(number));
        (code != 0).then(|| Self {
            index,
            errno: known.map_or(Errno::BADMSG, Errno::from_raw_os_error),
            about: batch.about(index).to_owned(),
            sentence: sentence(message),
        })
    }

    /// As an error that names the object, with the kernel's own sentence where it gave one.
    ///
    /// EPERM and EACCES are [`Kind::Denied`], EEXIST and EADDRINUSE [`Kind::Conflict`], EAGAIN,
    /// EBUSY, EINTR, ENOBUFS and ENOMEM [`Kind::TryAgain`], EOPNOTSUPP [`Kind::Unsupported`],
    /// the rest [`Kind::Kernel`].
    pub fn into_error(self) -> Error {
        refused(self.to_string(), self.errno)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sentence {
            Some(sentence) => write!(f, "{}: the kernel says {sentence:?}", self.about),
            None => f.write_str(&self.about),
        }
    }
}

/// The error of a system call that was `doing` something, with the kinds of
/// [`Failure::into_error`].
pub(crate) fn refused(doing: impl Into<String>, errno: Errno) -> Error {
    Error::new(kind(errno), doing).because(io::Error::from(errno))
}

/// The kernel's reason alone, in small letters, as others print it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn kind(errno: Errno) -> Kind {
    match errno {
        Errno::PERM | Errno::ACCESS => Kind::Denied,
        Errno::EXIST | Errno::ADDRINUSE => Kind::Conflict,
        Errno::AGAIN | Errno::BUSY | Errno::INTR | Errno::NOBUFS | Errno::NOMEM => Kind::TryAgain,
        Errno::OPNOTSUPP => Kind::Unsupported,
        _ => Kind::Kernel,
    }
}

fn sentence(message: &Message<'_>) -> Option<String> {
    if message.flags & ACK_ATTRIBUTES == 0 {
        return None;
    }
    let request = usize::try_from(u32::from_ne_bytes(array(message.payload, 4)?)).ok()?;
    let repeated = if message.flags & CAPPED == 0 { aligned(request.min(1 << 24)) } else { HEADER };
    let attributes = Attributes::new(message.payload.get(4 + repeated..)?);
    let text = attributes.find_kind(SENTENCE)?.text()?;
    Some(text.chars().filter(|c| !c.is_control()).take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32, flags: u16, rest: &[u8]) -> Vec<u8> {
        let mut payload = code.to_ne_bytes().to_vec();
        payload.extend_from_slice(rest);
        let length = u32::try_from(HEADER + payload.len()).unwrap().to_ne_bytes();
        let head = [&length[..], &2u16.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
        [head, payload].concat()
    }

    fn read(bytes: &[u8]) -> Option<Failure> {
        let mut batch = Batch::new();
        batch.request(1, 0, "making eth0");
        let message = crate::wire::Messages::new(bytes).next().unwrap();
        Failure::read(&message, &batch, 0)
    }

    #[test]
    fn zero_is_an_acknowledgement() {
        assert_eq!(read(&error(0, CAPPED, &[0; 16])), None);
    }

    #[test]
    fn the_kernels_sentence_is_in_the_error() {
        let repeated = [&20u32.to_ne_bytes()[..], &[0; 16]].concat();
        let given = [&[8, 0, 1, 0][..], b"no!\0"].concat();
        let failure = read(&error(-17, ACK_ATTRIBUTES, &[repeated, given].concat())).unwrap();
        assert_eq!(failure.errno, Errno::EXIST);
        let error = failure.into_error();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().starts_with("making eth0: the kernel says \"no!\": File exists"));
    }

    #[test]
    fn lies_about_lengths_are_survived() {
        let repeated = [&u32::MAX.to_ne_bytes()[..], &[0; 12]].concat();
        let failure = read(&error(i32::MIN, ACK_ATTRIBUTES, &repeated)).unwrap();
        assert_eq!(failure.to_string(), "making eth0");
    }
}
