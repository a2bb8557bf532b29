//! Ends connections of a container. The kernel finds them by what they have in common, and lists
//! none: a list costs a lock for each bucket of the table, which all namespaces share, however few connections there are.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Family, Result};
use rustix::io::Errno;

use super::{
    BY_PORT, BY_PROTOCOL, DELETE, DESTINATION, DESTINATION_NAT, DESTINATION_PORT, FILTER,
    FILTER_ORIGINAL, Flow, ORIGINAL, PROTOCOL_NUMBER, REPLY, SOURCE, STATUS, TUPLE_ADDRESSES,
    TUPLE_PROTOCOL, flush_of,
};
use crate::Socket;
use crate::wire::{Batch, Request};

/// `CTA_STATUS_MASK`.
const STATUS_MASK: u16 = 26;
/// `CTA_FILTER_REPLY_FLAGS`.
const FILTER_REPLY: u16 = 2;
/// The bits of the source and of the destination address.
const BY_SOURCE: u32 = 1;
const BY_DESTINATION: u32 = 1 << 1;
/// Each costs a pass over the table; of more one list is cheaper.
const FEW: usize = 8;

/// Connections whose first packet went to a port, and was led to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Led {
    /// The number of their protocol: TCP, UDP or SCTP.
    pub protocol: u8,
    /// Where that packet was sent to.
    pub port: u16,
    /// Only those sent to this address, of the family of `to`.
    pub host: Option<IpAddr>,
    /// Where they were led to.
    pub to: IpAddr,
}

impl Led {
    fn has(&self, flow: &Flow) -> bool {
        flow.led_to == Some(self.to)
            && flow.to.port() == self.port
            && self.host.is_none_or(|host| host == flow.to.ip())
    }
}

/// Deletes these tracked connections in the socket's namespace, in whatever zone. The socket is a [`Socket::netfilter`].
///
/// # Errors
/// As [`Socket::dump`] and [`Socket::send`]. A kernel that tracks nothing has nothing to delete.
pub fn end_led(socket: &mut Socket, led: &BTreeSet<Led>) -> Result<()> {
    let (v4, v6): (BTreeSet<Led>, BTreeSet<Led>) = led.iter().partition(|some| some.to.is_ipv4());
    if !select_and_delete(socket, &v4, select_led)? {
        list_and_delete(socket, Family::V4, &v4)?;
    }
    list_and_delete(socket, Family::V6, &v6)
}

/// The same of those whose first packet these addresses sent.
///
/// # Errors
/// As [`end_led`].
pub fn end_sent_by(socket: &mut Socket, sources: &[IpAddr]) -> Result<()> {
    let (v4, mut rest): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) =
        sources.iter().partition(|source| source.is_ipv4());
    if !select_and_delete(socket, &v4, select_sender)? {
        rest.extend(v4);
    }
    match rest.is_empty() {
        true => Ok(()),
        false => super::end(socket, |flow| rest.contains(&flow.source)).map(drop),
    }
}

/// `false` where these are too many, or the kernel cannot (before Linux 6.8): to such a one each message is the tuple of
/// one connection, and incomplete. All are of IPv4: by an address of IPv6 the kernel selects the connections that do not
/// have it (`ctnetlink_filter_match_tuple` of Linux 6.18).
fn select_and_delete<T>(
    socket: &mut Socket,
    all: &BTreeSet<T>,
    select: impl Fn(&mut Request<'_>, &T),
) -> Result<bool> {
    if all.len() > FEW {
        return Ok(false);
    }
    let mut batch = Batch::new();
    for some in all {
        let mut request = batch.request(DELETE, 0, "forgetting tracked connections");
        request.bytes(&[crate::address::family(Family::V4), 0, 0, 0]);
        select(&mut request, some);
    }
    let outcome = socket.send(&mut batch)?.except(Errno::NOENT);
    let cannot = [Errno::INVAL, Errno::OPNOTSUPP];
    match outcome.failures().iter().any(|failure| cannot.contains(&failure.errno)) {
        true => Ok(false),
        false => outcome.into_result().map(|()| true),
    }
}

fn select_sender(request: &mut Request<'_>, by: &IpAddr) {
    request.nest(ORIGINAL, |tuple| address(tuple, SOURCE, *by)).nest(FILTER, |filter| {
        filter.u32(FILTER_ORIGINAL, BY_SOURCE);
    });
}

fn select_led(request: &mut Request<'_>, led: &Led) {
    request.nest(ORIGINAL, |tuple| {
        if let Some(host) = led.host {
            address(tuple, DESTINATION, host);
        }
        tuple.nest(TUPLE_PROTOCOL, |inner| {
            inner.u8(PROTOCOL_NUMBER, led.protocol).be16(DESTINATION_PORT, led.port);
        });
    });
    request.nest(REPLY, |tuple| address(tuple, SOURCE, led.to));
    let by_host = led.host.map_or(0, |_| BY_DESTINATION);
    request.nest(FILTER, |filter| {
        filter.u32(FILTER_ORIGINAL, BY_PROTOCOL | BY_PORT | by_host).u32(FILTER_REPLY, BY_SOURCE);
    });
    request.be32(STATUS, DESTINATION_NAT).be32(STATUS_MASK, DESTINATION_NAT);
}

fn address(tuple: &mut Request<'_>, [v4, v6]: [u16; 2], address: IpAddr) {
    tuple.nest(TUPLE_ADDRESSES, |inner| {
        match address {
            IpAddr::V4(address) => inner.attribute(v4, &address.octets()),
            IpAddr::V6(address) => inner.attribute(v6, &address.octets()),
        };
    });
}

fn list_and_delete(socket: &mut Socket, family: Family, led: &BTreeSet<Led>) -> Result<()> {
    let protocols: BTreeSet<u8> = led.iter().map(|some| some.protocol).collect();
    for protocol in protocols {
        let of_it = || led.iter().filter(|some| some.protocol == protocol);
        let ports = of_it().map(|some| some.port).collect();
        let is_led = |flow: &Flow| of_it().any(|some| some.has(flow));
        flush_of(socket, &[family], (protocol, &ports), is_led)?;
    }
    Ok(())
}
