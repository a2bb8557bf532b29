//! The messages of a client in each state (RFC 2131 §4.3.6, §4.4.1).

use std::net::Ipv4Addr;

use super::{Client, Heading, Step};
use crate::Time;
use crate::packet::{Kind, Message, Terms, code};

/// The longest message that is read: what a packet of Ethernet has room for (RFC 2132 §9.10).
const LARGEST: u16 = 1472;

impl Client {
    pub(super) fn discovering(&mut self, now: Time) -> Step {
        let message = self.asking(Kind::Discover, now);
        Step::Send(Box::new(message), Heading::Everybody)
    }

    pub(super) fn requesting(&mut self, offer: &Message, now: Time) -> Step {
        let mut message = self.asking(Kind::Request, now);
        put(&mut message, code::REQUESTED_ADDRESS, offer.yours);
        if let Some(server) = offer.address(code::SERVER) {
            put(&mut message, code::SERVER, server);
        }
        Step::Send(Box::new(message), Heading::Everybody)
    }

    pub(super) fn rebooting(&mut self, terms: &Terms, now: Time) -> Step {
        let mut message = self.asking(Kind::Request, now);
        put(&mut message, code::REQUESTED_ADDRESS, terms.address.addr());
        Step::Send(Box::new(message), Heading::Everybody)
    }

    /// To the server that gave the lease, and later to all.
    pub(super) fn renewing(&mut self, terms: &Terms, now: Time) -> Step {
        let mut message = self.asking(Kind::Request, now);
        message.client = terms.address.addr();
        message.broadcast = false;
        let to_one = matches!(self.state, super::State::Renewing);
        let heading = match to_one {
            true => Heading::Server(terms.server, terms.station),
            false => Heading::Everybody,
        };
        Step::Send(Box::new(message), heading)
    }

    pub(super) fn declining(&mut self, terms: &Terms) -> Step {
        let mut message = self.telling(Kind::Decline);
        put(&mut message, code::REQUESTED_ADDRESS, terms.address.addr());
        put(&mut message, code::SERVER, terms.server);
        Step::Send(Box::new(message), Heading::Everybody)
    }

    pub(super) fn releasing(&mut self, terms: &Terms) -> Step {
        let mut message = self.telling(Kind::Release);
        message.client = terms.address.addr();
        put(&mut message, code::SERVER, terms.server);
        Step::Send(Box::new(message), Heading::Server(terms.server, terms.station))
    }

    /// A message that is to be answered.
    fn asking(&mut self, kind: Kind, now: Time) -> Message {
        let mut message = self.telling(kind);
        message.broadcast = self.pace.broadcast;
        message.seconds = u16::try_from(now.since(self.started).as_secs()).unwrap_or(u16::MAX);
        let parameters = self.subject.parameters();
        if !parameters.is_empty() {
            message.options.insert(code::PARAMETERS, parameters);
        }
        message.options.insert(code::LARGEST, LARGEST.to_be_bytes().to_vec());
        for option in &self.subject.dhcp.provide {
            message.options.insert(option.code, option.value.clone());
        }
        message.options.insert(code::MESSAGE_TYPE, vec![kind as u8]);
        message
    }

    fn telling(&mut self, kind: Kind) -> Message {
        let mut message = Message::of(self.mac, self.exchange);
        message.options.insert(code::MESSAGE_TYPE, vec![kind as u8]);
        message.options.insert(code::CLIENT, self.subject.client.clone());
        message
    }
}

fn put(message: &mut Message, code: u8, address: Ipv4Addr) {
    message.options.insert(code, address.octets().to_vec());
}
