//! Changes that openings must not starve. A container that resolves names changes the ruleset with each answer,
//! as fast as it likes. A change that reads the ruleset first, and holds only for what it has read, then finds
//! no moment between two answers.
//!
//! Such a change asks for calm: by an element that expires, in the set of what names have opened. Who opens
//! reads the generation first and looks for the element afterwards ([`wait`]), so that nothing is opened while
//! it is there, by whichever process it was put there.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use model::{Kind, Result};
use netlink::nft::{self, Element, Expiring, Transaction, Tuple};
use netlink::{Errno, Socket};

use super::sets::{OPENINGS, TABLE};
use crate::filter::ruleset::settled;

/// How long one request holds. It is repeated while the change goes on, and a process that is killed leaves it.
const CALM: Duration = Duration::from_millis(500);
/// Who opens waits no longer than this.
const LONGEST: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);
/// How often a change is made again in calm.
const ATTEMPTS: usize = 8;

/// Makes a change that can be repeated, and again in calm where the ruleset keeps changing.
///
/// # Errors
/// What `work` fails with, and where the process may not change the ruleset.
pub(crate) fn calmly<T>(
    socket: &mut Socket,
    mut work: impl FnMut(&mut Socket) -> Result<T>,
) -> Result<T> {
    let mut worked = work(socket);
    let mut has_asked = false;
    for _ in 0..ATTEMPTS {
        if !worked.as_ref().is_err_and(|error| error.kind() == Kind::TryAgain) {
            break;
        }
        ask(socket)?;
        has_asked = true;
        worked = work(socket);
    }
    if has_asked {
        // What stays expires.
        let _ = take_back(socket);
    }
    worked
}

/// Asks for calm. Without the table nothing is opened.
fn ask(socket: &mut Socket) -> Result<()> {
    let mut transaction = Transaction::new();
    let about = format!("asking for no more openings for a moment ({TABLE})");
    transaction.put_expiring((TABLE, OPENINGS[0].name), &element()?, CALM, &about);
    settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT).map(drop)
}

/// Lets names open again. Another change that needs calm asks for it again.
fn take_back(socket: &mut Socket) -> Result<()> {
    let mut transaction = Transaction::new();
    let about = format!("letting names open again ({TABLE})");
    transaction.delete_element(TABLE, OPENINGS[0].name, &element()?, about);
    settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT).map(drop)
}

/// Waits while calm is asked for, and says whether it was: what was read before may hold no more.
///
/// # Errors
/// Where the kernel cannot be asked.
pub(super) fn wait(socket: &mut Socket) -> Result<bool> {
    let (began, element, mut was_there) = (Instant::now(), element()?, false);
    while !nft::find(socket, TABLE, &[(OPENINGS[0].name, &element)])?.is_empty() {
        was_there = true;
        if began.elapsed() > LONGEST {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(was_there)
}

/// Whether an element of the sets of openings asks for calm. One that stays longer than a request does is none:
/// another program put it there.
pub(super) fn is_request(there: &Expiring) -> bool {
    let is_short = there.remaining.is_some_and(|remaining| remaining <= CALM);
    is_short && element().is_ok_and(|element| element.key == there.element.key)
}

/// No packet has this protocol between these addresses, and no bridge this name.
fn element() -> Result<Element> {
    let nothing = Ipv4Addr::UNSPECIFIED.into();
    let from = Tuple::new().interface(&"lo".parse()?).address(nothing);
    Ok(Element::of(from.address(nothing).protocol(0).service(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_longer_than_a_request_is_none() {
        let there = |remaining| Expiring { element: element().unwrap(), remaining };
        assert!(is_request(&there(Some(CALM))));
        assert!(!is_request(&there(Some(CALM + Duration::from_millis(1)))));
        assert!(!is_request(&there(None)));
    }
}
