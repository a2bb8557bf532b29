//! Answers for networks with a fence, and what they need of the host: nothing is answered before it is open.

use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use model::Result;

use crate::fence::{Judged, Judgement, Verdict, judge};
use crate::holder::{Client, Holder};
use crate::question::Transport;
use crate::refusal::{Refusal, Why};
use crate::table::{Asker, Table};
use crate::write;

/// The packet filter of fenced networks, and the log of what they refuse. Threads share it.
pub trait FenceHost: Send + Sync {
    /// Whether an address is this host's.
    fn is_host(&self, address: IpAddr) -> bool;

    /// Whether an address is this host's, or in a subnet of a network that it routes. It is asked while the table is
    /// locked.
    fn is_near(&self, address: IpAddr) -> bool;

    /// Opens what an answer opens, before it is sent. The rules and the attachment have to be those for
    /// which it was judged.
    ///
    /// # Errors
    /// Where it is not open: then nothing is answered.
    fn open(&self, judged: &Judged) -> Result<()>;

    /// Reports what was refused, or would have been.
    fn refused(&self, refusal: &Refusal);
}

/// What a container gets of a server's answer.
pub(crate) enum Ready {
    /// This, at once.
    Now(Vec<u8>),
    /// An answer, once its addresses are open.
    Unopened(Box<Unopened>),
}

/// An answer that was judged, and opens something first.
pub(crate) struct Unopened {
    /// Who asked.
    pub(crate) client: Client,
    query: Vec<u8>,
    judgement: Judgement,
}

/// What a container gets of a server's answer. `holder` is the attachment that asked: what is answered late is
/// not for the next one that has the address. Its other attachments are those of now, and each is looked at once more
/// when it is opened.
pub(crate) fn judged(
    gate: &dyn FenceHost,
    table: &RwLock<Table>,
    (asker, holder): (&Asker<'_>, Option<&Holder>),
    (query, answer): (&[u8], Vec<u8>),
    by: Transport,
) -> Ready {
    let verdict = {
        let table = table.read().unwrap_or_else(PoisonError::into_inner);
        if table.fence_of_asker(asker).is_some() && table.holder_of(asker) != holder {
            return Ready::Now(write::server_failure(query));
        }
        let is_near = |address| gate.is_near(address) || table.is_in_a_subnet(address);
        judge(&table, asker, (query, &answer), by, &is_near)
    };
    let judgement = match verdict {
        Verdict::AsItIs => return Ready::Now(write::fitting(answer, query, by)),
        Verdict::Refuse(message) => return Ready::Now(message),
        Verdict::Answer(judgement) => *judgement,
    };
    let client = Client::new(holder, asker.address);
    Ready::Unopened(Box::new(Unopened::new(client, query, judgement)))
}

impl Unopened {
    pub(crate) fn new(client: Client, query: &[u8], judgement: Judgement) -> Self {
        Self { client, query: query.to_vec(), judgement }
    }

    /// Opens it, and says what the container is answered.
    pub(crate) fn open(self, gate: &dyn FenceHost) -> Vec<u8> {
        let refusal = |judged: &Judged, why| Refusal {
            network: judged.network.clone(),
            source: judged.asker,
            name: judged.name.to_string(),
            why,
        };
        let Judgement { message, by, dropped } = &self.judgement;
        for (address, first) in dropped.iter().flat_map(|it| Some((it, by.first()?))) {
            gate.refused(&refusal(first, Why::Private(*address)));
        }
        if let Some(shut) = by.iter().find(|judged| gate.open(judged).is_err()) {
            gate.refused(&refusal(shut, Why::NotOpened));
            return self.failed();
        }
        message.clone()
    }

    /// What it is answered where nothing is opened.
    pub(crate) fn failed(&self) -> Vec<u8> {
        write::server_failure(&self.query)
    }
}
