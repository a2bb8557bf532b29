//! Making an attachment's link, and removing it.

use model::{
    Attached, Attachment, Form, Gateway, Handoff, IfName, Kind, LinkKind, Result, Runtime, host_net,
};
use netlink::wire::Batch;
use netlink::{At, Errno, HostLock, Link, Links, Netns, Socket};

use crate::device;
use crate::facts::{self, GatheredFacts};
use crate::identity::{GROUP, Identity, shim_link};
use crate::plan::{self, Plan};
use crate::{apply, external, loopback, ready, shared};

/// The state of a link before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing: what exists of it has no owner, and is made again.
    Nothing,
    /// The link alone, which stays.
    Connected,
}

/// Makes the link with all its parts. A link with a name of Spoke's and without a record is unused:
/// it is removed, and the link made again.
pub(crate) fn make(
    attachment: &Attachment,
    sandbox: Option<&Netns>,
    before: Before,
    lock: &HostLock,
) -> Result<Attached> {
    if let Some(external) = external::of(attachment) {
        return external::make(attachment, external, sandbox, lock);
    }
    let carry_out = || carry_out(attachment, (sandbox, lock), before, plan::attach);
    match carry_out() {
        Err(error) if error.kind() == Kind::Conflict && before == Before::Nothing => {
            match clear(attachment, sandbox)? {
                true => carry_out(),
                false => Err(error),
            }
        }
        made => made,
    }
}

/// Makes the link alone, unless it exists.
pub(crate) fn connect(
    attachment: &Attachment,
    sandbox: Option<&Netns>,
    lock: &HostLock,
) -> Result<()> {
    carry_out(attachment, (sandbox, lock), Before::Connected, plan::connect).map(drop)
}

type Planning = fn(&Attachment, &plan::Facts) -> Result<Plan>;

fn carry_out(
    attachment: &Attachment,
    (sandbox, lock): (Option<&Netns>, &HostLock),
    before: Before,
    planning: Planning,
) -> Result<Attached> {
    let Some(link) = &attachment.wiring.link else {
        return Err(model::Error::bug(format!("{} has no link to make", attachment.id)));
    };
    shared::with_lock(lock, &link.kind, || {
        alone(attachment, link, (sandbox, lock), before, planning)
    })
}

fn alone(
    attachment: &Attachment,
    link: &model::Link,
    (sandbox, lock): (Option<&Netns>, &HostLock),
    before: Before,
    planning: Planning,
) -> Result<Attached> {
    let mut socket = Socket::route()?;
    let GatheredFacts { mut facts, below } =
        facts::gather(attachment, &link.kind, sandbox, &mut socket)?;
    if before == Before::Connected {
        facts.connected = facts::connected(attachment, sandbox, &mut socket)?;
    }
    let plan = planning(attachment, &facts)?;
    apply::carry_out(&plan, below.as_ref(), (sandbox, lock), &mut socket)?;
    if let (Some(bridge), true) = (link.kind.bridge(), sandbox.is_some()) {
        ready::wait_for_port(&plan::host_end(attachment)?, &plan, &mut socket)?;
        if bridge.gateway != Gateway::None {
            ready::wait_for_bridge(&bridge.name, below.as_ref(), &plan, &mut socket)?;
        }
    }
    match below.filter(|below| link.kind.bridge().is_some() && below.group != GROUP) {
        Some(bridge) => report_mac(plan.attached, &bridge, &mut socket),
        None => Ok(plan.attached),
    }
}

/// A third party's bridge may take the hardware address of a new port.
fn report_mac(mut attached: Attached, bridge: &Link, socket: &mut Socket) -> Result<Attached> {
    let now = socket.link(At::Index(bridge.index))?;
    let named = attached.interfaces.iter_mut().find(|known| known.name == bridge.name);
    if let (Some(interface), Some(now)) = (named, now) {
        interface.mac = now.mac;
    }
    Ok(attached)
}

