//! How an outline is written: which it is, then its fields, each with its length before it.

use std::net::IpAddr;

use engine::port::Outline;
use model::{IpNet, Runtime};

const BRIDGE: u8 = 1;
const NET: u8 = 2;
const SUBNET: u8 = 3;
const TITLE: u8 = 4;

/// Appends it; `false` where it cannot be written.
pub(super) fn write(outline: &Outline<'_>, bytes: &mut Vec<u8>) -> bool {
    match *outline {
        Outline::Bridge { network, bridge } => {
            bytes.push(BRIDGE);
            write_text(network, bytes) && write_text(bridge, bytes)
        }
        Outline::Title { network, title } => {
            bytes.push(TITLE);
            write_text(network, bytes) && write_text(title, bytes)
        }
        Outline::Net { network, runtime, space, net } => {
            bytes.extend([NET, number(runtime)]);
            write_net(Some(net), bytes);
            write_text(network, bytes) && write_text(space, bytes)
        }
        Outline::Subnet { network, runtime, space, net, part } => {
            bytes.extend([SUBNET, number(runtime)]);
            write_net(Some(net), bytes);
            write_net(part, bytes);
            write_text(network, bytes) && write_text(space, bytes)
        }
    }
}

/// Reports all outlines up to the first damaged one.
pub(super) fn each(mut bytes: &[u8], report: &mut dyn FnMut(&Outline<'_>)) {
    while !bytes.is_empty() {
        let Some(outline) = read(&mut bytes) else { return };
        report(&outline);
    }
}

/// Whether none is damaged.
pub(super) fn is_whole(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if read(&mut bytes).is_none() {
            return false;
        }
    }
    true
}

fn read<'a>(bytes: &mut &'a [u8]) -> Option<Outline<'a>> {
    match read_byte(bytes)? {
        BRIDGE => Some(Outline::Bridge { network: read_text(bytes)?, bridge: read_text(bytes)? }),
        TITLE => Some(Outline::Title { network: read_text(bytes)?, title: read_text(bytes)? }),
        NET => {
            let (runtime, net) = (runtime(read_byte(bytes)?)?, read_net(bytes)??);
            let (network, space) = (read_text(bytes)?, read_text(bytes)?);
            Some(Outline::Net { network, runtime, space, net })
        }
        SUBNET => {
            let (runtime, net) = (runtime(read_byte(bytes)?)?, read_net(bytes)??);
            let part = read_net(bytes)?;
            let (network, space) = (read_text(bytes)?, read_text(bytes)?);
            Some(Outline::Subnet { network, runtime, space, net, part })
        }
        _ => None,
    }
}

fn write_text(text: &str, bytes: &mut Vec<u8>) -> bool {
    let Ok(length) = u8::try_from(text.len()) else { return false };
    bytes.push(length);
    bytes.extend_from_slice(text.as_bytes());
    true
}

fn write_net(net: Option<IpNet>, bytes: &mut Vec<u8>) {
    match net.map(|net| (net.addr(), net.prefix_len())) {
        None => bytes.push(0),
        Some((IpAddr::V4(address), length)) => {
            bytes.extend([4, length]);
            bytes.extend(address.octets());
        }
        Some((IpAddr::V6(address), length)) => {
            bytes.extend([16, length]);
            bytes.extend(address.octets());
        }
    }
}

fn read_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn read_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = read_byte(bytes)?;
    let (text, rest) = bytes.split_at_checked(length.into())?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

fn read_net(bytes: &mut &[u8]) -> Option<Option<IpNet>> {
    let size = read_byte(bytes)?;
    if size == 0 {
        return Some(None);
    }
    let length = read_byte(bytes)?;
    let (octets, rest) = bytes.split_at_checked(size.into())?;
    *bytes = rest;
    let address = match octets.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
        _ => return None,
    };
    IpNet::new(address, length).ok().map(Some)
}

fn number(runtime: Runtime) -> u8 {
    match runtime {
        Runtime::Cni => 0,
        Runtime::Podman => 1,
        Runtime::Reference => 2,
        Runtime::Spoke => 3,
        Runtime::Docker => 4,
        Runtime::Kurma => 5,
    }
}

fn runtime(number: u8) -> Option<Runtime> {
    Some(match number {
        0 => Runtime::Cni,
        1 => Runtime::Podman,
        2 => Runtime::Reference,
        3 => Runtime::Spoke,
        4 => Runtime::Docker,
        5 => Runtime::Kurma,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            names in prop::collection::vec("[a-z0-9@]{0,200}", 4),
            address in any::<[u8; 16]>(),
            length in 0u8..=32,
            which in 0u8..6,
        ) {
            let net = IpNet::new(IpAddr::from(address), length).unwrap();
            let short = IpNet::new(IpAddr::from([10, 0, 0, which]), length).unwrap();
            let runtime = runtime(which).unwrap();
            let (network, space) = (names[0].as_str(), names[1].as_str());
            let all = [
                Outline::Bridge { network: &names[2], bridge: &names[3] },
                Outline::Title { network, title: &names[2] },
                Outline::Net { network, runtime, space, net: short },
                Outline::Subnet { network, runtime, space, net, part: None },
                Outline::Subnet { network, runtime, space, net, part: Some(short) },
            ];
            let mut bytes = Vec::new();
            prop_assert!(all.iter().all(|outline| write(outline, &mut bytes)));
            prop_assert!(is_whole(&bytes));
            let mut read = 0;
            each(&bytes, &mut |outline| {
                assert_eq!(*outline, all[read]);
                read += 1;
            });
            prop_assert_eq!(read, all.len());
        }

        #[test]
        fn hostile_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut reported = 0;
            each(&bytes, &mut |_| reported += 1);
            prop_assert!(reported <= bytes.len());
            let _ = is_whole(&bytes);
        }
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let name = "n".repeat(256);
        assert!(!write(&Outline::Bridge { network: &name, bridge: "b" }, &mut Vec::new()));
    }
}
