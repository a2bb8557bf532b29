//! A filter of what a bridge passes up to its host: packets from these subnets only. It is a program of classic BPF
//! (`cls_bpf`, tc-bpf(8)), which a flush of the packet filter leaves there.

use model::{IpNet, Result};
use rustix::io::Errno;

use super::{HEADER, KIND, OPTIONS, header, kind, link_of};
use crate::Socket;
use crate::wire::{Batch, CREATE, DUMP, Message, Request, array};

/// `TC_H_MIN_INGRESS`, which the disciplines `ingress` and `clsact` both take.
const PARENT: u32 = 0xffff_fff2;
/// A number that others do not use by chance, before those that tc(8) gives.
const PRIORITY: u32 = 83;
const HANDLE: u32 = 1;
/// `TCA_BPF_OPS_LEN`, `TCA_BPF_OPS`, `TCA_BPF_FLAGS`, and `TCA_BPF_FLAG_ACT_DIRECT`.
const OPS_LEN: u16 = 4;
const OPS: u16 = 5;
const FLAGS: u16 = 8;
const DIRECT: u32 = 1;

/// Where Linux keeps what is no byte of the packet: its protocol, and the tag of a VLAN.
const PROTOCOL: u32 = 0xffff_f000;
const VLAN_TAG: u32 = PROTOCOL + 44;
const HAS_VLAN_TAG: u32 = PROTOCOL + 48;
/// The source, from the beginning of the frame.
const SOURCE4: u32 = 14 + 12;
const SOURCE6: u32 = 14 + 8;
/// `TC_ACT_UNSPEC`: filters of others go on. `TC_ACT_SHOT`.
const PASS: u32 = u32::MAX;
const DROP: u32 = 2;

/// `struct sock_filter`.
type Instruction = (u16, u8, u8, u32);

fn load(at: u32) -> Instruction {
    (0x20, 0, 0, at)
}
fn and(mask: u32) -> Instruction {
    (0x54, 0, 0, mask)
}
/// Goes on behind as many instructions where it is the same, or is not.
fn equal(value: u32, same: u8, other: u8) -> Instruction {
    (0x15, same, other, value)
}
fn jump(over: usize) -> Instruction {
    (0x05, 0, 0, u32::try_from(over).unwrap_or(u32::MAX))
}
fn end(with: u32) -> Instruction {
    (0x06, 0, 0, with)
}

/// A program that drops packets of IP from elsewhere. Hosts without an address yet, and addresses of the link (IPv6), are
/// let pass: no answer to these leaves the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFilter(Vec<u8>);

impl SourceFilter {
    /// That of these subnets.
    pub fn of(subnets: &[IpNet]) -> Self {
        let mut subnets = subnets.to_vec();
        subnets.sort();
        subnets.dedup();
        let (mut four, mut six) = (from_four(0, 32), from_six(0, 128));
        six.extend(from_six(0xfe80 << 112, 10));
        for net in subnets {
            match net {
                IpNet::V4(net) => four.extend(from_four(net.network().to_bits(), net.prefix_len())),
                IpNet::V6(net) => six.extend(from_six(net.network().to_bits(), net.prefix_len())),
            }
        }
        four.push(end(DROP));
        six.push(end(DROP));
        // A frame of another VLAN is none of the bridge's own. One with two tags of none is read without both by the
        // kernel, behind this filter.
        let mut all = vec![
            load(HAS_VLAN_TAG),
            equal(0, 4, 0),
            load(VLAN_TAG),
            and(0xfff),
            equal(0, 1, 0),
            end(PASS),
            load(PROTOCOL),
            equal(0x0800, 0, 1),
            jump(6),
            equal(0x86dd, 0, 1),
            jump(4 + four.len()),
            equal(0x8100, 1, 0),
            equal(0x88a8, 0, 1),
            end(DROP),
            end(PASS),
        ];
        all.extend(four);
        all.extend(six);
        Self(all.into_iter().flat_map(octets).collect())
    }
}

fn octets((code, same, other, value): Instruction) -> [u8; 8] {
    let ([a, b], [c, d, e, f]) = (code.to_ne_bytes(), value.to_ne_bytes());
    [a, b, same, other, c, d, e, f]
}

fn from_four(network: u32, length: u8) -> Vec<Instruction> {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    vec![load(SOURCE4), and(mask), equal(network, 0, 1), end(PASS)]
}

fn from_six(network: u128, length: u8) -> Vec<Instruction> {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    let words = (0..4u32).map(|place| {
        let word = |of: u128| u32::try_from(of >> (96 - 32 * place) & 0xffff_ffff).unwrap_or(0);
        (SOURCE6 + 4 * place, word(network), word(mask))
    });
    let words: Vec<_> = words.filter(|(.., mask)| *mask != 0).collect();
    let mut all = Vec::new();
    for (behind, (at, value, mask)) in words.iter().enumerate().rev() {
        let left = u8::try_from(words.len() - 1 - behind).unwrap_or(0);
        let mut word = vec![load(*at), and(*mask), equal(*value, 0, 3 * left + 1)];
        word.append(&mut all);
        all = word;
    }
    all.push(end(PASS));
    all
}

impl Batch {
    /// Filters what the link with this index receives by source, behind [`Batch::filter_ingress`], instead of by another
    /// such filter; returns the message's index. ENOENT if the kernel has no such filters.
    pub fn filter_sources(&mut self, link: u32, filter: &SourceFilter) -> usize {
        let about = format!("filtering by source what link {link} receives");
        let mut request = self.request(kind::NEW_FILTER, CREATE, about);
        request.bytes(&header(link, HANDLE, PARENT, info())).text(KIND, "bpf");
        request.nest(OPTIONS, |options| write(options, filter));
        self.count() - 1
    }

