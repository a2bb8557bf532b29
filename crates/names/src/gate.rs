//! What the server needs of the host for networks with a fence.

use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use domain::base::Message;
use domain::base::iana::Rcode;
use model::{NetworkName, Result};

use crate::decide::Transport;
use crate::fence::{Judged, Verdict, judge};
use crate::holder::Holder;
use crate::table::{Asker, Table};
use crate::write;

/// The packet filter of fenced networks, and the log of what they refuse. Threads share it.
pub trait Gate: Send + Sync {
    /// Whether an address is this host's.
    fn is_host(&self, address: IpAddr) -> bool;

    /// Opens what an answer opens, before it is sent. The rules and the attachment have to be those for
    /// which it was judged.
    ///
    /// # Errors
    /// Where it is not open: then nothing is answered.
    fn open(&self, judged: &Judged) -> Result<()>;

    /// Reports what was refused, or would have been.
    fn refused(&self, refusal: &Refusal);
}

/// A name that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// On which network.
    pub network: NetworkName,
    /// Whose query it was, by its address there.
    pub source: IpAddr,
    /// The name, as it was asked for.
    pub name: String,
    /// Why.
    pub why: Why,
}

/// Why a name, or an address of it, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No rule allows it.
    NoRule,
    /// No rule does, and the fence only records.
    Learned,
    /// It leads to an address that is not a public name's, and that no rule allows.
    Private(IpAddr),
    /// It could not be opened.
    NotOpened,
}

/// What a container gets of a server's answer: on a network with a fence that is opened first. `holder` is
/// the attachment that asked: what is answered late is not for the next one that has the address.
pub(crate) fn let_in(
    gate: &dyn Gate,
    table: &RwLock<Table>,
    (asker, holder): (&Asker<'_>, Option<&Holder>),
    (query, answer): (&[u8], Vec<u8>),
    by: Transport,
) -> Vec<u8> {
    let failed = || {
        let query = Message::from_octets(query).ok();
        query.and_then(|query| write::failure(&query, Rcode::SERVFAIL)).unwrap_or_default()
    };
    let verdict = {
        let table = table.read().unwrap_or_else(PoisonError::into_inner);
        if table.fence_of_asker(asker).is_some() && table.holder_of(asker) != holder {
            return failed();
        }
        judge(&table, asker, (query, &answer), by, &|address| gate.is_host(address))
    };
    let judged = match verdict {
        Verdict::AsItIs => return answer,
        Verdict::Refuse(message) => return message,
        Verdict::Answer(judged) => judged,
    };
    let refusal = |why| Refusal {
        network: judged.network.clone(),
        source: asker.address,
        name: judged.name.to_string(),
        why,
    };
    judged.dropped.iter().for_each(|address| gate.refused(&refusal(Why::Private(*address))));
    if gate.open(&judged).is_ok() {
        return judged.message;
    }
    gate.refused(&refusal(Why::NotOpened));
    failed()
}
