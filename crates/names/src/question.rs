//! What is asked, and how it came.

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, ToName};

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram: an answer has to fit into one.
    Udp,
    /// Over a connection.
    Tcp,
}

/// A question, as far as it decides something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The name in small letters, without the dot at its end.
    pub(crate) name: String,
    /// Which records are asked for.
    pub(crate) kind: Rtype,
}

/// The one question of a query, or the code of what is said instead of an answer.
pub(crate) fn question(query: &Message<&[u8]>) -> Result<Question, Rcode> {
    let asked = query.sole_question().map_err(|_| Rcode::FORMERR)?;
    let counts = query.header_counts();
    if counts.ancount() > 0 || counts.nscount() > 0 || counts.arcount() > 2 {
        return Err(Rcode::FORMERR);
    }
    // RFC 6891 §6.1.1.
    let additional = query.additional().into_iter().flatten().flatten();
    if additional.filter(|record| record.rtype() == Rtype::OPT).count() > 1 {
        return Err(Rcode::FORMERR);
    }
    if asked.qclass() != Class::IN {
        return Err(Rcode::REFUSED);
    }
    let name = asked.qname().to_vec().to_string().to_ascii_lowercase();
    let name = name.strip_suffix('.').map(str::to_owned).unwrap_or(name);
    Ok(Question { name, kind: asked.qtype() })
}
