//! Echoes of other hosts (RFC 792, RFC 4443 §4), and their clocks, which are asked for by IPv4 only.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use model::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, ipproto, recvfrom,
    send, socket_with,
};

use crate::outcome::refused;

/// So many are asked at a time: each has a socket.
const AT_ONCE: usize = 128;
/// The headers of IPv4 without options and of IPv6, in bytes.
const HEADER: [usize; 2] = [20, 40];
/// An echo without data, in bytes.
const EMPTY: usize = 8;
/// Which of a process's questions it is says the socket.
const SEQUENCE: [u8; 2] = [0, 1];
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO6: u8 = 128;
const ECHO_REPLY6: u8 = 129;
const TIMESTAMP: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A packet of so many bytes, from its IP header on, and the same back.
    Echo(u32),
    /// The time of day. By IPv6 it is never answered.
    Clock,
}

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// From which address of this host.
    pub from: IpAddr,
    /// Who is asked.
    pub to: IpAddr,
    /// What.
    pub ask: Ask,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// From the question to the answer.
    pub took: Duration,
    /// Milliseconds since midnight in UTC on the other host's clock, where that was asked.
    pub clock: Option<u32>,
}

/// Asks all of them, each for at most `limit`; none where no answer came.
///
/// # Errors
/// Where the process may not open such sockets (CAP_NET_RAW).
pub fn ask(questions: &[Question], limit: Duration) -> Result<Vec<Option<Answer>>> {
    let mut answers = Vec::new();
    for questions in questions.chunks(AT_ONCE) {
        answers.extend(ask_some(questions, limit)?);
    }
    Ok(answers)
}

fn ask_some(questions: &[Question], limit: Duration) -> Result<Vec<Option<Answer>>> {
    let opened: Result<Vec<OwnedFd>> = questions.iter().map(Question::open).collect();
    let (sockets, begin) = (opened?, Instant::now());
    for (socket, question) in sockets.iter().zip(questions) {
        // What cannot be sent is not answered.
        let _ = question.send(socket);
    }
    let mut answers = vec![None; questions.len()];
    while answers.iter().any(Option::is_none) {
        let remaining = limit.saturating_sub(begin.elapsed());
        let timeout = Timespec::try_from(remaining).ok();
        let mut polled: Vec<PollFd<'_>> =
            sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(refused("waiting for echoes", errno)),
        }
        for ((socket, question), answer) in sockets.iter().zip(questions).zip(&mut answers) {
            while let Some(clock) = question.receive(socket) {
                let took = begin.elapsed();
                answer.get_or_insert(Answer { took, clock });
            }
        }
    }
    Ok(answers)
}

impl Question {
    fn open(&self) -> Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (family, protocol) = match self.to {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        socket_with(family, SocketType::RAW, flags, Some(protocol))
            .map_err(|errno| refused("opening a socket for echoes", errno))
    }

    fn send(&self, socket: &OwnedFd) -> std::result::Result<(), Errno> {
        let Some(packet) = self.ask.packet(self.to.is_ipv6(), identifier()) else { return Ok(()) };
        bind(socket, &SocketAddr::new(self.from, 0))?;
        connect(socket, &SocketAddr::new(self.to, 0))?;
        send(socket, &packet, SendFlags::empty()).map(drop)
    }

    /// The next answer that has come, and the clock in it.
    fn receive(&self, socket: &OwnedFd) -> Option<Option<u32>> {
        let mut buffer = [0; 128];
        loop {
            let (_, length, from) = recvfrom(socket.as_fd(), &mut buffer, RecvFlags::TRUNC).ok()?;
            let bytes = buffer.get(..length.min(buffer.len())).unwrap_or_default();
            // Before it was connected the socket took what came from anybody.
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            let is_theirs = from.is_some_and(|from| from.ip() == self.to);
            let answer = self.ask.answer(self.to.is_ipv6(), (bytes, length), identifier());
            if let Some(answer) = answer.filter(|_| is_theirs) {
                return Some(answer);
            }
        }
    }
}

/// By which this process knows its answers.
fn identifier() -> [u8; 2] {
    let pid = std::process::id().to_be_bytes();
    [pid[2], pid[3]]
}

