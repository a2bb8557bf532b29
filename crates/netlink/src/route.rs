//! Routes (rtnetlink(7), `linux/rtnetlink.h`).

mod marked;

pub use marked::OF_HOSTS;

use std::net::IpAddr;

use model::{Family, IpNet, Result};
use rustix::io::Errno;

use crate::Socket;
use crate::address::family;
use crate::wire::{
    APPEND, Attributes, Batch, CREATE, DUMP, EXCLUSIVE, Message, REPLACE, Request, array,
};

const NEW: u16 = 24;
const DELETE: u16 = 25;
const GET: u16 = 26;

/// Length of `struct rtmsg`.
const HEADER: usize = 12;

/// `RTA_*`.
mod rta {
    pub(super) const DST: u16 = 1;
    pub(super) const OIF: u16 = 4;
    pub(super) const GATEWAY: u16 = 5;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const PREFSRC: u16 = 7;
    pub(super) const METRICS: u16 = 8;
    pub(super) const TABLE: u16 = 15;

    pub(super) const METRIC_MTU: u16 = 2;
    pub(super) const METRIC_ADVMSS: u16 = 8;
}

/// `RT_TABLE_MAIN`.
pub const MAIN: u32 = 254;
/// `RT_SCOPE_UNIVERSE`: through a gateway.
pub const UNIVERSE: u8 = 0;

/// `RT_SCOPE_NOWHERE`, which matches every scope when a route is deleted.
const NOWHERE: u8 = 255;
/// `RTPROT_BOOT`: what ip(8) and the reference plugins write.
const BOOT: u8 = 3;
/// `RTN_UNICAST`.
const UNICAST: u8 = 1;
/// `RTM_F_FIB_MATCH`.
const MATCHED: u32 = 0x2000;
/// `RTNH_F_ONLINK`.
const GATEWAY_ON_LINK: u32 = 4;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub dst: IpNet,
    /// The next hop; connected if `None`.
    pub gateway: Option<IpAddr>,
    /// Out of the link with this index; where the gateway is if `None`.
    pub link: Option<u32>,
    /// The source address that packets get which have none yet.
    pub source: Option<IpAddr>,
    /// Metric; lower is preferred.
    pub priority: Option<u32>,
    /// Its table; [`MAIN`] by default.
    pub table: u32,
    /// `RT_SCOPE_*`: where its destinations are.
    pub scope: u8,
    /// Path MTU in bytes.
    pub mtu: Option<u32>,
    /// The segment size that TCP advertises, in bytes.
    pub advmss: Option<u32>,
    /// Whether the gateway is on the link even if no address of the link says so.
    pub gateway_on_link: bool,
}

impl Route {
    /// To `dst` through `gateway`, or directly, in the main table.
    pub fn new(dst: IpNet, gateway: Option<IpAddr>, link: Option<u32>) -> Self {
        let direct = gateway.is_none() && dst.addr().is_ipv4();
        Self {
            dst,
            gateway,
            link,
            source: None,
            priority: None,
            table: MAIN,
            scope: if direct { model::Route::ON_LINK } else { UNIVERSE },
            mtu: None,
            advmss: None,
            gateway_on_link: false,
        }
    }
}

/// The treatment of a route to the same destination with the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// EEXIST.
    Refuse,
    /// It is replaced.
    Replace,
    /// It stays in front of the new one.
    Keep,
}

/// Which routes to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Of this family.
    pub family: Family,
    /// Only those of this table.
    pub table: Option<u32>,
    /// Only those out of the link with this index.
    pub link: Option<u32>,
}

impl Batch {
    /// Adds a route; returns the message's index. EEXIST as `existing` says; ENETUNREACH if the
    /// gateway is not on a link that is up.
    pub fn add_route(&mut self, route: &Route, existing: Existing) -> usize {
        let flags = match existing {
            Existing::Refuse => CREATE | EXCLUSIVE,
            Existing::Replace => CREATE | REPLACE,
            Existing::Keep => CREATE | APPEND,
        };
        let about = format!("adding {}", sentence(route));
        let mut request = self.request(NEW, flags, about);
        request.bytes(&header(route, [BOOT, route.scope, UNICAST]));
        describe(&mut request, route);
        if route.mtu.is_some() || route.advmss.is_some() {
            request.nest(rta::METRICS, |metrics| {
                let values = [(rta::METRIC_MTU, route.mtu), (rta::METRIC_ADVMSS, route.advmss)];
                for (kind, value) in values {
                    if let Some(value) = value {
                        metrics.u32(kind, value);
                    }
                }
            });
        }
        self.count() - 1
    }

    /// Deletes a route with the destination, table, and what else is given; returns the message's
    /// index. ESRCH if there is none.
    pub fn delete_route(&mut self, route: &Route) -> usize {
        let about = format!("deleting {}", sentence(route));
        let mut request = self.request(DELETE, 0, about);
        request.bytes(&header(route, [0, NOWHERE, 0]));
        describe(&mut request, route);
        self.count() - 1
    }
}

