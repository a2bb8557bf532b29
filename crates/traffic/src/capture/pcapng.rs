//! The file that Wireshark and tcpdump read (draft-ietf-opsawg-pcapng).

use std::time::Duration;

use super::packet::Form;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// `LINKTYPE_ETHERNET`, `LINKTYPE_RAW`.
const ETHERNET: u16 = 1;
const RAW: u16 = 101;

const COMMENT: u16 = 1;
/// `if_description`, which Wireshark shows beside the name.
const DESCRIPTION: u16 = 3;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;
/// A text is not longer, in bytes.
const LONGEST: usize = 1024;

/// An interface whose packets the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name in the container.
    pub name: String,
    /// What it is: the container, its network and runtime.
    pub comment: String,
    /// How its packets begin.
    pub form: Form,
    /// How many bytes of a packet are kept.
    pub snap: u32,
}

/// A packet to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of its interface, in the order of the description blocks.
    pub interface: u32,
    /// When it was seen, since 1970.
    pub at: Duration,
    /// How long it was.
    pub length: usize,
    /// Whether the container sent it.
    pub is_outgoing: bool,
    /// Its bytes, as far as they are kept.
    pub bytes: &'a [u8],
}

/// The beginning of the file, and the descriptions of its interfaces.
pub fn header(application: &str, interfaces: &[Interface]) -> Vec<u8> {
    let mut file = block(SECTION, |body| {
        number(body, 0x1a2b_3c4d);
        body.extend(1u16.to_ne_bytes());
        body.extend(0u16.to_ne_bytes());
        // The length of the section is not known.
        body.extend(u64::MAX.to_ne_bytes());
        option(body, USER_APPLICATION, text(application));
        end(body);
    });
    for interface in interfaces {
        file.extend(describe(interface));
    }
    file
}

fn describe(interface: &Interface) -> Vec<u8> {
    let kind = match interface.form {
        Form::Ethernet => ETHERNET,
        Form::Network => RAW,
    };
    block(INTERFACE, |body| {
        body.extend(kind.to_ne_bytes());
        body.extend(0u16.to_ne_bytes());
        number(body, interface.snap);
        option(body, INTERFACE_NAME, text(&interface.name));
        option(body, DESCRIPTION, text(&interface.comment));
        option(body, COMMENT, text(&interface.comment));
        // Nanoseconds.
        option(body, TIME_RESOLUTION, &[9]);
        end(body);
    })
}

/// An enhanced packet block.
pub fn packet(record: &Record<'_>) -> Vec<u8> {
    block(ENHANCED_PACKET, |body| {
        number(body, record.interface);
        time(body, record.at);
        number(body, u32::try_from(record.bytes.len()).unwrap_or(u32::MAX));
        number(body, u32::try_from(record.length).unwrap_or(u32::MAX));
        body.extend(record.bytes);
        pad(body);
        // Inbound, outbound.
        let direction: u32 = if record.is_outgoing { 2 } else { 1 };
        option(body, PACKET_FLAGS, &direction.to_ne_bytes());
        end(body);
    })
}

/// How many packets of an interface came until `at`, and how many of them were lost.
pub fn statistics(interface: u32, at: Duration, [received, dropped]: [u64; 2]) -> Vec<u8> {
    block(STATISTICS, |body| {
        number(body, interface);
        time(body, at);
        option(body, RECEIVED, &received.to_ne_bytes());
        option(body, DROPPED, &dropped.to_ne_bytes());
        end(body);
    })
}

/// The kind, the length, the body, and the length again.
fn block(kind: u32, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = [kind.to_ne_bytes(), [0; 4]].concat();
    write(&mut bytes);
    let length = u32::try_from(bytes.len() + 4).unwrap_or(u32::MAX).to_ne_bytes();
    bytes[4..8].copy_from_slice(&length);
    bytes.extend(length);
    bytes
}

fn number(body: &mut Vec<u8>, value: u32) {
    body.extend(value.to_ne_bytes());
}

/// In nanoseconds since 1970, the upper half first.
fn time(body: &mut Vec<u8>, at: Duration) {
    let nanoseconds = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    number(body, (nanoseconds >> 32) as u32);
    number(body, nanoseconds as u32);
}

fn option(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(kind.to_ne_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(0).to_ne_bytes());
    body.extend(value);
    pad(body);
}

fn end(body: &mut Vec<u8>) {
    number(body, 0);
}

/// Every part begins at a multiple of four bytes; blocks are as long.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn text(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(LONGEST);
    text.get(..end).unwrap_or_default().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds and bodies of a file's blocks.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let number = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
            let length = number(4) as usize;
            assert!(length.is_multiple_of(4) && number(length - 4) as usize == length);
            blocks.push((number(0), &file[8..length - 4]));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn a_file_is_a_row_of_blocks() {
        let interface = Interface {
            name: "eth0".to_owned(),
            comment: "ü".repeat(4_000),
            form: Form::Ethernet,
            snap: 64,
        };
        let mut file = header("spoke", &[interface]);
        let at = Duration::new(1_795_003_200, 123_456_789);
        let record =
            Record { interface: 0, at, length: 1500, is_outgoing: true, bytes: &[1, 2, 3, 4, 5] };
        file.extend(packet(&record));
        file.extend(statistics(0, at, [7, 1]));
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, ENHANCED_PACKET, STATISTICS]);
        let body = blocks[2].1;
        let number = |at: usize| u32::from_ne_bytes(body[at..at + 4].try_into().unwrap());
        let nanoseconds = u128::from(number(4)) << 32 | u128::from(number(8));
        assert_eq!(nanoseconds, at.as_nanos());
        assert_eq!((number(12), number(16), &body[20..25]), (5, 1500, &[1, 2, 3, 4, 5][..]));
    }
}