impl Ask {
    /// What is sent behind the IP header; nothing where the family has no such question. The kernel makes the sum of
    /// ICMPv6 (RFC 3542 §3.1).
    fn packet(self, is_v6: bool, identifier: [u8; 2]) -> Option<Vec<u8>> {
        let headers = HEADER[usize::from(is_v6)] + EMPTY;
        let (kind, length) = match (self, is_v6) {
            (Ask::Echo(length), false) => (ECHO, (length as usize).saturating_sub(headers)),
            (Ask::Echo(length), true) => (ECHO6, (length as usize).saturating_sub(headers)),
            (Ask::Clock, false) => (TIMESTAMP, 12),
            (Ask::Clock, true) => return None,
        };
        let mut packet = vec![kind, 0, 0, 0];
        packet.extend(identifier);
        packet.extend(SEQUENCE);
        packet.resize(EMPTY + length, 0);
        if !is_v6 {
            let sum = checksum(&packet).to_be_bytes();
            packet[2..4].copy_from_slice(&sum);
        }
        Some(packet)
    }

    /// The clock in an answer to this, where it is one; `bytes` are the first of `length`. The kernel passes the
    /// header of IPv4 on, and not that of IPv6.
    fn answer(
        self,
        is_v6: bool,
        (bytes, length): (&[u8], usize),
        identifier: [u8; 2],
    ) -> Option<Option<u32>> {
        let (header, length) = match is_v6 {
            true => (0, length + HEADER[1]),
            false => (usize::from(bytes.first()? & 15) * 4, length),
        };
        let reply = bytes.get(header..)?;
        let is_ours = reply.get(4..6)? == identifier && reply.get(6..8)? == SEQUENCE;
        match (self, is_v6, *reply.first()?) {
            (Ask::Echo(wanted), false, ECHO_REPLY) | (Ask::Echo(wanted), true, ECHO_REPLY6)
                if is_ours && length >= wanted as usize =>
            {
                Some(None)
            }
            (Ask::Clock, false, TIMESTAMP_REPLY) if is_ours => {
                let clock = reply.get(16..20)?.first_chunk().copied().map(u32::from_be_bytes)?;
                Some(Some(clock))
            }
            _ => None,
        }
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_packet_has_its_length_and_a_sum_of_zero() {
        for (ask, length) in [(Ask::Echo(1450), 1430), (Ask::Echo(0), 8), (Ask::Clock, 20)] {
            let packet = ask.packet(false, [1, 2]).unwrap();
            assert_eq!((packet.len(), checksum(&packet)), (length, 0), "{ask:?}");
        }
        assert_eq!(Ask::Echo(1450).packet(true, [1, 2]).unwrap().len(), 1410);
        assert_eq!(Ask::Clock.packet(true, [1, 2]), None);
    }

    #[test]
    fn only_an_answer_to_the_question_is_one() {
        let reply = |kind: u8, id: [u8; 2], more: &[u8]| {
            [&[kind, 0, 0, 0][..], &id, &SEQUENCE, more].concat()
        };
        let v4 = |reply: Vec<u8>| [&[0x45_u8][..], &[0; 19], &reply].concat();
        let echo = v4(reply(ECHO_REPLY, [1, 2], &[]));
        assert_eq!(Ask::Echo(28).answer(false, (&echo, 28), [1, 2]), Some(None));
        assert_eq!(Ask::Echo(29).answer(false, (&echo, 28), [1, 2]), None);
        assert_eq!(Ask::Echo(28).answer(false, (&echo, 28), [1, 3]), None);
        let clock = v4(reply(TIMESTAMP_REPLY, [1, 2], &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9]));
        assert_eq!(Ask::Clock.answer(false, (&clock, clock.len()), [1, 2]), Some(Some(9)));
        assert_eq!(Ask::Clock.answer(false, (&clock[..30], 30), [1, 2]), None);
        let echo = reply(ECHO_REPLY6, [1, 2], &[]);
        assert_eq!(Ask::Echo(48).answer(true, (&echo, 8), [1, 2]), Some(None));
        assert_eq!(Ask::Echo(49).answer(true, (&echo, 8), [1, 2]), None);
        let asked = reply(ECHO6, [1, 2], &[]);
        assert_eq!(Ask::Echo(48).answer(true, (&asked, 8), [1, 2]), None);
    }

    proptest! {
        #[test]
        fn anything_is_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..80), is_v6: bool
        ) {
            for ask in [Ask::Echo(28), Ask::Clock] {
                let _ = ask.answer(is_v6, (&bytes, bytes.len()), [1, 2]);
            }
        }
    }
}