    /// Takes that filter away; returns the message's index. ENOENT or EINVAL if there is none.
    pub fn unfilter_sources(&mut self, link: u32) -> usize {
        let about = format!("no longer filtering by source what link {link} receives");
        let mut request = self.request(kind::DELETE_FILTER, 0, about);
        request.bytes(&header(link, HANDLE, PARENT, info())).text(KIND, "bpf");
        self.count() - 1
    }
}

impl Socket {
    /// The filter by source of what the link with this index receives.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn source_filter(&mut self, link: u32) -> Result<Option<SourceFilter>> {
        let mut batch = Batch::new();
        let about = format!("listing the ingress filters of link {link}");
        let mut request = batch.request(kind::GET_FILTER, DUMP, about);
        request.bytes(&header(link, 0, PARENT, 0));
        // Without traffic control the kernel has no such messages (EOPNOTSUPP).
        let absent = [Errno::NODEV, Errno::NOENT, Errno::INVAL, Errno::OPNOTSUPP];
        let found = self.dump(&mut batch, &absent, |message| {
            let is_ours = link_of(message)? == link && is_ours(message);
            is_ours.then(|| read(message)).flatten()
        })?;
        Ok(found.into_iter().next())
    }
}

/// All protocols (`ETH_P_ALL`, in the network's byte order).
fn info() -> u32 {
    PRIORITY << 16 | u32::from(3u16.to_be())
}

fn write(options: &mut Request<'_>, SourceFilter(program): &SourceFilter) {
    let count = u16::try_from(program.len() / 8).unwrap_or(u16::MAX);
    options.attribute(OPS_LEN, &count.to_ne_bytes()).attribute(OPS, program).u32(FLAGS, DIRECT);
}

fn is_ours(message: &Message<'_>) -> bool {
    array(message.payload, 16).map(u32::from_ne_bytes).is_some_and(|it| it == info())
}

pub(crate) fn read(message: &Message<'_>) -> Option<SourceFilter> {
    let attributes = message.attributes(HEADER);
    if message.kind != kind::NEW_FILTER || attributes.find_kind(KIND)?.text()? != "bpf" {
        return None;
    }
    let options = attributes.find_kind(OPTIONS)?.nested();
    let is_direct = options.find_kind(FLAGS)?.u32()? & DIRECT != 0;
    let program = options.find_kind(OPS)?.value;
    is_direct.then(|| SourceFilter(program.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Messages;

    #[test]
    fn what_is_written_is_read() {
        let nets = ["10.1.0.0/16", "fd00:1::/64", "0.0.0.0/0", "::/0"];
        let filter = SourceFilter::of(&nets.map(|net| net.parse().unwrap()));
        let mut batch = Batch::new();
        batch.filter_sources(7, &filter);
        let bytes = batch.seal(1).to_vec();
        let message = Messages::new(&bytes).next().unwrap();
        assert!(is_ours(&message));
        assert_eq!(read(&message), Some(filter));
    }

    #[test]
    fn the_order_of_subnets_does_not_matter() {
        let [a, b] = ["10.1.0.0/16", "10.2.0.0/16"].map(|net| net.parse::<IpNet>().unwrap());
        assert_eq!(SourceFilter::of(&[a, b]), SourceFilter::of(&[b, a, b]));
        assert_ne!(SourceFilter::of(&[a, b]), SourceFilter::of(&[b]));
    }

    /// As tc(8) writes it: the kernel has been seen to drop by it what it should.
    #[test]
    fn the_program_is_this() {
        let program = "\
            32 0 0 4294963248,21 4 0 0,32 0 0 4294963244,84 0 0 4095,21 1 0 0,6 0 0 4294967295,\
            32 0 0 4294963200,21 0 1 2048,5 0 0 6,21 0 1 34525,5 0 0 13,21 1 0 33024,\
            21 0 1 34984,6 0 0 2,6 0 0 4294967295,32 0 0 26,84 0 0 4294967295,21 0 1 0,\
            6 0 0 4294967295,32 0 0 26,84 0 0 4294967040,21 0 1 167837696,6 0 0 4294967295,\
            6 0 0 2,32 0 0 22,84 0 0 4294967295,21 0 10 0,32 0 0 26,84 0 0 4294967295,21 0 7 0,\
            32 0 0 30,84 0 0 4294967295,21 0 4 0,32 0 0 34,84 0 0 4294967295,21 0 1 0,\
            6 0 0 4294967295,32 0 0 22,84 0 0 4290772992,21 0 1 4269801472,6 0 0 4294967295,\
            32 0 0 22,84 0 0 4294967295,21 0 4 4244701184,32 0 0 26,84 0 0 4294967295,21 0 1 0,\
            6 0 0 4294967295,6 0 0 2";
        let nets = ["10.1.0.0/24", "fd01::/64"].map(|net| net.parse().unwrap());
        let SourceFilter(bytes) = SourceFilter::of(&nets);
        let expected = program.split(',').flat_map(|row| {
            let numbers: Vec<u32> = row.trim().split(' ').map(|it| it.parse().unwrap()).collect();
            let short = |place: usize| u8::try_from(numbers[place]).unwrap();
            octets((u16::from(short(0)), short(1), short(2), numbers[3]))
        });
        assert_eq!(bytes, expected.collect::<Vec<u8>>());
    }
}
