//! A cluster with an etcd of its own: how it begins, and how a host joins it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use cluster::enrollment::{Pinned, ask_pinned, is_other, wire};
use cluster::trust::{Authority, Files, OwnCertificate, Pending, Serial, Usage, Validity};
use cluster::{Access, Door, JoinToken, TokenId, Url, View, book};
use host::hosts::Me;
use host::time;
use model::{ClusterHost, Error, HostName, Kind, Result};
use netlink::Socket;
use serde::{Deserialize, Serialize};

use super::authority::issued_by;
use super::join_server::DOOR;
use super::server::{self, Server};
use crate::Daemon;
use crate::hosts::Hosts;
use crate::hosts::member::{self, Member};

/// How long etcd has to answer after its start.
const START: Duration = Duration::from_secs(20);
/// How long to wait until it is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// For documentation (RFC 5737, RFC 3849): they are on every host behind the default route.
const ELSEWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1)),
];
/// No packet is sent to it.
const DISCARD: u16 = 9;

/// The file of a host that is joining.
const JOINING: &str = "joining.json";

/// What a host has of its certificate while it asks for it.
#[derive(Serialize, Deserialize)]
struct Joining {
    token: TokenId,
    key: String,
}

impl Hosts {
    /// Begins a cluster whose etcd this host runs.
    pub(in crate::hosts) fn begin(&self, daemon: &Daemon, me: Me) -> Result<()> {
        Server::program()?;
        if me.access != Access::default() {
            return Err(Error::invalid(
                "certificates and users of an etcd are named with --etcd URL",
            ));
        }
        let address = me.address.map_or_else(usual_address, Ok)?;
        overlay::underlay_mtu(address, &mut Socket::route()?)?;
        let files = self.files();
        // What an earlier try left that came to nothing.
        self.forget_own()?;
        match self.try_to_begin(daemon, (&me.name, address), &files) {
            // From here on this host is a member, whether it hears of the cluster in time or not.
            Ok(member) => self.enter_as(member)?,
            Err(error) => {
                Member::forget(&self.place)?;
                self.forget_own()?;
                return Err(error);
            }
        }
        // The token that is printed next is of use at once.
        self.wait(START, |state| state.is_open);
        Ok(())
    }

    fn try_to_begin(
        &self,
        daemon: &Daemon,
        (name, address): (&HostName, IpAddr),
        files: &Files,
    ) -> Result<Member> {
        let authority = Authority::new(time::now())?;
        files.keep_authority(&authority)?;
        let life = daemon.context_pool.config().hosts.certificate_seconds;
        let own = certify_self(files, &authority, (name, Usage::Client), life)?;
        let served = certify_self(files, &authority, (name, Usage::Server(address)), life)?;
        files.write_revocations(&authority, &Default::default(), time::now())?;
        self.server.set_up((name, address), files, &[])?;
        self.server.start()?;
        let etcd = vec![server::client(address).parse()?];
        let member = member_of(files, (name, address), etcd);
        let client = member.etcd()?;
        let end = Instant::now() + START;
        while let Err(error) = client.servers() {
            if Instant::now() >= end || daemon.sleep(PAUSE) {
                return Err(error.context("starting the cluster's etcd"));
            }
            self.server.start()?;
        }
        member.write(&self.place)?;
        let host = ClusterHost::new(address, time::now());
        book::form(&client, name, &host)?;
        book::put_server(&client, name, true)?;
        for own in [&own, &served] {
            record(&client, name, own)?;
        }
        self.set(|state| state.signs = true);
        Ok(member)
    }

    /// Joins a cluster by the hosts that have its authority's key.
    pub(in crate::hosts) fn join_by(&self, door: &Door, token: &JoinToken, me: Me) -> Result<()> {
        if me.access != Access::default() {
            return Err(Error::invalid(
                "the cluster has an etcd of its own: the token has all that is needed for it",
            ));
        }
        let (first, _) =
            door.hosts.split_first().ok_or_else(|| Error::invalid("an empty token"))?;
        let address = me.address.map_or_else(|| own_address(*first), Ok)?;
        overlay::underlay_mtu(address, &mut Socket::route()?)?;
        self.forget_own()?;
        let (key, is_new) = self.joining(&token.id)?;
        let ask = wire::Ask::Join {
            id: token.id.clone(),
            secret: token.secret.clone(),
            name: me.name.clone(),
            address,
            key: key.public()?,
        };
        let certified = ask_first(door, &ask).or_else(|(error, may_be_member)| {
            if is_new && !may_be_member {
                member::remove(&self.place.join(JOINING))?;
            }
            Err(error)
        })?;
        let files = self.files();
        files.keep_certificate(&certified.authority)?;
        let own = OwnCertificate {
            serial: None,
            record: None,
            since: time::now(),
            until: certified.until,
        };
        files.keep(&files.host_path(), &key, &certified.certificate, &own)?;
        let member = member_of(&files, (&me.name, address), certified.servers);
        member.write(&self.place)?;
        member::remove(&self.place.join(JOINING))?;
        self.enter_as(member)
    }

