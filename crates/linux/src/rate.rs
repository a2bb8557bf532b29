//! Limits of what a container sends and receives, as the reference plugin `bandwidth` sets them.
//!
//! A link limits only what it sends. So the host's end of a pair limits what the container
//! receives, and what the container sends is redirected, as it comes in there, to an intermediate
//! device that limits it. A link without an end in the host is limited in the container, the other
//! way round.

use model::{
    Attachment, Bandwidth, Error, Fact, IfName, Interface, InterfaceNamespace, LinkKind, Rate,
    Result, Runtime,
};
use netlink::traffic::{Bucket, Discipline, NewIfb};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, HostLock, Link, Netns, Socket};
use sha2::{Digest, Sha256, Sha512};

use crate::identity::{GROUP, Identity, bridge_mac};
use crate::plan;

/// How long a packet waits at most, in fractions of a second: 25 ms, as with the reference plugin.
const LATENCY: u64 = 40;
/// Bytes of a frame besides its MTU (IEEE 802.3, with a VLAN's tag).
const FRAME: u64 = 18;

/// One attachment's limits, and where they are set.
struct Limits {
    /// The link whose packets are limited.
    device: IfName,
    place: InterfaceNamespace,
    /// The limit of what that link sends.
    direct: Option<Rate>,
    /// The limit of what that link receives.
    redirected: Option<Rate>,
    /// Marks the intermediate device.
    mark: String,
    names: [IfName; 2],
}

