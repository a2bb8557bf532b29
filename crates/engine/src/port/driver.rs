//! The dataplane port.

use super::Offer;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use model::{
    Attached, Attachment, ContainerId, Error, Family, IfName, Mac, Namespace, Network, PortMap,
    Result, Sandbox,
};

/// Whether what a record describes is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The container still has its interface.
    Alive,
    /// Proved gone: its namespace and its interface no longer exist.
    Gone,
    /// Neither could be proved.
    Doubtful,
}

/// What the kernel counts of a container against its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metered {
    /// How many bytes may pass.
    pub bytes: u64,
    /// How many have passed; `bytes` where it is used up.
    pub used: u64,
}

/// A thing that a driver left unchanged, because another program made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the namespace.
    pub namespace: String,
    /// What is unchanged, and why.
    pub sentence: String,
}

/// Some namespaces, and all that they are to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Near {
    /// What they are called ([`HostDataplane::namespace_named`]).
    pub namespaces: BTreeSet<String>,
    /// Every attachment in them that has names, and every one on the networks of these.
    pub records: Vec<Attachment>,
}

/// A thing of Spoke's in the kernel that no record describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// A host interface that Spoke made.
    Link(IfName),
    /// Packet filter elements with this owner mark.
    Elements(String),
    /// A network namespace of this name where an interface waits for its container.
    Parking(String),
    /// Files with which a network namespace of this name resolves names.
    Names(String),
    /// A port of a switch whose device is gone.
    SwitchPort {
        /// Where the switch keeps it.
        database: String,
        /// The port.
        name: IfName,
        /// Whose it was.
        owner: String,
    },
}

/// The parts of the host that belong to no single attachment: namespaces, their resolver
/// configuration, and strays.
pub trait HostDataplane {
    /// The kernel's identity of the sandbox's namespace, where that allows to check later whether
    /// the namespace exists.
    fn namespace(&self, sandbox: &Sandbox) -> Option<Namespace> {
        let _ = sandbox;
        None
    }

    /// Whether the end of the namespace is proved, whatever became of its path.
    fn is_ended(&self, namespace: &Namespace) -> bool {
        let _ = namespace;
        false
    }

    /// Writes hosts files and resolver configuration into the namespaces of these records, which
    /// are attached, where a namespace has files for that. Namespaces of no record lose them.
    /// `records` is called under the driver's lock, so that the last caller has all records.
    /// Returns what stays as it is. Repeating it is no error.
    fn name(&self, records: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<Note>> {
        let _ = records;
        Ok(Vec::new())
    }

    /// The same of some namespaces only ([`Near`]), where the one at `path` is one of them.
    fn name_near(&self, path: &Path, near: &dyn Fn() -> Result<Near>) -> Result<Vec<Note>> {
        let _ = (path, near);
        Ok(Vec::new())
    }

    /// The name of the namespace at `path` if it has files for its resolver configuration, and the
    /// other names of containers that were in it last; `None` where it has no such files.
    fn namespace_named(&self, path: &Path) -> Option<(String, BTreeSet<ContainerId>)> {
        let _ = path;
        None
    }

    /// What Spoke made in the kernel that belongs to no record, and whether its container is
    /// provably gone. `records` is called after the kernel was read.
    fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>>;

    /// Whether the attachment of this record would have made it. A driver without strays has none.
    fn is_of(&self, stray: &Stray, record: &Attachment) -> bool {
        let _ = (stray, record);
        false
    }

    /// The same of the switches that networks name. What does not answer has none.
    fn switch_strays(
        &self,
        networks: &[Network],
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let _ = (networks, records);
        Ok(Vec::new())
    }

    /// Removes it.
    fn remove_stray(&self, stray: &Stray) -> Result<()>;
}

/// Whether a record is still as the caller knows it.
pub type Still<'a> = &'a dyn Fn() -> Result<bool>;

/// Lists attachments with rules behind one bridge: it reads every record, and mostly is not asked.
pub type Neighbours<'a> = &'a dyn Fn() -> Result<Vec<Attachment>>;

/// Makes and unmakes what an attachment's record describes.
///
/// Everything that a driver makes is named after the attachment's identity or recorded in the
/// attachment, so that [`Driver::detach`] needs nothing else and can be repeated at any time.
pub trait Driver: HostDataplane {
    /// Makes every part of the attachment's wiring. On an error the caller detaches.
    ///
    /// Where the attachment has a [`model::GatewayRole`], neither its default routes nor its
    /// published ports are made until [`Driver::set_gateway`] is called. [`Attached::routes`] has
    /// those routes all the same, each with its next hop if it has one, so that the engine knows
    /// which attachment can be the default gateway. [`Driver::check`] expects only those of
    /// [`model::GatewayRole::families`] in the kernel.
    fn attach(&self, attachment: &Attachment) -> Result<Attached>;

