//! Traffic control: what limits how fast a link sends (tc(8), `linux/pkt_sched.h`).
//!
//! A link limits only what it sends. What it receives is redirected to an intermediate device
//! (`ifb`), which sends it on.

mod sources;

use model::{IfName, Mac, Result};
use rustix::io::Errno;

pub use sources::SourceFilter;
pub(crate) use sources::read as read_sources;

use crate::Socket;
use crate::link::{self, iff, ifla};
use crate::wire::{Attributes, Batch, CREATE, DUMP, EXCLUSIVE, Message, REPLACE, Request, array};

mod kind {
    pub(super) const NEW_QDISC: u16 = 36;
    pub(super) const DELETE_QDISC: u16 = 37;
    pub(super) const GET_QDISC: u16 = 38;
    pub(super) const NEW_FILTER: u16 = 44;
    pub(super) const DELETE_FILTER: u16 = 45;
    pub(super) const GET_FILTER: u16 = 46;
}

/// Length of `struct tcmsg`.
const HEADER: usize = 20;

/// `TCA_KIND`, `TCA_OPTIONS`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;

/// `TCA_TBF_PARMS`, `TCA_TBF_RATE64`.
const BUCKET: u16 = 1;
const RATE64: u16 = 4;
/// Length of `struct tc_tbf_qopt`.
const BUCKET_LENGTH: usize = 36;
/// Where `rate.rate`, `limit` and `buffer` are in it.
const BUCKET_FIELDS: [usize; 3] = [8, 24, 28];

/// `TC_H_ROOT`, `TC_H_INGRESS`.
const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
/// The handles that the reference plugin uses: `1:` and `ffff:`.
const BUCKET_HANDLE: u32 = 0x1_0000;
const INGRESS_HANDLE: u32 = 0xffff_0000;

/// A token bucket (tc-tbf(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// In bytes per second.
    pub rate: u64,
    /// How long its tokens last, in ticks of 64 ns (`psched`).
    pub buffer: u32,
    /// How much waits at most, in bytes.
    pub limit: u32,
}

/// The queueing discipline of a link, as far as it is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// It sends as fast as the bucket lets it.
    Bucket(Bucket),
    /// Received packets pass filters first.
    Ingress,
    /// Something else.
    Other,
}

/// A device that sends on what was redirected to it.
#[derive(Clone, Copy, Debug)]
pub struct NewIfb<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// Its address.
    pub mac: Mac,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The length of its transmit queue in packets.
    pub tx_queue: u32,
    /// Its group.
    pub group: u32,
}

impl Batch {
    /// Makes an intermediate device, up; returns the message's index. EEXIST if there is a link of
    /// its name, EOPNOTSUPP if the kernel knows none.
    pub fn new_ifb(&mut self, ifb: &NewIfb<'_>) -> usize {
        let about = format!("making intermediate device {}", ifb.name);
        let mut request = self.request(link::NEW, CREATE | EXCLUSIVE, about);
        request.bytes(&link::info(0, iff::UP, iff::UP)).text(ifla::IFNAME, ifb.name.as_str());
        request.attribute(ifla::ADDRESS, &ifb.mac.octets()).u32(ifla::MTU, ifb.mtu);
        request.u32(ifla::TXQLEN, ifb.tx_queue).u32(ifla::GROUP, ifb.group);
        request.nest(ifla::LINKINFO, |info| {
            info.text(ifla::INFO_KIND, "ifb");
        });
        self.count() - 1
    }

    /// Limits what the link with this index sends, instead of what it did with it before; returns
    /// the message's index.
    pub fn limit(&mut self, link: u32, bucket: &Bucket) -> usize {
        let about = format!("limiting link {link} to {} bytes a second", bucket.rate);
        let mut request = self.request(kind::NEW_QDISC, CREATE | REPLACE, about);
        request.bytes(&header(link, BUCKET_HANDLE, ROOT, 0)).text(KIND, "tbf");
        request.nest(OPTIONS, |options| write_bucket(options, bucket));
        self.count() - 1
    }