impl Socket {
    /// The unicast routes that `which` selects, without those with several next hops.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn routes(&mut self, which: Routes) -> Result<Vec<Route>> {
        let mut batch = Batch::new();
        let mut head = [0; HEADER];
        head[0] = family(which.family);
        let mut request = batch.request(GET, DUMP, "listing routes");
        request.bytes(&head);
        if let Some(table) = which.table {
            request.u32(rta::TABLE, table);
        }
        if let Some(link) = which.link {
            request.u32(rta::OIF, link);
        }
        let selected = |route: &Route| {
            which.table.is_none_or(|table| route.table == table)
                && which.link.is_none_or(|link| route.link == Some(link))
        };
        // An unused table, or a missing link.
        let empty = [Errno::NOENT, Errno::NODEV];
        self.dump(&mut batch, &empty, |message| read(message).filter(selected))
    }

    /// The route that packets to `address` take, with the source address that they get; `None` if
    /// there is none.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn route_to(&mut self, address: IpAddr) -> Result<Option<Route>> {
        self.get_route(address, 0)
    }

    /// The route as it stands in its table by which packets to `address` go; `None` if there is none. It has no
    /// link where it has several next hops. Kernels before 4.13 answer as [`Socket::route_to`].
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn entry_to(&mut self, address: IpAddr) -> Result<Option<Route>> {
        self.get_route(address, MATCHED)
    }

    fn get_route(&mut self, address: IpAddr, flags: u32) -> Result<Option<Route>> {
        let mut batch = Batch::new();
        let dst = IpNet::from(address);
        let mut head = [0; HEADER];
        head[..2].copy_from_slice(&[family(Family::of(&dst)), dst.prefix_len()]);
        head[8..].copy_from_slice(&flags.to_ne_bytes());
        let about = format!("asking for the route to {address}");
        batch.request(GET, 0, about).bytes(&head).address(rta::DST, address);
        let absent = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::SRCH];
        self.get(&mut batch, &absent, read_any)
    }
}

fn sentence(route: &Route) -> String {
    let mut text = format!("route to {}", route.dst);
    if let Some(gateway) = route.gateway {
        text += &format!(" through {gateway}");
    }
    if let Some(link) = route.link {
        text += &format!(" out of link {link}");
    }
    text
}

/// `struct rtmsg`, with protocol, scope and type. Tables that do not fit are in an attribute.
fn header(route: &Route, [protocol, scope, kind]: [u8; 3]) -> [u8; HEADER] {
    let table = u8::try_from(route.table).unwrap_or(0);
    let family = family(Family::of(&route.dst));
    let mut bytes = [0; HEADER];
    let fields = [family, route.dst.prefix_len(), 0, 0, table, protocol, scope, kind];
    bytes[..8].copy_from_slice(&fields);
    let flags = if route.gateway_on_link { GATEWAY_ON_LINK } else { 0 };
    bytes[8..].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn describe(request: &mut Request<'_>, route: &Route) {
    if route.dst.prefix_len() > 0 {
        request.address(rta::DST, route.dst.network());
    }
    if let Some(gateway) = route.gateway {
        request.address(rta::GATEWAY, gateway);
    }
    if let Some(source) = route.source {
        request.address(rta::PREFSRC, source);
    }
    if let Some(link) = route.link {
        request.u32(rta::OIF, link);
    }
    if let Some(priority) = route.priority {
        request.u32(rta::PRIORITY, priority);
    }
    if route.table > u8::MAX.into() {
        request.u32(rta::TABLE, route.table);
    }
}

/// Reads a unicast route that stands in a table, rather than in its cache of exceptions.
pub(crate) fn read(message: &Message<'_>) -> Option<Route> {
    const CLONED: u32 = 0x200;
    let flags = u32::from_ne_bytes(array(message.payload, 8)?);
    let [kind] = array(message.payload, 7)?;
    (kind == UNICAST && flags & CLONED == 0).then(|| read_any(message)).flatten()
}

fn read_any(message: &Message<'_>) -> Option<Route> {
    let [family, prefix, _, _, table, _, scope, _] = array(message.payload, 0)?;
    (message.kind == NEW).then_some(())?;
    let attributes = message.attributes(HEADER);
    let number = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.u32());
    let address = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.address());
    let any = if family == 2 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let metrics = attributes.find_kind(rta::METRICS).map(|metrics| metrics.nested());
    let metric = |kind| metric(metrics.as_ref()?, kind);
    let flags = u32::from_ne_bytes(array(message.payload, 8)?);
    Some(Route {
        dst: IpNet::new(address(rta::DST).unwrap_or(any), prefix).ok()?,
        gateway: address(rta::GATEWAY),
        link: number(rta::OIF),
        source: address(rta::PREFSRC),
        priority: number(rta::PRIORITY),
        table: number(rta::TABLE).unwrap_or(table.into()),
        scope,
        mtu: metric(rta::METRIC_MTU),
        advmss: metric(rta::METRIC_ADVMSS),
        gateway_on_link: flags & GATEWAY_ON_LINK != 0,
    })
}

fn metric(metrics: &Attributes<'_>, kind: u16) -> Option<u32> {
    metrics.find_kind(kind)?.u32()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn what_is_written_is_read() {
        let route = Route {
            source: Some("10.0.0.2".parse().unwrap()),
            priority: Some(7),
            table: 1000,
            mtu: Some(1400),
            advmss: Some(1360),
            gateway_on_link: true,
            ..Route::new("10.1.0.0/16".parse().unwrap(), Some("10.0.0.1".parse().unwrap()), Some(3))
        };
        let mut batch = Batch::new();
        batch.add_route(&route, Existing::Refuse);
        let bytes = batch.seal(1).to_vec();
        assert_eq!(read(&Messages::new(&bytes).next().unwrap()), Some(route));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