    /// The key with which this host asks to join by a token, and whether it is a new one. It shows the same one again
    /// where it did not hear the answer: the token is this key's from its use on.
    fn joining(&self, token: &TokenId) -> Result<(Pending, bool)> {
        let known: Option<Joining> = member::read(&self.place.join(JOINING))?;
        if let Some(known) = known.filter(|known| known.token == *token) {
            return Ok((Pending::read(&known.key)?, false));
        }
        let key = Pending::new()?;
        let joining = Joining { token: token.clone(), key: key.text() };
        member::write(&self.place, JOINING, &joining)?;
        Ok((key, true))
    }

    /// Removes this host's server of etcd, and its certificates.
    pub(in crate::hosts) fn forget_own(&self) -> Result<()> {
        self.set(|state| state.signs = false);
        self.server.remove()?;
        self.files().remove()
    }

    /// Where a host that joins is let in, where the cluster has an etcd of its own.
    pub(in crate::hosts) fn door(&self, member: &Member, view: &View) -> Result<Option<Door>> {
        if !member.own_etcd {
            return Ok(None);
        }
        book::refuse_while_rotating(view)?;
        let authority = issued_by(&self.files(), view)?;
        let hosts = view.servers.keys().filter_map(|name| view.hosts.get(name));
        let hosts = hosts.map(|host| SocketAddr::new(host.address, DOOR)).collect();
        Ok(Some(Door { hosts, authority }))
    }
}

/// A new key and certificate of this host, signed by this host.
pub(in crate::hosts) fn certify_self(
    files: &Files,
    authority: &Authority,
    (name, usage): (&HostName, Usage),
    life: u32,
) -> Result<OwnCertificate> {
    let (key, serial, now) = (Pending::new()?, Serial::new()?, time::now());
    let (certificate, record) =
        authority.sign(&key.public()?, (name, usage), &serial, Validity { now, life })?;
    let own = OwnCertificate {
        since: now,
        until: record.expires,
        serial: Some(serial),
        record: Some(record),
    };
    let path = match usage {
        Usage::Client => files.host_path(),
        Usage::Server(_) => files.server_path(),
    };
    files.keep(&path, &key, &certificate, &own)?;
    Ok(own)
}

/// Makes a certificate that this host has signed itself known.
pub(in crate::hosts) fn record(
    etcd: &cluster::Etcd,
    name: &HostName,
    own: &OwnCertificate,
) -> Result<()> {
    let (Some(serial), Some(record)) = (&own.serial, &own.record) else { return Ok(()) };
    let view = cluster::Cluster::read(etcd)?;
    let record = record.clone();
    book::certify(etcd, &view, book::Certified { host: name, serial, record }, None)
}

fn member_of(files: &Files, (name, address): (&HostName, IpAddr), etcd: Vec<Url>) -> Member {
    let access = Access {
        ca: Some(files.authority_path()),
        certificate: Some(files.host_path()),
        key: Some(files.host_path()),
        ..Access::default()
    };
    Member { name: name.clone(), address, etcd, access, own_etcd: true }
}

/// By the first host that answers. One that refuses speaks for all: they have the same records. One whose certificate
/// is not the cluster's speaks for no host. With an error goes whether this host may be a member all the same.
fn ask_first(door: &Door, ask: &wire::Ask) -> Result<wire::Certified, (Error, bool)> {
    let (mut failure, mut other) = (Error::invalid("the token names no host"), None);
    let mut may_be_member = false;
    for at in &door.hosts {
        match ask_pinned(*at, Pinned(door.authority.clone()), ask) {
            Ok(wire::Reply::Certified(certified)) => return Ok(certified),
            Ok(_) => {
                return Err((
                    Error::bug(format!(
                        "the host at {at} gave an unexpected answer to a request for a certificate"
                    )),
                    true,
                ));
            }
            Err(error) if error.kind() == Kind::TryAgain => {
                (failure, may_be_member) = (error, true);
            }
            Err(error) if is_other(&error) => other = other.or(Some(error)),
            Err(error) => {
                let is_refusal =
                    matches!(error.kind(), Kind::Denied | Kind::Conflict | Kind::Unsupported);
                return Err((error, may_be_member || !is_refusal));
            }
        }
    }
    Err((other.unwrap_or(failure), may_be_member))
}

/// Where other hosts reach this one: the address of its default route, or the only one that it has; one of IPv4 where
/// there are both.
fn usual_address() -> Result<IpAddr> {
    let routed = ELSEWHERE.into_iter().find_map(|to| {
        let any = if to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            IpAddr::from(Ipv6Addr::UNSPECIFIED)
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // Nothing is sent.
        socket.connect((to, DISCARD)).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    });
    if let Some(address) = routed.filter(|address| member::is_reached(*address)) {
        return Ok(address);
    }
    let held = Socket::route()?.addresses(None)?;
    let held: Vec<IpAddr> =
        held.iter().map(|held| held.address.addr()).filter(|it| member::is_reached(*it)).collect();
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = held.into_iter().partition(IpAddr::is_ipv4);
    match (v4.as_slice(), v6.as_slice()) {
        ([only], _) | ([], [only]) => Ok(*only),
        _ => Err(Error::invalid(
            "this host has no default route: say with --address where other hosts reach it",
        )),
    }
}

fn own_address(door: SocketAddr) -> Result<IpAddr> {
    member::own_address(&format!("https://{door}").parse()?)
}
