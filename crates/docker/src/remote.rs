//! Back end: remote drivers of libnetwork's, plugins of somebody else that speak the protocol of
//! [`crate::wire`]. Here we are libnetwork (moby `libnetwork/docs/remote.md` and `ipam.md`).
//!
//! Whatever a driver did for us is undone by another call. That call is in the ledger before the
//! first is sent, or as soon as its answer says what it gave, and is struck out once it was carried out:
//! rolling back, detaching and retrying are all the same. Nothing that fails on the way back fails
//! for whoever detaches: it stays in the ledger as *owed*, and [`Remote::settle`] tries it again,
//! in whatever process.

pub mod calls;
pub mod said;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::port::Offer;
use model::{
    Attachment, AttachmentId, DriverName, Error, Family, IfName, IpNet, Mac, Network, NetworkName,
    Result, Timestamp,
};

use crate::wire::{Answer, Call, Discovery, Profile};
use calls::{Calls, Failed, Fate, Life};

/// Where plugins are, where the ledger is, and what time it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where plugins have their sockets: `NAME.sock` or `NAME/NAME.sock`.
    pub sockets: Vec<PathBuf>,
    /// Where files say how to reach plugins, in order: `NAME.spec` or `NAME.json`, or the same in a
    /// directory `NAME`.
    pub descriptions: Vec<PathBuf>,
    /// How long a plugin has for an answer.
    pub patience: Duration,
    /// The ledger's directory: durable, our own. It is made when the first call is written down.
    pub ledger: PathBuf,
    /// This boot's id (`/proc/sys/kernel/random/boot_id`): endpoints of another one are owed at
    /// once, as their sandboxes are gone.
    pub boot: String,
    /// The clock: for showing, and for pauses between retries.
    pub now: fn() -> Timestamp,
}

/// The networks and addresses of remote drivers. Cheap to make; may be shared by threads.
pub struct Remote {
    calls: Arc<dyn Calls>,
    settings: Settings,
}

/// What became of an endpoint that joined its sandbox.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The kernel's part of the attachment: its link is [`model::LinkKind::Ready`], or none where the
    /// driver put an interface into the sandbox by itself. Its default routes are those that it has
    /// to have by itself now: all where nobody decides on them, none before [`Remote::leading`] where
    /// Spoke does.
    pub kernel: Attachment,
    /// For [`model::Attached::keeps_in`].
    pub keeps_in: bool,
    /// For which families the driver named a way out: a gateway, or a default route.
    pub gateways: Vec<Family>,
    /// What the name of the interface is to begin with, as the driver said (libnetwork's
    /// `DstPrefix`).
    pub prefix: Option<IfName>,
}

/// A call that a plugin is still owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debt {
    /// On whose behalf.
    pub who: Debtor,
    /// Who is to be called; nobody where the ledger cannot be read.
    pub driver: Option<DriverName>,
    /// Which call, for a person to read.
    pub what: String,
    /// Since when.
    pub since: Timestamp,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try failed; empty before the first.
    pub error: String,
    /// No call can settle it: it is not known what the driver gave, as its answer was lost. It goes
    /// with the pool that it belongs to, or when somebody forgets it ([`Remote::forget`]).
    pub is_lost: bool,
    /// Its page in the ledger, for [`Remote::forget`].
    pub page: String,
}

/// On whose behalf a call is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Debtor {
    /// A network's.
    Network(NetworkName),
    /// An attachment's.
    Attachment(AttachmentId),
    /// Nobody knows: the page cannot be read.
    Unreadable,
}

/// Which debts are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Those whose pause is over.
    Due,
    /// All of them, at once.
    Now,
}

/// What [`Remote::settle`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Debts that are settled.
    pub done: Vec<Debt>,
    /// Debts that are left.
    pub left: Vec<Debt>,
}

impl Remote {
    /// As these settings say. Does no I/O.
    pub fn open(settings: Settings) -> Self {
        Self::over(Arc::new(Nobody), settings)
    }

    /// The same, with plugins that are reached in another way.
    pub fn over(calls: Arc<dyn Calls>, settings: Settings) -> Self {
        Self { calls, settings }
    }

    // --- addresses: the port Ipam, where the attachment's or network's is `Ipam::Remote` ---

    /// Gets a network's pools, with their gateways and auxiliary addresses, and tells what was given.
    /// A pool of the driver's choice that overlaps with one of those in `busy` (the subnets that this
    /// host is connected to; asked only if it matters) is refused. Where it fails on the way it gives
    /// back what it got.
    pub fn request(
        &self,
        network: &Network,
        busy: &dyn Fn() -> Result<Vec<IpNet>>,
    ) -> Result<model::Ipam> {
        let _ = busy;
        Err(soon(&network.name))
    }

    /// Gives back what [`Remote::request`] got. What fails is owed; an error means that not even
    /// that could be written down.
    pub fn remove_pools(&self, network: &Network) -> Result<()> {
        Err(soon(&network.name))
    }

    /// Gets an address of each family that the network has pools of. The offer's link is the
    /// attachment's, with a hardware address where the driver requires one.
    pub fn lease(&self, attachment: &Attachment) -> Result<Offer> {
        Err(soon(&attachment.id.network))
    }

    /// Gives the attachment's addresses back; as [`Remote::remove_pools`].
    pub fn release(&self, attachment: &Attachment) -> Result<()> {
        Err(soon(&attachment.id.network))
    }

    /// Whether every address that the attachment has is still written down as the driver's.
    pub fn check_addresses(&self, attachment: &Attachment) -> Result<()> {
        Err(soon(&attachment.id.network))
    }

