//! Queries that are made anew for servers outside.
//!
//! On a network with a fence the form of a query is no channel to the server that answers for an allowed name: the
//! case of letters, bits of the header, options of EDNS, other records. What goes out is a function of the
//! name and the kind of record, and of a number that is not the container's.

use domain::base::iana::{Class, Rtype};
use domain::base::{MessageBuilder, Name};

use crate::question::Question;
use crate::write::PAYLOAD;

/// A query for these records of the name in small letters, of class IN and without anything else; its number
/// is chosen when it is sent. `None` where a name cannot be written.
pub(crate) fn query(question: &Question) -> Option<Vec<u8>> {
    let name: Name<Vec<u8>> = question.name.parse().ok()?;
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_rd(true);
    let mut asking = builder.question();
    asking.push((name, question.kind, Class::IN)).ok()?;
    let mut additional = asking.additional();
    let sized = additional.opt(|opt| {
        opt.set_udp_payload_size(PAYLOAD);
        Ok(())
    });
    sized.ok()?;
    Some(additional.finish())
}

/// Chooses the number of a query.
///
/// # Errors
/// Where the system has no random numbers.
pub(crate) fn number(query: &mut [u8]) -> std::io::Result<()> {
    let mut number = [0; 2];
    rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
    for (to, from) in query.iter_mut().zip(number) {
        *to = from;
    }
    Ok(())
}

/// Whether records of this kind are asked for of allowed names.
pub(crate) fn is_asked_for(kind: Rtype) -> bool {
    KINDS.contains(&kind)
}

/// What containers need. Everything else has no records: what HTTPS and SVCB say would lead past the
/// addresses (RFC 9460), and others would be a channel.
const KINDS: [Rtype; 8] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::CNAME,
    Rtype::MX,
    Rtype::TXT,
    Rtype::SRV,
    // Programs that prove that a domain is theirs look for its zone (RFC 8555 §8.4).
    Rtype::NS,
    Rtype::SOA,
];
