//! What other servers are asked, and which of their messages is the answer.
//!
//! Equal questions that wait at once are one exchange. If each was sent by itself, under a number and from a port of its
//! own, a forged answer would have as many chances as questions wait (RFC 5452 §5).

use domain::base::Message;
use domain::base::iana::Rcode;

use crate::upstream::Upstream;

/// Where the first question of a message begins, in bytes.
const QUESTION: usize = 12;
/// A longer label is none: what stands there points to another name (RFC 1035 §4.1.4).
const LONGEST_LABEL: usize = 63;

/// A question as other servers are asked it. Equal ones have the same answer: they go to the same servers by the same
/// way, and differ in the number and in the spelling of the name alone. Flags and options that are passed on count.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    upstream: Upstream,
    /// What is behind the number, with the name in small letters.
    message: Vec<u8>,
}

impl Key {
    /// Of a message, whatever its number is.
    pub(crate) fn new(asked: &[u8], upstream: Upstream) -> Self {
        let mut message = asked.to_vec();
        if let Some(name) = spelling(asked).and_then(|end| message.get_mut(QUESTION..end)) {
            // The lengths of labels are below the letters.
            name.make_ascii_lowercase();
        }
        message.drain(..message.len().min(2));
        Self { upstream, message }
    }

    /// Who is asked.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }
}

/// Where the name of the first question ends that is written out there. `None` where the message has no question.
fn spelling(message: &[u8]) -> Option<usize> {
    if message.get(4..6)? == [0, 0] {
        return None;
    }
    let mut end = QUESTION;
    loop {
        match usize::from(*message.get(end)?) {
            0 => return Some(end),
            length if length > LONGEST_LABEL => return Some(end),
            length => end += 1 + length,
        }
    }
}

/// Whether a server says that it cannot answer: another one may (as resolvers of the C library take it).
pub(crate) fn is_unable(answer: &[u8]) -> bool {
    let unable = [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::NOTIMP];
    Message::from_octets(answer).is_ok_and(|answer| unable.contains(&answer.header().rcode()))
}

/// Whether a message is the answer to what was asked.
pub(crate) fn is_answer(given: &[u8], asked: &[u8]) -> bool {
    let asked = Message::from_octets(asked);
    let given = Message::from_octets(given);
    given.is_ok_and(|given| asked.is_ok_and(|asked| given.is_answer(&asked)))
}

/// The answer with the number of a query that came, and with the name as that spells it.
pub(crate) fn restored(mut answer: Vec<u8>, query: &[u8]) -> Vec<u8> {
    let mut put = |from: usize, to: usize| {
        if let Some((there, own)) = answer.get_mut(from..to).zip(query.get(from..to))
            && (from < QUESTION || there.eq_ignore_ascii_case(own))
        {
            there.copy_from_slice(own);
        }
    };
    put(0, 2);
    if let Some(end) = spelling(query) {
        put(QUESTION, end);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use domain::base::iana::Rtype;
    use domain::base::{MessageBuilder, Name};

    use super::*;
    use crate::fixture::{Container, Open};
    use crate::upstream::Servers;
    use crate::write;

    fn query(name: &str, kind: Rtype, number: u16) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(number);
        let mut question = builder.question();
        question.push((name.parse::<Name<Vec<u8>>>().unwrap(), kind)).unwrap();
        question.finish()
    }

    fn servers(last: u8, way: Option<u32>) -> Upstream {
        Upstream::Servers(Servers::new(vec![IpAddr::from([192, 0, 2, last])], way, &Open))
    }

    #[test]
    fn what_makes_the_answer_differ_makes_questions_differ() {
        let asked = query("a.example", Rtype::A, 1);
        let key = |asked: &[u8]| Key::new(asked, servers(1, None));
        assert!(key(&asked) == key(&query("A.eXample", Rtype::A, 2)));
        let mut flagged = asked.clone();
        flagged[3] |= 0x10;
        let sized = {
            let question = crate::question::question(&Message::from_octets(&*asked).unwrap());
            crate::outside_query::query(&question.unwrap()).unwrap()
        };
        let other = query("b.example", Rtype::A, 1);
        for other in [&query("a.example", Rtype::AAAA, 1), &flagged, &sized, &other] {
            assert!(key(&asked) != key(other), "{other:?}");
        }
        let inside = || Upstream::Inside(Arc::new(Container(([127, 0, 0, 1], 53).into())));
        let one = inside();
        assert!(Key::new(&asked, one.clone()) == Key::new(&asked, one.clone()));
        for other in [servers(2, None), servers(1, Some(7)), inside(), one] {
            assert!(key(&asked) != Key::new(&asked, other));
        }
        assert!(Key::new(&asked, inside()) != Key::new(&asked, inside()));
    }

    #[test]
    fn letters_of_what_is_no_name_count() {
        let of = |message: &[u8]| Key::new(message, servers(1, None));
        assert!(of(b"..Ab") == of(b"--Ab") && of(b"..Ab") != of(b"..ab"));
        let without_question = [&[0; 12][..], b"\x02Ab\0"].concat();
        assert!(of(&without_question) != of(&without_question.to_ascii_lowercase()));
        // A name that points elsewhere, and one that never ends.
        let head = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let [one, other] = [b"\xc0A", b"\xc0a"].map(|it| [&head[..], it].concat());
        assert!(of(&one) != of(&other));
        assert!(of(&[&head[..], b"\x05A"].concat()) != of(&[&head[..], b"\x05a"].concat()));
    }

    #[test]
    fn each_query_is_answered_as_it_was_asked() {
        let asked = query("a.example", Rtype::A, 7);
        let said = write::failure(&Message::from_octets(&*asked).unwrap(), Rcode::NXDOMAIN);
        let said = said.unwrap();
        assert!(is_answer(&said, &asked));
        assert!(!is_answer(&said, &query("a.example", Rtype::A, 8)));
        assert!(!is_answer(&said, &query("b.example", Rtype::A, 7)));
        let own = query("A.Example", Rtype::A, 9);
        let restored = restored(said.clone(), &own);
        assert!(is_answer(&restored, &own));
        assert_eq!(restored[12..], own[12..]);
        assert_eq!(super::restored(said[..5].to_vec(), &own).len(), 5, "it is cut off");
    }
}
