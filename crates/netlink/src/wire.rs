//! Netlink messages as bytes (RFC 3549 §2.2; `linux/netlink.h`): what is sent is written into a
//! [`Batch`], what is received is read as [`Message`]s and [`Attributes`].
//!
//! Reading never fails and never panics: what is malformed ends the iteration, and every step
//! consumes at least one header, so a datagram bounds the work that it can cause.

use std::borrow::Cow;
use std::net::IpAddr;

mod read;

pub use read::{Attribute, Attributes, Message, Messages, array};

/// `NLM_F_REQUEST`; every message of a [`Batch`] has it.
pub const REQUEST: u16 = 0x1;
/// `NLM_F_MULTI`: one of several answers, up to [`DONE`].
pub const MULTI: u16 = 0x2;
/// `NLM_F_ACK`: answer even if nothing fails. [`crate::Socket::send`] sets it where it is needed.
pub const ACK: u16 = 0x4;
/// `NLM_F_DUMP_INTR`: a dump that changed while it was taken.
pub const DUMP_INTERRUPTED: u16 = 0x10;
/// `NLM_F_DUMP`: everything that there is of a kind.
pub const DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`: an existing object is replaced.
pub const REPLACE: u16 = 0x100;
/// `NLM_F_EXCL`: an existing object is an error.
pub const EXCLUSIVE: u16 = 0x200;
/// `NLM_F_CREATE`: a missing object is made.
pub const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`: behind what exists.
pub const APPEND: u16 = 0x800;
/// `NLM_F_CAPPED`, in an [`ERROR`]: the request is not repeated in full.
pub const CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`, in an [`ERROR`]: attributes follow.
pub const ACK_ATTRIBUTES: u16 = 0x200;

/// `NLMSG_ERROR`: the result of a request; zero is an acknowledgement.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
pub const DONE: u16 = 3;

/// Length of `struct nlmsghdr`.
pub const HEADER: usize = 16;
/// Length of `struct nlattr`.
pub const ATTRIBUTE: usize = 4;
/// `NLA_F_NESTED`, set in the type of every attribute that holds attributes.
pub const NESTED: u16 = 0x8000;

/// The next multiple of four: everything in a message starts at one.
pub(crate) const fn aligned(len: usize) -> usize {
    (len + 3) & !3
}

/// Messages that are sent in one system call. Each remembers what it is about, for its error.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    about: Vec<Cow<'static, str>>,
    too_long: bool,
}

impl Batch {
    /// Without any message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Without any message, with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Begins the next message, of type `kind` (`nlmsg_type`) with `flags` besides [`REQUEST`].
    /// `about` names what it does on which object, as in "adding 10.0.0.2/24 to eth0"; it begins
    /// the sentence if the kernel refuses.
    pub fn request(
        &mut self,
        kind: u16,
        flags: u16,
        about: impl Into<Cow<'static, str>>,
    ) -> Request<'_> {
        self.starts.push(self.bytes.len());
        self.about.push(about.into());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        Request { batch: self }
    }

    /// The number of messages.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The subject of message `index`.
    pub fn about(&self, index: usize) -> &str {
        self.about.get(index).map_or("asking the kernel", |about| about)
    }

    /// Whether an attribute outgrew its 16-bit length, so that the batch cannot be sent.
    pub(crate) fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// Fills in lengths and sequence numbers from `first` on; the bytes are ready to be sent.
    pub(crate) fn seal(&mut self, first: u32) -> &[u8] {
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        let spans: Vec<_> = self.starts.iter().copied().zip(ends).collect();
        for ((start, end), sequence) in spans.into_iter().zip(0u32..) {
            let length = u32::try_from(end - start).unwrap_or(u32::MAX);
            self.put(start, &length.to_ne_bytes());
            self.put(start + 8, &first.wrapping_add(sequence).to_ne_bytes());
        }
        &self.bytes
    }

    /// The index of the last message that asks for an acknowledgement; if none does, the last
    /// message is made to.
    pub(crate) fn acknowledged(&mut self) -> Option<usize> {
        let asks = |start: &usize| self.flags(*start) & ACK != 0;
        if let Some(index) = self.starts.iter().rposition(asks) {
            return Some(index);
        }
        let start = *self.starts.last()?;
        let flags = self.flags(start) | ACK;
        self.put(start + 6, &flags.to_ne_bytes());
        Some(self.starts.len() - 1)
    }

    fn flags(&self, start: usize) -> u16 {
        array(&self.bytes, start + 6).map_or(0, u16::from_ne_bytes)
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }
}

/// The message at the end of a [`Batch`], being written.
#[derive(Debug)]
pub struct Request<'a> {
    batch: &'a mut Batch,
}

impl Request<'_> {
    /// Appends a fixed header such as `struct ifinfomsg`.
    pub fn bytes(&mut self, header: &[u8]) -> &mut Self {
        self.batch.bytes.extend_from_slice(header);
        self.batch.pad();
        self
    }

    /// Appends an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(ATTRIBUTE + value.len()).unwrap_or_else(|_| {
            self.batch.too_long = true;
            u16::MAX
        });
        self.batch.bytes.extend_from_slice(&length.to_ne_bytes());
        self.batch.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes(value)
    }

    /// Appends an attribute that holds what `fill` writes.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.batch.bytes.len();
        self.attribute(kind | NESTED, &[]);
        fill(self);
        let length = self.batch.bytes.len() - start;
        match u16::try_from(length) {
            Ok(length) => self.batch.put(start, &length.to_ne_bytes()),
            Err(_) => self.batch.too_long = true,
        }
        self
    }

    /// Appends an attribute without a value.
    pub fn flag(&mut self, kind: u16) -> &mut Self {
        self.attribute(kind, &[])
    }

    /// Appends an 8-bit number.
    pub fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.attribute(kind, &[value])
    }

    /// Appends a 16-bit number in the host's byte order.
    pub fn u16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends a 32-bit number in the host's byte order.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends a 16-bit number in the network's byte order.
    pub fn be16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a 32-bit number in the network's byte order.
    pub fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a 64-bit number in the network's byte order.
    pub fn be64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a text with its terminating zero.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = Vec::with_capacity(value.len() + 1);
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// Appends an IP address: 4 or 16 bytes.
    pub fn address(&mut self, kind: u16, value: IpAddr) -> &mut Self {
        match value {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nests_and_numbers() {
        let mut batch = Batch::new();
        batch.request(7, 0, "one").u8(1, 9).nest(2, |inner| {
            inner.be16(3, 0x0102).text(4, "ab");
        });
        batch.request(8, EXCLUSIVE, "two").flag(5);
        assert_eq!(batch.acknowledged(), Some(1));
        let bytes = batch.seal(40).to_vec();
        let first: Vec<u8> = [
            &44u32.to_ne_bytes()[..],
            &7u16.to_ne_bytes(),
            &1u16.to_ne_bytes(),
            &40u32.to_ne_bytes(),
            &[0; 4],
            &[5, 0, 1, 0, 9, 0, 0, 0],
            &[20, 0, 2, 0x80],
            &[6, 0, 3, 0, 1, 2, 0, 0],
            &[7, 0, 4, 0, b'a', b'b', 0, 0],
        ]
        .concat();
        assert_eq!(bytes[..44], first);
        let read: Vec<_> = Messages::new(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[1].kind, read[1].flags, read[1].sequence), (8, 0x205, 41));
    }

    #[test]
    fn keeps_the_acknowledgement_that_was_asked_for() {
        let mut batch = Batch::new();
        batch.request(1, 0, "a");
        batch.request(2, ACK, "b");
        batch.request(3, 0, "c");
        assert_eq!(batch.acknowledged(), Some(1));
    }

    #[test]
    fn marks_what_is_too_long() {
        let mut batch = Batch::new();
        batch.request(1, 0, "a").attribute(1, &[0; 65_532]);
        assert!(batch.is_too_long());
        let mut batch = Batch::new();
        batch.request(1, 0, "a").nest(1, |inner| {
            inner.attribute(2, &[0; 60_000]).attribute(3, &[0; 6_000]);
        });
        assert!(batch.is_too_long());
    }
}
