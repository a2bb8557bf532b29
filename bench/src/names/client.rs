//! Queries of a container, written by hand: what a name costs is the server's, not a resolver's.

use std::collections::HashSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use netlink::Netns;

/// What is not answered after this long is lost.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A container that asks one server.
pub(super) struct Client {
    socket: UdpSocket,
}

impl Client {
    /// In the network namespace at `path`.
    pub(super) fn in_netns(path: &Path, server: Ipv4Addr) -> Result<Self> {
        let failed = |error| Error::os("a socket to ask with", error);
        let socket = Netns::open(path)?.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let socket = socket.map_err(failed)?;
        socket.connect((server, 53)).map_err(failed)?;
        socket.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Asks `count` names, each after the answer to the one before; how long each took, in microseconds.
    pub(super) fn one_by_one(
        &self,
        count: usize,
        mut name: impl FnMut(usize) -> String,
    ) -> Result<Vec<f64>> {
        let one = |number: usize| {
            let query = query(number as u16, &name(number));
            let began = Instant::now();
            self.send(&query)?;
            while self.answered()? != number as u16 {}
            Ok(began.elapsed().as_secs_f64() * 1e6)
        };
        (0..count).map(one).collect()
    }

    /// Keeps `window` queries waiting for `lasts`; how many were answered.
    pub(super) fn at_once(&self, window: usize, lasts: Duration, name: &str) -> Result<usize> {
        let (mut next, mut answered, mut waiting) = (0_u16, 0, HashSet::new());
        let began = Instant::now();
        while began.elapsed() < lasts {
            while waiting.len() < window {
                self.send(&query(next, name))?;
                waiting.insert(next);
                next = next.wrapping_add(1);
            }
            if waiting.remove(&self.answered()?) {
                answered += 1;
            }
        }
        while !waiting.is_empty() {
            waiting.remove(&self.answered()?);
        }
        Ok(answered)
    }

    fn send(&self, query: &[u8]) -> Result<()> {
        self.socket.send(query).map(drop).map_err(|error| Error::os("asking", error))
    }

    /// The number of the next answer, which must have an address.
    fn answered(&self) -> Result<u16> {
        let mut room = [0; 1024];
        let length = self.socket.recv(&mut room).map_err(|error| Error::os("an answer", error))?;
        match room.get(..length) {
            Some(&[a, b, _, flags, _, _, 0, count, ..]) if flags & 15 == 0 && count > 0 => {
                Ok(u16::from_be_bytes([a, b]))
            }
            other => Err(Error::new(Kind::Kernel, format!("no answer with an address: {other:?}"))),
        }
    }
}

/// A query for an IPv4 address, of RFC 1035.
fn query(number: u16, name: &str) -> Vec<u8> {
    let mut message = number.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// Answers every query that comes with one address, until the process ends.
pub(super) fn serve_outside(socket: &UdpSocket) {
    let mut room = [0; 1024];
    while let Ok((length, from)) = socket.recv_from(&mut room) {
        let Some(answer) = room.get(..length).and_then(answer) else { continue };
        let _ = socket.send_to(&answer, from);
    }
}

/// The answer to a query with one question, which may be followed by EDNS.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let name = query.get(12..)?.iter().position(|byte| *byte == 0)?;
    let mut message = query.get(..12 + name + 5)?.to_vec();
    message.get_mut(2..12)?.copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 7]);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_repeats_the_question() {
        let query = query(7, "n1.example.org");
        let answer = answer(&query).unwrap();
        assert_eq!(answer[..4], [0, 7, 0x81, 0x80]);
        assert_eq!(answer[12..query.len()], query[12..]);
        assert!(answer.ends_with(&[203, 0, 113, 7]));
    }
}