/// Sets the limits; returns the intermediate device, if there is one.
pub(crate) fn limit(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<Option<Interface>> {
    let Some(limits) = Limits::of(attachment)? else { return Ok(None) };
    limits.refuse_other(attachment, sandbox)?;
    limits.within(sandbox, |socket| limits.set(socket))
}

/// Compares the limits with what the kernel does.
pub(crate) fn check(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
    let Some(limits) = Limits::of(attachment)? else { return Ok(()) };
    limits.refuse_other(attachment, sandbox)?;
    match attachment.runtime {
        // Versions of the reference plugin differ in how they limit.
        Runtime::Reference => Ok(()),
        _ => limits.within(sandbox, |socket| limits.verify(socket)),
    }
}

/// Lifts the limits from a link that stays, and removes an intermediate device that is in the
/// container. The ones in the host are [`devices`]. What is gone is done.
pub(crate) fn lift(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
    let Some(limits) = Limits::of(attachment)? else { return Ok(()) };
    let stays = attachment.wiring.link.is_none() || limits.place == InterfaceNamespace::Sandbox;
    match (limits.place, sandbox) {
        (InterfaceNamespace::Host, _) if !stays => Ok(()),
        (InterfaceNamespace::Sandbox, None) => Ok(()),
        (_, _) => limits.within(sandbox, |socket| limits.unset(socket)),
    }
}

/// Puts the limits back that others changed, or that a killed command left half made. Whether they
/// were not as they should be.
pub(crate) fn restore(
    attachment: &Attachment,
    sandbox: Option<&Netns>,
    lock: &HostLock,
) -> Result<bool> {
    let Some(bandwidth) = &attachment.wiring.bandwidth else { return Ok(false) };
    let limits = Limits::whole(attachment, bandwidth)?;
    match (limits.place, sandbox) {
        (InterfaceNamespace::Sandbox, None) => Ok(false),
        // Two that work on one device see each other's half.
        (_, _) => lock.with(|| limits.within(sandbox, |socket| limits.mend(socket))),
    }
}

/// The intermediate devices in the host for the attachment: Spoke's, and the reference plugin's
/// where that made it.
pub(crate) fn devices(attachment: &Attachment, socket: &mut Socket) -> Result<Vec<IfName>> {
    if attachment.wiring.bandwidth.is_none() {
        return Ok(Vec::new());
    }
    let mark = mark(attachment);
    let mut found = Vec::new();
    for name in names(attachment, &mark)? {
        let Some(link) = socket.link(At::Name(&name))? else { continue };
        let is_theirs = attachment.runtime == Runtime::Reference && link.alias.is_none();
        if is_ifb(&link) && (link.alias.as_ref() == Some(&mark) || is_theirs) {
            found.push(name);
        }
    }
    Ok(found)
}

impl Limits {
    fn of(attachment: &Attachment) -> Result<Option<Self>> {
        let Some(bandwidth) = &attachment.wiring.bandwidth else { return Ok(None) };
        match bandwidth.ingress.is_none() && bandwidth.egress.is_none() {
            true => Ok(None),
            false => Self::whole(attachment, bandwidth).map(Some),
        }
    }

    /// The same where there may be none.
    fn whole(attachment: &Attachment, bandwidth: &Bandwidth) -> Result<Self> {
        let (device, place) = limited(attachment, bandwidth)?;
        let (direct, redirected) = match place {
            InterfaceNamespace::Host => (bandwidth.ingress, bandwidth.egress),
            InterfaceNamespace::Sandbox => (bandwidth.egress, bandwidth.ingress),
        };
        let mark = mark(attachment);
        let names = names(attachment, &mark)?;
        Ok(Self { device, place, direct, redirected, mark, names })
    }

    /// Refuses a device that a caller named, unless it is the other end of the container's pair: a
    /// macvlan of the container has none, and another container's end would be limited for it.
    fn refuse_other(&self, attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
        let is_named = attachment.wiring.bandwidth.as_ref().is_some_and(|it| it.device.is_some());
        let Some(sandbox) = sandbox.filter(|_| is_named) else { return Ok(()) };
        let own = plan::device(attachment);
        let inside = sandbox.enter(|| Socket::route()?.link(At::Name(own)))??;
        if inside.is_none() {
            let words = format!("container interface {own} has no veth peer");
            let whole = format!("{words}: could not look up \"{own}\": Link not found");
            let what = format!("the container has no interface {own}");
            return Err(Error::not_found(what).about(Fact::Whole(whole)));
        }
        let end = self.device(&mut Socket::route()?)?;
        let pair = |link: &Link| link.kind.as_deref() == Some("veth");
        match inside {
            // The index of the host's end is one of this namespace's; that of the container's may be any.
            Some(inside) if pair(&inside) && pair(&end) && inside.peer == Some(end.index) => Ok(()),
            Some(inside) if pair(&inside) => {
                let words = "no veth peer of container interface found in host ns";
                let more = format!("{words}: {} is not the other end of {own}", self.device);
                Err(Error::invalid(more).about(Fact::Whole(words.to_owned())))
            }
            _ => {
                let words = format!("container interface {own} has no veth peer");
                let more = format!("{words}: bandwidth is for pairs, as bridge and ptp make them");
                let whole = format!("{words}: interface \"{own}\" was not a veth interface");
                Err(Error::invalid(more).about(Fact::Whole(whole)))
            }
        }
    }

    /// Makes the limits what they should be. Whether they were not.
    fn mend(&self, socket: &mut Socket) -> Result<bool> {
        let Some(device) = socket.link(At::Name(&self.device))? else { return Ok(false) };
        let is_bucket = |it: &Discipline| matches!(it, Discipline::Bucket(_));
        let is_limited = socket.disciplines(device.index)?.iter().any(is_bucket);
        let ifb = self.ifb(socket)?;
        let is_over = self.direct.is_none() && is_limited;
        let has_ifb = self.redirected.is_none() && ifb.is_some();
        if !is_over && !has_ifb && self.verify(socket).is_ok() {
            return Ok(false);
        }
        let mut batch = Batch::new();
        if is_over {
            batch.unlimit(device.index);
        }
        if let Some(ifb) = ifb.filter(|_| has_ifb) {
            if socket.redirections(device.index)?.contains(&ifb.index) {
                batch.unfilter_ingress(device.index);
            }
            batch.delete_link(At::Index(ifb.index));
        }
        let gone = [Errno::NOENT, Errno::INVAL, Errno::NODEV];
        let sent = socket.send(&mut batch)?;
        gone.into_iter().fold(sent, netlink::Outcome::except).into_result()?;
        self.set(socket).map(|_| true)
    }

    /// Does `work` where the limited link is.
    fn within<T>(
        &self,
        sandbox: Option<&Netns>,
        work: impl FnOnce(&mut Socket) -> Result<T>,
    ) -> Result<T> {
        match (self.place, sandbox) {
            (InterfaceNamespace::Host, _) => work(&mut Socket::route()?),
            (InterfaceNamespace::Sandbox, Some(sandbox)) => {
                sandbox.enter(|| work(&mut Socket::route()?))?
            }
            (InterfaceNamespace::Sandbox, None) => Err(Error::unsupported(format!(
                "{} has no end in the host, and is limited only where we complete it in the \
                 container",
                self.device
            ))),
        }
    }

    fn set(&self, socket: &mut Socket) -> Result<Option<Interface>> {
        let device = self.device(socket)?;
        let mut batch = Batch::new();
        if let Some(rate) = &self.direct {
            batch.limit(device.index, &bucket(rate, device.mtu)?);
        }
        let Some(rate) = &self.redirected else {
            return socket.send(&mut batch)?.into_result().map(|()| None);
        };
        let (name, ifb) = self.make_ifb(socket, &device)?;
        batch.limit(ifb, &bucket(rate, device.mtu)?);
        let filtered = batch.filter_ingress(device.index);
        socket.send(&mut batch)?.except_at(filtered, Errno::EXIST).into_result()?;
        self.redirect(socket, &device, ifb)?;
        let mac = Some(bridge_mac(&name));
        Ok(Some(Interface { name, mac, mtu: None, place: self.place }))
    }

    /// Makes the intermediate device, under the reference plugin's name where that is free: two
    /// interfaces of one container in one network have the same there.
    fn make_ifb(&self, socket: &mut Socket, device: &Link) -> Result<(IfName, u32)> {
        for name in &self.names {
            match socket.link(At::Name(name))? {
                Some(there) if there.alias.as_ref() == Some(&self.mark) && is_ifb(&there) => {
                    return Ok((name.clone(), there.index));
                }
                Some(_) => {}
                None => {
                    self.new_ifb(socket, name, device)?;
                    let made = socket.link(At::Name(name))?;
                    let gone = || Error::try_again(format!("{name} was removed while it was made"));
                    return Ok((name.clone(), made.ok_or_else(gone)?.index));
                }
            }
        }
        let [first, second] = &self.names;
        Err(Error::conflict(format!("{first} and {second} exist and are of another program")))
    }

    fn new_ifb(&self, socket: &mut Socket, name: &IfName, device: &Link) -> Result<()> {
        let mut batch = Batch::new();
        let (mtu, tx_queue) = (device.mtu, device.tx_queue);
        batch.new_ifb(&NewIfb { name, mac: bridge_mac(name), mtu, tx_queue, group: GROUP });
        batch.change_link(At::Name(name), &[Change::Alias(self.mark.clone())]);
        socket.send(&mut batch)?.into_result()
    }

    /// Redirects what the link receives, unless that is done; a third party's filter would see only
    /// what Spoke's passes. A redirection to a device that is gone has no owner.
    fn redirect(&self, socket: &mut Socket, device: &Link, ifb: u32) -> Result<()> {
        let there = socket.redirections(device.index)?;
        if there.contains(&ifb) {
            return Ok(());
        }
        let mut batch = Batch::new();
        for other in &there {
            if *other != 0 && socket.link(At::Index(*other))?.is_some() {
                return Err(Error::conflict(format!(
                    "what {} receives is redirected by another program already",
                    self.device
                )));
            }
        }
        if !there.is_empty() {
            batch.unfilter_ingress(device.index);
            batch.filter_ingress(device.index);
        }
        batch.redirect_ingress(device.index, ifb);
        socket.send(&mut batch)?.into_result()
    }

    fn verify(&self, socket: &mut Socket) -> Result<()> {
        let device = self.device(socket)?;
        if let Some(rate) = &self.direct {
            let there = socket.disciplines(device.index)?;
            same(&self.device, &there, &bucket(rate, device.mtu)?)?;
        }
        let Some(rate) = &self.redirected else { return Ok(()) };
        let Some(ifb) = self.ifb(socket)? else {
            let [name, _] = &self.names;
            return Err(Error::not_found(format!("get ifb device: {name} is missing")));
        };
        if !ifb.flags.is_up() {
            return Err(Error::not_found(format!("{} is down", ifb.name)));
        }
        if !socket.redirections(device.index)?.contains(&ifb.index) {
            return Err(Error::not_found(format!(
                "what {} receives is not redirected to {}",
                self.device, ifb.name
            )));
        }
        same(&ifb.name, &socket.disciplines(ifb.index)?, &bucket(rate, device.mtu)?)
    }

    /// Removes what is unchanged since Spoke made it.
    fn unset(&self, socket: &mut Socket) -> Result<()> {
        let ifb = self.ifb(socket)?;
        let Some(device) = socket.link(At::Name(&self.device))? else {
            return self.remove_ifb(socket, ifb.as_ref());
        };
        let mut batch = Batch::new();
        let wanted = self.direct.map(|rate| bucket(&rate, device.mtu)).transpose()?;
        let there = socket.disciplines(device.index)?;
        if wanted.is_some_and(|wanted| there.contains(&Discipline::Bucket(wanted))) {
            batch.unlimit(device.index);
        }
        let redirected = socket.redirections(device.index)?;
        if ifb.as_ref().is_some_and(|ifb| redirected.contains(&ifb.index)) {
            batch.unfilter_ingress(device.index);
        }
        let gone = [Errno::NOENT, Errno::INVAL, Errno::NODEV];
        let sent = socket.send(&mut batch)?;
        let lifted = gone.into_iter().fold(sent, netlink::Outcome::except).into_result();
        lifted.and(self.remove_ifb(socket, ifb.as_ref()))
    }

    fn remove_ifb(&self, socket: &mut Socket, ifb: Option<&Link>) -> Result<()> {
        let (Some(ifb), InterfaceNamespace::Sandbox) = (ifb, self.place) else { return Ok(()) };
        let mut batch = Batch::new();
        batch.delete_link(At::Index(ifb.index));
        socket.send(&mut batch)?.except(Errno::NODEV).into_result()
    }

    fn ifb(&self, socket: &mut Socket) -> Result<Option<Link>> {
        for name in &self.names {
            let there = socket.link(At::Name(name))?;
            if let Some(link) = there.filter(|link| link.alias.as_ref() == Some(&self.mark)) {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    fn device(&self, socket: &mut Socket) -> Result<Link> {
        let gone = || Error::not_found(format!("get host device: {} is missing", self.device));
        socket.link(At::Name(&self.device))?.ok_or_else(gone)
    }
}

/// The link whose packets are limited.
fn limited(attachment: &Attachment, bandwidth: &Bandwidth) -> Result<(IfName, InterfaceNamespace)> {
    match &bandwidth.device {
        Some(device) => Ok((device.clone(), InterfaceNamespace::Host)),
        None if has_end(attachment) => Ok((plan::host_end(attachment)?, InterfaceNamespace::Host)),
        None => Ok((plan::device(attachment).clone(), InterfaceNamespace::Sandbox)),
    }
}

/// Whether the attachment's link has an end in the host that limits. Beside a switch that is a program, what
/// that end does to packets comes too late.
pub(crate) fn has_end(attachment: &Attachment) -> bool {
    attachment.wiring.link.as_ref().is_some_and(|link| match &link.kind {
        LinkKind::Plug(plug) => plug.offload,
        kind => kind.is_pair(),
    })
}

fn mark(attachment: &Attachment) -> String {
    Identity::of(&attachment.id).mark(attachment.layer)
}

/// The name of the intermediate device: that of the reference plugin, or one after its mark.
fn names(attachment: &Attachment, mark: &str) -> Result<[IfName; 2]> {
    let id = &attachment.id;
    let theirs = Sha512::digest(format!("{}{}", id.network, id.container));
    let ours = Sha256::digest(mark);
    Ok([name(&theirs)?, name(&ours)?])
}

fn name(digest: &[u8]) -> Result<IfName> {
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("bwp{hex}").parse().map_err(|_: Error| Error::bug("ifb name"))
}

fn is_ifb(link: &Link) -> bool {
    link.kind.as_deref() == Some("ifb")
}

fn same(device: &IfName, there: &[Discipline], wanted: &Bucket) -> Result<()> {
    let bucket = there.iter().find_map(|discipline| match discipline {
        Discipline::Bucket(bucket) => Some(bucket),
        Discipline::Ingress | Discipline::Other => None,
    });
    let differs = |what: &str| {
        Err(Error::not_found(format!("{what} on {device}")).about(Fact::Words(what.to_owned())))
    };
    match bucket {
        None => differs("Failed to find qdisc"),
        Some(is) if is.rate != wanted.rate => differs("Rate doesn't match"),
        Some(is) if is.limit != wanted.limit => differs("Limit doesn't match"),
        Some(is) if is.buffer != wanted.buffer => differs("Buffer doesn't match"),
        Some(_) => Ok(()),
    }
}

/// The bucket that the reference plugin makes, bit for bit, so that it finds its own.
fn bucket(rate: &Rate, mtu: u32) -> Result<Bucket> {
    let (bytes, burst) = (rate.rate / 8, rate.burst / 8);
    if bytes == 0 {
        return Err(Error::invalid(format!("invalid rate: {} is less than a byte", rate.rate)));
    }
    if burst == 0 || burst >= u64::from(u32::MAX) {
        return Err(Error::invalid(format!(
            "invalid burst: {} bits are not between a byte and 4 GB",
            rate.burst
        )));
    }
    let limit = wrap((bytes / LATENCY).wrapping_add(burst));
    Ok(Bucket { rate: bytes, buffer: ticks(bytes, burst, mtu), limit })
}

/// How long the burst lasts, in the kernel's ticks of 64 ns. The reference plugin lets long times
/// wrap around, which a usual configuration of Kubernetes does; where nothing would be left for a
/// single frame, the longest time is meant.
fn ticks(rate: u64, burst: u64, mtu: u32) -> u32 {
    let of_time = |micros: u64| micros * 125 / 8;
    let micros = burst * 1_000_000 / rate;
    if let Ok(ticks) = u32::try_from(of_time(micros)) {
        return ticks;
    }
    let wrapped = wrap(of_time(wrap(micros).into()));
    let held = u128::from(wrapped) * 64 * u128::from(rate) / 1_000_000_000;
    if held < u128::from(u64::from(mtu) + FRAME) { u32::MAX } else { wrapped }
}

fn wrap(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(rate: u64, burst: u64) -> (u64, u32, u32) {
        let bucket = bucket(&Rate { rate, burst }, 1500).unwrap();
        (bucket.rate, bucket.buffer, bucket.limit)
    }

    #[test]
    fn buckets_are_the_reference_plugins() {
        // As it made them, read back from the kernel.
        assert_eq!(made(8_000_000, 8_000_000), (1_000_000, 15_625_000, 1_025_000));
        assert_eq!(made(16_000_000, 1_000_000), (2_000_000, 976_562, 175_000));
        // Wrapped around: a burst of 27917286 bytes instead of 268435455.
        let (rate, buffer, _) = made(1_000_000, 2_147_483_647);
        assert_eq!(u64::from(buffer) * 64 * rate / 1_000_000_000, 27_917_286);
    }

    #[test]
    fn what_wraps_to_nothing_lasts_as_long_as_possible() {
        // 2^32 microseconds to the byte.
        let burst = (1u64 << 32) / 1_000_000 * 1000;
        let nothing = (1000..2000)
            .map(|rate| ticks(rate, burst * 1000, 1500))
            .filter(|ticks| u64::from(*ticks) * 64 / 1_000_000 < 1518);
        assert_eq!(nothing.count(), 0);
    }

    #[test]
    fn no_rate_is_no_bucket() {
        for (rate, burst) in [(0, 8), (7, 8), (8, 0), (8, 7), (8, 1 << 40)] {
            assert!(bucket(&Rate { rate, burst }, 1500).is_err(), "{rate} {burst}");
        }
    }
}