/// Removes what exists of the attachment's own link. Whether there was anything.
fn clear(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<bool> {
    let Some(link) = &attachment.wiring.link else { return Ok(false) };
    let mut socket = Socket::route()?;
    let identity = Identity::of(&attachment.id);
    if link.kind.is_pair() {
        let is_ours = |link: &Link| facts::is_host_end(attachment, link);
        return delete_if(&plan::host_end(attachment)?, is_ours, &mut socket);
    }
    let is_ours = |link: &Link| link.group == identity.group();
    let mut cleared = delete_if(&identity.guest_link()?, is_ours, &mut socket)?;
    if let Some(sandbox) = sandbox {
        let device = plan::device(attachment);
        let inside = || delete_if(device, is_ours, &mut Socket::route()?);
        cleared |= sandbox.enter(inside)??;
    }
    Ok(cleared)
}

fn delete_if(name: &IfName, is_ours: impl Fn(&Link) -> bool, socket: &mut Socket) -> Result<bool> {
    match socket.link(At::Name(name))? {
        Some(link) if is_ours(&link) => {
            let mut batch = Batch::new();
            batch.delete_link(At::Index(link.index));
            socket.send(&mut batch)?.except(Errno::NODEV).into_result()?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

/// Removes the link, wherever it is by now; `delete` deletes links of the calling thread's
/// namespace.
///
/// A pair is deleted by the host's end. Attachments of the reference plugins have a host's end of
/// another name, and are deleted by the container's.
pub(crate) fn remove(
    attachment: &Attachment,
    sandbox: Option<&Netns>,
    delete: &dyn Fn(&[IfName]) -> Result<()>,
) -> Result<()> {
    let Some(link) = &attachment.wiring.link else { return delete(&[]) };
    match &link.kind {
        LinkKind::Loopback => match sandbox {
            Some(sandbox) => loopback::down(sandbox),
            None => Ok(()),
        },
        LinkKind::Plug(plug) => {
            let there = Socket::route()?.link(At::Name(&plug.end))?;
            let ours = there.filter(|link| facts::is_host_end(attachment, link));
            delete(ours.map(|link| link.name).as_slice())
        }
        LinkKind::Bridge(_) | LinkKind::Ptp(_) => {
            delete(&[Identity::of(&attachment.id).host_link()?])?;
            match sandbox.filter(|_| attachment.runtime == Runtime::Reference) {
                Some(sandbox) => {
                    let device = plan::device(attachment).clone();
                    sandbox.enter(|| delete(&[device]))?
                }
                None => Ok(()),
            }
        }
        LinkKind::Device(_) => device::take_back(attachment, sandbox),
        LinkKind::ExternalInterface(there) => {
            external::put_back(attachment, there, sandbox).and(delete(&[]))
        }
        kind if kind.traits().form == Form::Foreign => delete(&[]),
        kind => remove_single(attachment, kind, sandbox, delete),
    }
}

/// The link is in the host as long as it waits for its runtime, or after that gave it back; else in the
/// container, under a name that the runtime may have chosen.
fn remove_single(
    attachment: &Attachment,
    kind: &LinkKind,
    sandbox: Option<&Netns>,
    delete: &dyn Fn(&[IfName]) -> Result<()>,
) -> Result<()> {
    let identity = Identity::of(&attachment.id);
    let unrouted = forget_routes(attachment, kind);
    delete(&[identity.guest_link()?])?;
    let Some(sandbox) = sandbox else { return unrouted };
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let inside = match attachment.handoff {
            Handoff::Finish => {
                socket.link(At::Name(plan::device(attachment)))?.into_iter().collect()
            }
            Handoff::Caller => socket.links(Links::default())?,
        };
        let is_ours = |link: &Link| {
            let is_reference = attachment.runtime == Runtime::Reference
                && link.name == *plan::device(attachment)
                && link.kind.as_deref() == kind.traits().device;
            link.group == identity.group() || is_reference
        };
        let ours: Vec<IfName> = inside.into_iter().filter(is_ours).map(|link| link.name).collect();
        if ours.is_empty() { Ok(()) } else { delete(&ours) }
    })??;
    unrouted
}

/// The host's routes to the container through the network's shim.
fn forget_routes(attachment: &Attachment, kind: &LinkKind) -> Result<()> {
    let LinkKind::Macvlan(model::Macvlan { host_access: true, .. }) = kind else { return Ok(()) };
    let mut socket = Socket::route()?;
    let name = shim_link(&attachment.id.network)?;
    let Some(shim) = socket.link(At::Name(&name))? else { return Ok(()) };
    let mut batch = Batch::new();
    for held in &attachment.addresses {
        let dst = host_net(held.address.addr());
        batch.delete_route(&netlink::Route::new(dst, None, Some(shim.index)));
    }
    socket.send(&mut batch)?.except(Errno::SRCH).into_result()
}

/// The result of a layer without a link of its own is its request.
pub(crate) fn unlinked(attachment: &Attachment) -> Attached {
    Attached {
        interfaces: Vec::new(),
        addresses: attachment.addresses.clone(),
        routes: attachment.routes.clone(),
        dns: attachment.resolves_with(),
        ..Attached::default()
    }
}