    /// Lets what the link with this index receives pass filters; returns the message's index.
    /// EEXIST if it does already.
    pub fn filter_ingress(&mut self, link: u32) -> usize {
        let about = format!("filtering what link {link} receives");
        let mut request = self.request(kind::NEW_QDISC, CREATE | EXCLUSIVE, about);
        request.bytes(&header(link, INGRESS_HANDLE, INGRESS, 0)).text(KIND, "ingress");
        self.count() - 1
    }

    /// Redirects all that the link with this index receives to the link `to`, behind
    /// [`Batch::filter_ingress`]; returns the message's index.
    pub fn redirect_ingress(&mut self, link: u32, to: u32) -> usize {
        let about = format!("redirecting what link {link} receives to link {to}");
        let mut request = self.request(kind::NEW_FILTER, CREATE | EXCLUSIVE, about);
        request.bytes(&header(link, 0, INGRESS_HANDLE, filter_info())).text(KIND, "u32");
        request.nest(OPTIONS, |options| write_redirect(options, to));
        self.count() - 1
    }

    /// Lets the link with this index send as it did before [`Batch::limit`]; returns the message's
    /// index. ENOENT or EINVAL if it is not limited.
    pub fn unlimit(&mut self, link: u32) -> usize {
        let about = format!("lifting the limit of link {link}");
        let mut request = self.request(kind::DELETE_QDISC, 0, about);
        request.bytes(&header(link, BUCKET_HANDLE, ROOT, 0));
        self.count() - 1
    }

    /// Takes the filters away of what the link with this index receives; returns the message's
    /// index. ENOENT or EINVAL if there are none.
    pub fn unfilter_ingress(&mut self, link: u32) -> usize {
        let about = format!("no longer filtering what link {link} receives");
        let mut request = self.request(kind::DELETE_QDISC, 0, about);
        request.bytes(&header(link, INGRESS_HANDLE, INGRESS, 0));
        self.count() - 1
    }
}

impl Socket {
    /// The disciplines of the link with this index; empty if there is no such link.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn disciplines(&mut self, link: u32) -> Result<Vec<Discipline>> {
        let mut batch = Batch::new();
        let about = format!("listing the queueing disciplines of link {link}");
        batch.request(kind::GET_QDISC, DUMP, about).bytes(&header(link, 0, 0, 0));
        let ours = |message: &Message<'_>| {
            (link_of(message)? == link).then(|| read_discipline(message)).flatten()
        };
        self.dump(&mut batch, &[Errno::NODEV], ours)
    }

    /// Where what the link with this index receives is redirected to, by any of its filters.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn redirections(&mut self, link: u32) -> Result<Vec<u32>> {
        let mut batch = Batch::new();
        let about = format!("listing the ingress filters of link {link}");
        let mut request = batch.request(kind::GET_FILTER, DUMP, about);
        request.bytes(&header(link, 0, INGRESS_HANDLE, 0));
        let absent = [Errno::NODEV, Errno::NOENT, Errno::INVAL];
        self.dump(&mut batch, &absent, |message| {
            (link_of(message)? == link).then(|| read_redirection(message)).flatten()
        })
    }
}

