//! One request in a file: what a kill in the middle of writing leaves is nothing.
//!
//! All numbers are little-endian: magic (8 bytes), checksum of what follows (8), when it was found
//! lost in milliseconds since boot, 0 before that (8), the lengths of the method's name and of the
//! body (4 each), the name, the body.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use libnetwork::{LONGEST_BODY, Method};

/// Begins a slot with a request in it; its last byte is the form's version.
const MAGIC: [u8; 8] = *b"spoke-r1";
const HEAD: usize = 32;
/// Where what the checksum covers begins.
const COVERED: usize = 16;
const LONGEST_NAME: usize = 64;
/// A slot that held more gives the memory back.
const ROOMY: usize = 64 << 10;

/// A file of our own for one request at a time.
#[derive(Debug)]
pub(super) struct Slot {
    file: File,
    is_roomy: bool,
}

/// The contents of a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotContents {
    pub(super) method: Method,
    pub(super) body: Vec<u8>,
    /// When it was found lost, in milliseconds since boot; 0 if that is now.
    pub(super) lost: u64,
}

impl Slot {
    /// The slot that exists; none where it is not a file of our own.
    pub(super) fn open(directory: &OwnedFd, name: &str, owner: u32) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?;
        let is_ours = found.is_file() && found.uid() == owner && found.nlink() == 1;
        Ok(is_ours.then_some(Self { file, is_roomy: true }))
    }

    /// A new one; none where something has the name.
    pub(super) fn create(directory: &OwnedFd, name: &str) -> io::Result<Option<Self>> {
        let create = OFlags::CREATE | OFlags::EXCL;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | create;
        match openat(directory, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => Ok(Some(Self { file: file.into(), is_roomy: false })),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Fills it, with one system call.
    pub(super) fn write(&mut self, method: Method, body: &[u8], lost: u64) -> io::Result<()> {
        let name = method.name().as_bytes();
        let mut bytes = Vec::with_capacity(HEAD + name.len() + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&lost.to_le_bytes());
        for length in [name.len(), body.len()] {
            let length = u32::try_from(length).map_err(|_| ErrorKind::FileTooLarge)?;
            bytes.extend_from_slice(&length.to_le_bytes());
        }
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(body);
        let sum = checksum(&bytes[COVERED..]).to_le_bytes();
        bytes[MAGIC.len()..COVERED].copy_from_slice(&sum);
        self.is_roomy |= bytes.len() > ROOMY;
        self.file.write_all_at(&bytes, 0)
    }

    /// The contents; `None` where they are empty, damaged or of another version.
    pub(super) fn read(&self) -> io::Result<Option<SlotContents>> {
        let mut head = [0; HEAD];
        if !self.fill(&mut head, 0)? || head[..MAGIC.len()] != MAGIC {
            return Ok(None);
        }
        let (name, body) = (number(&head[24..28]), number(&head[28..]));
        let (Ok(name), Ok(body)) = (usize::try_from(name), usize::try_from(body)) else {
            return Ok(None);
        };
        if name > LONGEST_NAME || body > LONGEST_BODY {
            return Ok(None);
        }
        let mut bytes = head[COVERED..].to_vec();
        bytes.resize(HEAD - COVERED + name + body, 0);
        if !self.fill(&mut bytes[HEAD - COVERED..], HEAD as u64)?
            || checksum(&bytes) != number(&head[MAGIC.len()..COVERED])
        {
            return Ok(None);
        }
        let body = bytes.split_off(HEAD - COVERED + name);
        let name = &bytes[HEAD - COVERED..];
        let method = Method::ALL.into_iter().find(|method| method.name().as_bytes() == name);
        Ok(method.map(|method| SlotContents { method, body, lost: number(&head[COVERED..24]) }))
    }

    /// Empties it.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if self.is_roomy {
            self.is_roomy = false;
            return self.file.set_len(0);
        }
        self.file.write_all_at(&[0; MAGIC.len()], 0)
    }

    /// `false` where the file ends before.
    fn fill(&self, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
        match self.file.read_exact_at(bytes, offset) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// FNV-1a, 64 bits (draft-eastlake-fnv): against damage, not against an attacker, who would need
/// Spoke's own directory.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use rustix::fs::open;
    use tempfile::TempDir;

    use super::*;

    fn place() -> (TempDir, OwnedFd, u32) {
        let place = TempDir::new().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(place.path(), flags, Mode::empty()).unwrap();
        let owner = fs::metadata(place.path()).unwrap().uid();
        (place, directory, owner)
    }

    fn read(directory: &OwnedFd, owner: u32) -> Option<SlotContents> {
        Slot::open(directory, "0", owner).unwrap().unwrap().read().unwrap()
    }

    #[test]
    fn holds_one_request_until_it_is_cleared() {
        let (_place, directory, owner) = place();
        let mut slot = Slot::create(&directory, "0").unwrap().unwrap();
        assert!(Slot::create(&directory, "0").unwrap().is_none());
        assert_eq!(read(&directory, owner), None);
        for (body, lost) in [(&b"{\"a\":1}"[..], 0), (b"{}", 7), (&[b' '; LONGEST_BODY], 9)] {
            slot.write(Method::Join, body, lost).unwrap();
            let kept = SlotContents { method: Method::Join, body: body.to_vec(), lost };
            assert_eq!(read(&directory, owner), Some(kept));
            slot.clear().unwrap();
            assert_eq!(read(&directory, owner), None);
        }
    }

    #[test]
    fn follows_no_link_and_trusts_no_other_user() {
        let (place, directory, owner) = place();
        let mut slot = Slot::create(&directory, "0").unwrap().unwrap();
        slot.write(Method::Leave, b"{}", 0).unwrap();
        assert!(Slot::open(&directory, "0", owner + 1).unwrap().is_none());
        std::os::unix::fs::symlink("0", place.path().join("1")).unwrap();
        fs::create_dir(place.path().join("2")).unwrap();
        fs::hard_link(place.path().join("0"), place.path().join("3")).unwrap();
        for name in ["0", "1", "2", "3"] {
            assert!(Slot::open(&directory, name, owner).unwrap().is_none(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_nothing(at in 0_usize..80, flip in 1_u8.., length in 0_usize..80) {
            let (place, directory, owner) = place();
            let mut slot = Slot::create(&directory, "0").unwrap().unwrap();
            slot.write(Method::Leave, &[b' '; 40], 0).unwrap();
            let path = place.path().join("0");
            let whole = fs::read(&path).unwrap();
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            fs::write(&path, &damaged).unwrap();
            prop_assert_eq!(read(&directory, owner), None);
            fs::write(&path, &whole[..length]).unwrap();
            prop_assert_eq!(read(&directory, owner), None);
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (place, directory, owner) = place();
            fs::write(place.path().join("0"), [&MAGIC[..], &bytes].concat()).unwrap();
            prop_assert_eq!(read(&directory, owner), None);
        }
    }
}