    /// Whether the network's IPAM driver could be asked for an address now.
    pub fn address_status(&self, network: &Network) -> Result<()> {
        Err(soon(&network.name))
    }

    // --- links: the port Driver, where the link is `LinkKind::Remote` ---

    /// CreateNetwork. Its addresses are known by now.
    pub fn create(&self, network: &Network) -> Result<()> {
        Err(soon(&network.name))
    }

    /// DeleteNetwork; as [`Remote::remove_pools`].
    pub fn remove(&self, network: &Network) -> Result<()> {
        Err(soon(&network.name))
    }

    /// Whether the network's driver could make an endpoint now.
    pub fn status(&self, network: &Network) -> Result<()> {
        Err(soon(&network.name))
    }

    /// CreateEndpoint, with the addresses and the hardware address that the attachment has. The offer
    /// holds these and what the driver added.
    pub fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        Err(soon(&attachment.id.network))
    }

    /// Join. What is left is the kernel's.
    pub fn join(&self, attachment: &Attachment) -> Result<Joined> {
        Err(soon(&attachment.id.network))
    }

    /// The kernel's part of an attachment that has joined, from the ledger; none where it has not.
    /// Calls nobody.
    pub fn made(&self, attachment: &Attachment) -> Result<Option<Attachment>> {
        Err(soon(&attachment.id.network))
    }

    /// The same with the default routes of these families and no others: for [`linux`'s part of
    /// leading the sandbox out](engine::port::Driver::lead).
    pub fn leading(
        &self,
        attachment: &Attachment,
        families: &[Family],
    ) -> Result<Option<Attachment>> {
        let _ = families;
        Err(soon(&attachment.id.network))
    }

    /// Before the kernel's part is undone: RevokeExternalConnectivity, where ports are published, and
    /// Leave; as [`Remote::remove_pools`].
    pub fn leave(&self, attachment: &Attachment) -> Result<()> {
        Err(soon(&attachment.id.network))
    }

    /// Once the interface is back in the host's namespace: DeleteEndpoint; as
    /// [`Remote::remove_pools`].
    pub fn end(&self, attachment: &Attachment) -> Result<()> {
        Err(soon(&attachment.id.network))
    }

    /// ProgramExternalConnectivity with the ports that the attachment's record publishes, where the
    /// driver gave a gateway of one of these families; RevokeExternalConnectivity, where ports are
    /// published, if there is no such family. On a network that is internal it does nothing.
    pub fn lead(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let _ = families;
        Err(soon(&attachment.id.network))
    }

    /// EndpointOperInfo: whatever the driver says of an endpoint.
    pub fn info(
        &self,
        attachment: &Attachment,
    ) -> Result<std::collections::BTreeMap<String, String>> {
        Err(soon(&attachment.id.network))
    }

    /// The hardware address that the attachment's interface has, so far as a driver or we chose it.
    pub fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        attachment.wiring.link.as_ref().and_then(|link| link.mac)
    }

    // --- clusters ---

    /// AllocateNetwork: what a network of a cluster needs, once for all hosts. The options go to
    /// [`said::NetworkSaid::options`] on each of them.
    pub fn allocate(
        &self,
        network: &Network,
    ) -> Result<std::collections::BTreeMap<String, String>> {
        Err(soon(&network.name))
    }

    /// FreeNetwork; as [`Remote::remove_pools`].
    pub fn free(&self, network: &Network) -> Result<()> {
        Err(soon(&network.name))
    }

    /// DiscoverNew: another host, or this one, is there. Told to a driver whose networks span hosts,
    /// and passed over in silence for any other.
    pub fn discover(&self, driver: &DriverName, found: &Discovery) -> Result<()> {
        let _ = (driver, found);
        Ok(())
    }

    /// DiscoverDelete: the opposite.
    pub fn disappear(&self, driver: &DriverName, gone: &Discovery) -> Result<()> {
        let _ = (driver, gone);
        Ok(())
    }

    // --- the ledger ---

    /// What plugins are owed. Calls nobody.
    pub fn owed(&self) -> Result<Vec<Debt>> {
        Ok(Vec::new())
    }

    /// Carries out what is owed. Safe beside other processes that do the same.
    pub fn settle(&self, urgency: Urgency) -> Result<Settled> {
        let _ = (&self.calls, &self.settings, urgency);
        Ok(Settled::default())
    }

    /// Forgets what is owed on a page of the ledger: whatever the plugin holds stays there.
    pub fn forget(&self, page: &str) -> Result<()> {
        let _ = page;
        Ok(())
    }
}

fn soon(network: &NetworkName) -> Error {
    Error::unsupported(format!("network {network}: remote drivers are not called yet"))
}

/// Until there is somebody who carries calls.
struct Nobody;

impl Nobody {
    fn fails<T>(driver: &DriverName) -> Result<T, Failed> {
        let what = format!("plugin {driver}: remote drivers are not called yet");
        Err(Failed::new(Error::unsupported(what), Fate::Unsent))
    }
}

impl Calls for Nobody {
    fn call(&self, driver: &DriverName, _: &Call) -> Result<Answer, Failed> {
        Self::fails(driver)
    }

    fn profile(&self, driver: &DriverName) -> Result<Arc<Profile>, Failed> {
        Self::fails(driver)
    }

    fn life(&self, driver: &DriverName) -> Result<Life, Failed> {
        Self::fails(driver)
    }

    fn installed(&self) -> Vec<DriverName> {
        Vec::new()
    }
}