/// `struct tcmsg`.
fn header(link: u32, handle: u32, parent: u32, info: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    for (place, value) in bytes.chunks_exact_mut(4).skip(1).zip([link, handle, parent, info]) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// Priority 1, of all protocols (`ETH_P_ALL`, in the network's byte order).
fn filter_info() -> u32 {
    1 << 16 | u32::from(3u16.to_be())
}

fn write_bucket(options: &mut Request<'_>, bucket: &Bucket) {
    let narrow = u32::try_from(bucket.rate).unwrap_or(u32::MAX);
    let mut bytes = [0; BUCKET_LENGTH];
    for (at, value) in BUCKET_FIELDS.into_iter().zip([narrow, bucket.limit, bucket.buffer]) {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    options.attribute(BUCKET, &bytes);
    if u64::from(narrow) != bucket.rate {
        options.attribute(RATE64, &bucket.rate.to_ne_bytes());
    }
}

/// A filter that matches everything, with `mirred` as its only action.
fn write_redirect(options: &mut Request<'_>, to: u32) {
    // `TCA_U32_CLASSID`, `TCA_U32_SEL` (terminal, with one key of zeroes), `TCA_U32_ACT`.
    options.u32(1, 0x1_0001);
    let mut selector = [0; 32];
    selector[..3].copy_from_slice(&[1, 0, 1]);
    options.attribute(5, &selector);
    options.nest(7, |actions| {
        actions.nest(1, |action| {
            action.text(KIND, "mirred").nest(OPTIONS, |mirred| {
                // `struct tc_mirred`: `TC_ACT_STOLEN`, `TCA_EGRESS_REDIR`, the link.
                let mut bytes = [0; 28];
                for (at, value) in [(8, 4), (20, 1), (24, to)] {
                    bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
                }
                mirred.attribute(2, &bytes);
            });
        });
    });
}

fn link_of(message: &Message<'_>) -> Option<u32> {
    array(message.payload, 4).map(u32::from_ne_bytes)
}

pub(crate) fn read_discipline(message: &Message<'_>) -> Option<Discipline> {
    if message.kind != kind::NEW_QDISC {
        return None;
    }
    let attributes = message.attributes(HEADER);
    match attributes.find_kind(KIND)?.text()? {
        "ingress" | "clsact" => Some(Discipline::Ingress),
        "tbf" => read_bucket(&attributes.find_kind(OPTIONS)?.nested()).map(Discipline::Bucket),
        _ => Some(Discipline::Other),
    }
}

fn read_bucket(options: &Attributes<'_>) -> Option<Bucket> {
    let bytes = options.find_kind(BUCKET)?.value;
    let field = |at| array(bytes, at).map(u32::from_ne_bytes);
    let [rate, limit, buffer] = BUCKET_FIELDS.map(field);
    let wide = options.find_kind(RATE64).and_then(|rate| array(rate.value, 0));
    let rate = wide.map_or(u64::from(rate?), u64::from_ne_bytes);
    Some(Bucket { rate, buffer: buffer?, limit: limit? })
}

pub(crate) fn read_redirection(message: &Message<'_>) -> Option<u32> {
    if message.kind != kind::NEW_FILTER {
        return None;
    }
    let options = message.attributes(HEADER).find_kind(OPTIONS)?.nested();
    let mut actions = options.find_kind(7)?.nested();
    actions.find_map(|action| {
        let action = action.nested();
        if action.find_kind(KIND)?.text()? != "mirred" {
            return None;
        }
        let parameters = action.find_kind(OPTIONS)?.nested().find_kind(2)?;
        array(parameters.value, 24).map(u32::from_ne_bytes)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    fn sent(batch: &mut Batch) -> Vec<u8> {
        batch.seal(1).to_vec()
    }

    #[test]
    fn a_bucket_is_written_and_read() {
        for rate in [125_000, 5_000_000_000] {
            let bucket = Bucket { rate, buffer: 15_625, limit: 4125 };
            let mut batch = Batch::new();
            batch.limit(7, &bucket);
            let bytes = sent(&mut batch);
            let message = Messages::new(&bytes).next().unwrap();
            assert_eq!(link_of(&message), Some(7));
            assert_eq!(read_discipline(&message), Some(Discipline::Bucket(bucket)));
        }
    }

    #[test]
    fn a_redirection_is_written_and_read() {
        let mut batch = Batch::new();
        batch.redirect_ingress(7, 9);
        let bytes = sent(&mut batch);
        assert_eq!(read_redirection(&Messages::new(&bytes).next().unwrap()), Some(9));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(
            kind in prop_oneof![Just(kind::NEW_QDISC), Just(kind::NEW_FILTER)],
            payload in proptest::collection::vec(any::<u8>(), 0..256),
        ) {
            let message = Message { kind, flags: 0, sequence: 0, payload: &payload };
            let _ = (read_discipline(&message), read_redirection(&message), read_sources(&message));
        }
    }
}
