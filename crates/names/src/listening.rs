//! The sockets at which queries come in: at gateways, and in sandboxes.

use std::borrow::Cow;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use model::NetworkName;

use crate::decide::{Decision, decide, decide_for_host};
use crate::fenced_answer::FenceHost;
use crate::holder::Holder;
use crate::question::Transport;
use crate::sandbox::{Inside, decide_inside};
use crate::table::Sandbox;
use crate::table::{Asker, ServedGateway, Table};
use crate::upstream::{Host, Servers, Upstream};

/// One of them.
pub(crate) struct Listening {
    pub(crate) at: At,
    pub(crate) socket: Socket,
}

/// Where it is.
#[derive(Clone)]
pub(crate) enum At {
    /// At a gateway: the asker is known by its address.
    Gateway(ServedGateway),
    /// In a sandbox: the asker is that.
    Sandbox(Sandbox, Arc<dyn Inside>),
}

/// What it takes.
pub(crate) enum Socket {
    /// Datagrams.
    Udp(UdpSocket),
    /// Connections.
    Tcp(TcpListener),
}

/// Who asks, and where the rest is known to.
#[derive(Clone)]
pub(crate) struct Origin<'a> {
    pub(crate) network: Cow<'a, NetworkName>,
    pub(crate) address: IpAddr,
    /// The attachment that has the address.
    pub(crate) holder: Option<Holder>,
    /// The mark that leads to the way out, where one of its networks has one of its own.
    way: Option<u32>,
    is_inside: bool,
    /// It is this host.
    is_host: bool,
    /// The server in its sandbox, where that is asked.
    inside: Option<Arc<dyn Inside>>,
}

impl Listening {
    /// Who asks here from an address. `None` where it is no container's.
    pub(crate) fn origin(&self, table: &Table, peer: IpAddr) -> Option<Origin<'_>> {
        match &self.at {
            At::Gateway(place) => {
                let asker = Asker { network: &place.network, address: peer };
                if table.is_host(place, peer) {
                    let origin = Origin::new(table, &asker, Cow::Borrowed(&place.network));
                    return Some(Origin { is_host: true, ..origin });
                }
                if table.is_known(&asker) {
                    return Some(Origin::new(table, &asker, Cow::Borrowed(&place.network)));
                }
                // Of several networks on one bridge the first one's gateway is asked.
                let network = table.behind(place.bridge.as_str(), peer).1?.network();
                let asker = Asker { network, address: peer };
                Some(Origin::new(table, &asker, Cow::Owned(network.clone())))
            }
            At::Sandbox(sandbox, inside) => {
                let asker = table.asker_in(sandbox)?;
                let inside = (!table.is_shut_for(&asker)).then(|| Arc::clone(inside));
                let origin = Origin::new(table, &asker, Cow::Owned(asker.network.clone()));
                Some(Origin { is_inside: true, inside, ..origin })
            }
        }
    }

    /// The gateway at which it is.
    pub(crate) fn place(&self) -> Option<&ServedGateway> {
        match &self.at {
            At::Gateway(place) => Some(place),
            At::Sandbox(..) => None,
        }
    }

    /// Under which name it is left to the next process; in a sandbox that is decided where it is opened.
    pub(crate) fn name(&self) -> Option<String> {
        let is_stream = matches!(self.socket, Socket::Tcp(_));
        self.place().map(|place| name_of(place.address(), is_stream))
    }

    /// Whether it is in this sandbox.
    pub(crate) fn is_in(&self, inside: &Arc<dyn Inside>) -> bool {
        matches!(&self.at, At::Sandbox(_, own) if Arc::ptr_eq(own, inside))
    }
}

/// The name of a gateway's socket; a colon would end it (sd_notify(3)).
pub(crate) fn name_of(gateway: IpAddr, is_stream: bool) -> String {
    let kind = if is_stream { "tcp" } else { "udp" };
    format!("names-{kind}-{}", gateway.to_string().replace(':', "_"))
}

impl<'a> Origin<'a> {
    fn new(table: &Table, asker: &Asker<'_>, network: Cow<'a, NetworkName>) -> Self {
        Self {
            network,
            address: asker.address,
            holder: table.holder_of(asker).cloned(),
            way: table.way_of_asker(asker),
            is_inside: false,
            is_host: false,
            inside: None,
        }
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker { network: &self.network, address: self.address }
    }

    /// What becomes of a message.
    pub(crate) fn decide(&self, table: &Table, message: &[u8], by: Transport) -> Decision {
        match self.is_inside {
            _ if self.is_host => decide_for_host(table, message, by),
            true => decide_inside(table, &self.asker(), message, by),
            false => decide(table, &self.asker(), message, by),
        }
    }

    /// Who knows the rest: the server in its sandbox, or else these, or this host's.
    pub(crate) fn upstream(
        &self,
        host: &mut Host,
        given: Vec<IpAddr>,
        gate: &dyn FenceHost,
    ) -> Upstream {
        if let Some(inside) = &self.inside {
            return Upstream::Inside(Arc::clone(inside));
        }
        Upstream::Servers(Servers::new(host.or(given, Instant::now()), self.way, gate))
    }

    pub(crate) fn into_owned(self) -> Origin<'static> {
        let Origin { network, address, holder, way, is_inside, is_host, inside } = self;
        let network = Cow::Owned(network.into_owned());
        Origin { network, address, holder, way, is_inside, is_host, inside }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Udp(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}