    /// Makes the link alone, up and without addresses, for a source that is asked over it. On an
    /// error the caller detaches.
    fn connect(&self, attachment: &Attachment) -> Result<()> {
        Err(Error::unsupported(format!(
            "{}: its driver makes no link before there are addresses",
            attachment.id
        )))
    }

    /// Makes a link whose maker chooses the addresses too ([`model::Wiring::chooses_addresses`]),
    /// and returns them. The link is made in the attachment's sandbox, or aside where there is none
    /// yet. On an error the caller detaches.
    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        Err(Error::unsupported(format!("{}: its driver chooses no addresses", attachment.id)))
    }

    /// Makes an attachment again what it was when it was reserved.
    fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        self.detach(attachment)
    }

    /// Makes the rest of what [`Driver::connect`] or [`Driver::offer`] began, once the addresses are
    /// known.
    fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        self.attach(attachment)
    }

    /// Which of the attachment's addresses another host answers for on the segment of the link that
    /// [`Driver::connect`] made. It waits for answers, for a fraction of a second.
    fn answers(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        let _ = attachment;
        Ok(Vec::new())
    }

    /// Removes every part of the attachment's wiring; what is already gone is done.
    fn detach(&self, attachment: &Attachment) -> Result<()>;

    /// Compares the kernel with what the attachment should be and names the first difference.
    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()>;

    /// Whether the container still has what the record describes.
    fn presence(&self, attachment: &Attachment) -> Presence;

    /// Restores what other programs may remove from an attachment: its packet filter, its port of a
    /// switch. Parts that are present stay as they are. Returns whether anything was missing.
    fn restore(&self, attachment: &Attachment) -> Result<bool>;

    /// Removes what [`Driver::restore`] puts back; what is already gone is done.
    fn unfilter(&self, attachment: &Attachment) -> Result<()> {
        let _ = attachment;
        Ok(())
    }

    /// Removes what [`Driver::restore`] has put back for addresses of `before` that `now`, the same attachment made
    /// anew, does not have. What is not there is done.
    fn withdraw_addresses(&self, before: &Attachment, now: &Attachment) -> Result<()> {
        let _ = (before, now);
        Ok(())
    }

    /// Refuses a port of the host for the attachment, where a program of this host has the port, or
    /// the kernel does not speak its protocol.
    fn refuse_port(&self, attachment: &Attachment, map: &PortMap) -> Result<()> {
        let _ = (attachment, map);
        Ok(())
    }

    /// Stops leading these ports of the host to the attachment, which stays with the rest of its
    /// ports. What is not there is done.
    fn withdraw_ports(&self, attachment: &Attachment, gone: &[PortMap]) -> Result<()> {
        let _ = gone;
        Err(Error::unsupported(format!(
            "{}: its driver withdraws no port while the container runs",
            attachment.id
        )))
    }

    /// Sets the limits of an attached container to those that its wiring has, and no others.
    fn limit(&self, attachment: &Attachment) -> Result<()> {
        Err(Error::unsupported(format!(
            "{}: its driver sets no limits while the container runs",
            attachment.id
        )))
    }

    /// What the kernel counts of an attached container whose wiring has a quota; none where it counts nothing.
    fn metered(&self, attachment: &Attachment) -> Result<Option<Metered>> {
        let _ = attachment;
        Ok(None)
    }

    /// Has the kernel count the container's bytes in both directions from here on, and drop what is over,
    /// whatever it counted before. Without this process it holds too. [`Driver::detach`] and
    /// [`Driver::unfilter`] end it.
    fn meter(&self, attachment: &Attachment, metered: Metered) -> Result<()> {
        let _ = metered;
        Err(Error::unsupported(format!("{}: its driver knows no quotas", attachment.id)))
    }

    /// Ends that; what is not counted is no error.
    fn unmeter(&self, attachment: &Attachment) -> Result<()> {
        let _ = attachment;
        Ok(())
    }

    /// Refuses the rules that the wiring of an attached container has alone, where something leads past them.
    fn refuse_fence(&self, attachment: &Attachment) -> Result<()> {
        let _ = attachment;
        Ok(())
    }

    /// Before a container has strict rules of its own: puts the rules back that neighbours behind its bridge have lost,
    /// with nothing allowed, and the checks of what they send. Its rules let packets of the whole bridge be routed.
    ///
    /// # Errors
    /// Where one of them cannot be shut: nothing may be let pass then.
    fn shut_neighbours(&self, now: &Attachment, neighbours: Neighbours<'_>) -> Result<()> {
        let (_, _) = (now, neighbours);
        Ok(())
    }

    /// Has the rules hold that the wiring of an attached container has alone now, or its network's, whatever
    /// held before.
    fn fence(&self, now: &Attachment) -> Result<()> {
        Err(Error::unsupported(format!("{}: its driver knows no egress rules", now.id)))
    }

    /// Changes an attached container's link and ports from what `before` says to what `after` says:
    /// another MTU, and from where its ports are reached. What another process made of these meanwhile is undone, also
    /// where both say the same. Repeating it is no error.
    fn revise(&self, before: &Attachment, after: &Attachment) -> Result<()> {
        let _ = after;
        let id = &before.id;
        Err(Error::unsupported(format!(
            "{id}: its driver changes nothing while the container runs"
        )))
    }

    /// The same of what the attachments of a network share and what exists: the MTU of its bridge.
    fn retune(&self, network: &Network) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// Refuses a network's way where others could lead past it, or none can be made, before it is recorded.
    fn refuse_way(&self, network: &Network) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// Refuses a network whose packets would leave with an address that no host can have, before it is declared. One
    /// that this host lacks may go and come.
    fn refuse_sources(&self, network: &Network) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// Has the network leave by the way that it has now, or as the host does where it has none any more, whatever
    /// held before. No packet leaves by another way meanwhile; flows that left by the former one end.
    /// `attachments`: those of all networks, of which one may be the way. Nothing is changed from when `still` says
    /// that the network's record has another way by now: [`model::Kind::TryAgain`]. Repeating it is no error.
    fn lead(&self, network: &Network, attachments: &[Attachment], still: Still<'_>) -> Result<()> {
        let (_, _, _) = (network, attachments, still);
        Ok(())
    }

    /// As [`Driver::restore`], of what it shares with others: that the host's own filter lets its packets pass.
    fn restore_shared(&self, attachment: &Attachment) -> Result<bool> {
        let _ = attachment;
        Ok(false)
    }

    /// Refuses a bridge of a network that is put back where its name is another program's device: the device would go
    /// with the network. Engines name bridges of their own, which they may.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`], with the device.
    fn refuse_bridge(&self, network: &Network) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// The hardware address of the bridge that a network's attachments share, where that exists.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    fn shared_hardware(&self, network: &Network) -> Result<Option<Mac>> {
        let _ = network;
        Ok(None)
    }

    /// The hardware address that the attachment's interface will have, or has.
    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac>;

    /// Whether the network's base exists now, such as a parent device.
    fn status(&self, _network: &Network) -> Result<()> {
        Ok(())
    }

    /// Announces the network to the maker of its links, where that is necessary before the first
    /// attachment. Its addresses are known ([`super::Ipam::request`]). Called once in the network's
    /// life, independent of restarts. On an error the caller removes.
    fn create(&self, network: &Network) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// Whether [`Driver::attach`] and [`Driver::complete`] do what [`Driver::set_gateway`] would do
    /// next, for those of [`model::GatewayRole::families`] for which [`Attached::routes`] has a
    /// default route.
    fn sets_gateway_at_once(&self, attachment: &Attachment) -> bool {
        let _ = attachment;
        false
    }

    /// The caller is about to wait for another process: what the driver keeps for calls to come, and others
    /// may need, goes, such as the only connection that a plugin serves.
    fn pause(&self) {}

    /// Makes the attachment the default gateway of its sandbox for these families and no others:
    /// its default routes, which [`Attached::routes`] of its phase names, and the ports of the host
    /// that lead to it. With no families it is none any more. [`model::GatewayRole::families`] has
    /// the previous state, as far as it is known. Repeating it is no error; [`Driver::detach`]
    /// undoes it too.
    fn set_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let _ = families;
        Err(Error::unsupported(format!(
            "{}: its driver does not know how to lead a sandbox out",
            attachment.id
        )))
    }

    /// Makes what the network's attachments share, such as its bridge with its gateway addresses,
    /// before the first of them comes. What exists already stays.
    fn up(&self, network: &Network) -> Result<()>;

    /// Removes what the network's attachments share, such as its bridge.
    fn remove(&self, network: &Network) -> Result<()>;
}
