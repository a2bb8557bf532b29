//! Third-party plugins that make whole attachments: a network of the engine may be any CNI
//! configuration list.
//!
//! A runtime that makes attachments in two steps (libnetwork) needs the addresses before it has a
//! namespace. Then the plugins work in a namespace of Spoke's, where the interface is parked until
//! it joins: from there it is moved, and back into it before the plugins' DEL.

mod name;
mod parking;
mod presence;
mod programs;
mod stray;

use std::path::{Path, PathBuf};

use engine::port::{Offer, Presence};
use model::{
    Attached, Attachment, AttachmentId, Error, Handoff, IfName, Interface, InterfaceNamespace,
    LinkKind, Mac, Network, PluginChain, Result, Sandbox,
};
use netlink::Netns;
use serde_json::{Value, json};

use crate::capability;
use crate::runtime::{Cache, NetworkList, Runtime, Target};
use crate::wire::{Failure, Object, Success, Version};
pub(crate) use name::inside;
pub use name::{inner, list};
use parking::Parking;
pub(crate) use parking::name as file_name;

/// Executes the plugins of [`LinkKind::Chain`].
#[derive(Clone, Debug)]
pub struct Chain {
    /// Where results are, and parked interfaces.
    directory: PathBuf,
    /// The name of an interface in the host's namespace until its runtime takes it.
    waiting: fn(&AttachmentId) -> Result<IfName>,
    /// Receives warnings for a person, and plugins' standard error.
    report: fn(&str),
}

/// One attachment with its list.
struct Subject<'a> {
    attachment: &'a Attachment,
    list: NetworkList,
    path: Vec<PathBuf>,
}

impl Chain {
    /// Keeps its state below `directory`, which does not outlive the boot. `waiting` names
    /// interfaces that wait in the host's namespace; `report` receives warnings for a person.
    pub fn new(
        directory: &Path,
        waiting: fn(&AttachmentId) -> Result<IfName>,
        report: fn(&str),
    ) -> Self {
        Self { directory: directory.to_owned(), waiting, report }
    }

    /// Calls the plugins' ADD and returns their choices: in the attachment's sandbox, or in a
    /// namespace of Spoke's where there is none yet.
    ///
    /// # Errors
    /// The error of the first plugin that failed.
    pub fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        let subject = Subject::of(attachment)?;
        let netns = match &attachment.sandbox {
            Some(sandbox) => open(sandbox).map(|_| sandbox.path.clone())?,
            None => {
                let parking = self.parking(attachment);
                parking.make()?;
                parking.path
            }
        };
        let target = subject.target(&netns);
        let result = self.with(&subject, |runtime| runtime.add(&subject.list, &target))?;
        let success = read(&result)?;
        Ok(Offer {
            addresses: success.addresses_of(&attachment.id.ifname),
            routes: success.routes,
            dns: success.dns,
            link: None,
        })
    }

    /// The result of an attachment whose plugins worked in its sandbox.
    ///
    /// # Errors
    /// Where their result is gone.
    pub fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        let subject = Subject::of(attachment)?;
        self.success(&subject)?.attached()
    }

    /// Brings a parked interface to where the attachment is joined: into the host's namespace for
    /// its runtime, or into the sandbox with everything that it must have there.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where it is gone with an earlier sandbox.
    pub fn join(&self, attachment: &Attachment) -> Result<Attached> {
        let subject = Subject::of(attachment)?;
        let parking = self.parking(attachment);
        let mac = self.hardware_address(attachment);
        let (name, place) = match attachment.handoff {
            Handoff::Caller => {
                let waiting = (self.waiting)(&attachment.id)?;
                parking.hand_over(&waiting)?;
                (waiting, InterfaceNamespace::Host)
            }
            Handoff::Finish => {
                let sandbox = attachment.sandbox.as_ref().ok_or_else(|| {
                    Error::invalid(format!("{} has no network namespace", attachment.id))
                })?;
                let name = subject.name().clone();
                parking.settle(&open(sandbox)?, &name, attachment)?;
                (name, InterfaceNamespace::Sandbox)
            }
        };
        let mut made = self.success(&subject)?.attached()?.interfaces;
        made.retain(|interface| interface.place == InterfaceNamespace::Host);
        made.push(Interface { name, mac, mtu: None, place });
        let own = made.len() - 1;
        let mut addresses = attachment.addresses.clone();
        for held in &mut addresses {
            held.interface = Some(own);
        }
        Ok(Attached {
            interfaces: made,
            addresses,
            routes: attachment.routes.clone(),
            dns: attachment.dns.clone(),
            ..Attached::default()
        })
    }

    /// Takes an interface that was joined back to where it was parked. What is gone with its
    /// sandbox, or still in it, stays there.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        let parking = self.parking(attachment);
        if !parking.is_there() {
            return Ok(());
        }
        parking.take_back(None, &(self.waiting)(&attachment.id)?)?;
        if attachment.handoff == Handoff::Finish
            && let Some(sandbox) = attachment.sandbox.as_ref().and_then(|it| open(it).ok())
        {
            let link = attachment.wiring.link.as_ref();
            let name = link.and_then(|link| link.name.as_ref()).unwrap_or(&attachment.id.ifname);
            parking.take_back(Some(&sandbox), name)?;
        }
        Ok(())
    }

    /// Calls the plugins' DEL. Where some are no longer installed, that is reported, the others are
    /// called, and the attachment is gone all the same.
    ///
    /// # Errors
    /// The error of the first plugin that failed, where all are installed.
    pub fn detach(&self, attachment: &Attachment) -> Result<()> {
        let withdrawn = self.withdraw(attachment);
        let parking = self.parking(attachment);
        match Subject::of(attachment) {
            Ok(subject) => self.call_del(&subject, &parking)?,
            Err(error) => (self.report)(&format!(
                "{}: its plugins are not known any more, nothing of theirs is removed: {error}",
                attachment.id
            )),
        }
        // An interface that could not be taken back is in the host still: the next time it is.
        withdrawn?;
        parking.remove()?;
        self.remove_lock(&attachment.id)
    }

    fn call_del(&self, subject: &Subject<'_>, parking: &Parking<'_>) -> Result<()> {
        let attachment = subject.attachment;
        let sandbox = attachment.sandbox.as_ref().filter(|sandbox| open(sandbox).is_ok());
        let netns = match (parking.is_there(), sandbox) {
            (true, _) => parking.path.clone(),
            (false, Some(sandbox)) => sandbox.path.clone(),
            (false, None) => PathBuf::new(),
        };
        let cache = self.cache();
        let mut target = subject.target(&netns);
        if let Some(known) = cache.recall(&subject.list.name, &target) {
            (target.args, target.capabilities) = (known.target.args, known.target.capabilities);
        }
        let missing = self.missing(subject);
        if missing.is_empty() {
            return self.with(subject, |runtime| runtime.del(&subject.list, &target));
        }
        (self.report)(&format!(
            "{}: {}; what they made outside of the container stays",
            attachment.id,
            advice(&missing, &subject.path)
        ));
        // Some plugins are missing, which is reported; the attachment is gone all the same.
        let _ = self.with(subject, |runtime| runtime.abandon(&subject.list, &target));
        if !parking.is_there()
            && let Some(Ok(sandbox)) = sandbox.map(open)
        {
            parking::delete(&sandbox, &attachment.id.ifname)?;
        }
        Ok(())
    }

    /// Calls the plugins' CHECK. An interface that joined later was changed too much by the runtime
    /// for the plugins: there only its existence is checked.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, attachment: &Attachment) -> Result<()> {
        let subject = Subject::of(attachment)?;
        match (&attachment.sandbox, self.parking(attachment).is_there()) {
            (Some(sandbox), false) => {
                let target = subject.target(&sandbox.path);
                match subject.list.version < Version::V040 {
                    true => Ok(()),
                    false => self.with(&subject, |runtime| runtime.check(&subject.list, &target)),
                }
            }
            (_, true) => match self.presence(attachment) {
                Presence::Gone => {
                    Err(Error::not_found(format!("the interface of {} is gone", attachment.id)))
                }
                Presence::Alive | Presence::Doubtful => Ok(()),
            },
            (None, false) => {
                Err(Error::not_found(format!("{} has no network namespace", attachment.id)))
            }
        }
    }

    /// Whether the network's plugins are there and ready.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] with what to install; what a plugin says.
    pub fn status(&self, network: &Network) -> Result<()> {
        let Some(chain) = network.wiring.link.as_ref().and_then(|link| chain_of(&link.kind)) else {
            return Ok(());
        };
        let list = NetworkList::parse(chain.config.as_bytes())?;
        let programs = programs::of(&chain.path, &network.name);
        let cache = self.cache();
        let runtime = Runtime { programs: &programs, cache: &cache };
        let missing = runtime.missing(&list);
        match missing.is_empty() {
            true => runtime.status(&list).map_err(reported),
            false => Err(Error::not_found(advice(&missing, &chain.path))),
        }
    }

    /// The hardware address that the interface has, once it is made.
    pub fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        let subject = Subject::of(attachment).ok()?;
        let wanted = attachment.wiring.link.as_ref().and_then(|link| link.mac);
        let made = self.success(&subject).ok().and_then(|success| mac_of(&success, attachment));
        made.or_else(|| self.parking(attachment).mac()).or(wanted)
    }

    /// Whether the container still has the interface.
    pub fn presence(&self, attachment: &Attachment) -> Presence {
        let result = Subject::of(attachment).and_then(|subject| self.success(&subject));
        let mac = self.hardware_address(attachment);
        let waiting = (self.waiting)(&attachment.id);
        presence::of(attachment, &result.unwrap_or_default(), mac, waiting.ok().as_ref())
    }

    fn success(&self, subject: &Subject<'_>) -> Result<Success> {
        let target = subject.target(Path::new(""));
        let known = self.cache().recall(&subject.list.name, &target);
        let known = known.ok_or_else(|| {
            let id = &subject.attachment.id;
            Error::not_found(format!("what the plugins made for {id} is not known any more"))
        })?;
        read(&known.result)
    }

    fn cache(&self) -> Cache {
        Cache::new(&self.directory.join("cni"))
    }

    fn parking<'a>(&self, attachment: &'a Attachment) -> Parking<'a> {
        Parking::of(&self.directory.join(Parking::DIRECTORY), &attachment.id)
    }

    fn missing(&self, subject: &Subject<'_>) -> Vec<String> {
        let programs = self.programs(&subject.path, &subject.attachment.id);
        Runtime { programs: &programs, cache: &self.cache() }.missing(&subject.list)
    }

    fn with<T>(
        &self,
        subject: &Subject<'_>,
        work: impl FnOnce(&Runtime<'_>) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let programs = self.programs(&subject.path, &subject.attachment.id);
        let cache = self.cache();
        let done = work(&Runtime { programs: &programs, cache: &cache });
        done.map_err(reported)
    }
}

impl<'a> Subject<'a> {
    fn of(attachment: &'a Attachment) -> Result<Self> {
        let link = attachment.wiring.link.as_ref();
        let chain = link.and_then(|link| chain_of(&link.kind)).ok_or_else(|| {
            Error::bug(format!("{} is not made by plugins of others", attachment.id))
        })?;
        let list = NetworkList::parse(chain.config.as_bytes())?;
        Ok(Self { attachment, list, path: chain.path.clone() })
    }

    /// The plugins' parameters: the identity, and the requested addresses.
    fn target(&self, netns: &Path) -> Target {
        let id = &self.attachment.id;
        let netns = netns.display().to_string();
        let mut target = Target::new(id.container.clone(), netns, id.ifname.clone());
        target.args.push(("IgnoreUnknown".to_owned(), "1".to_owned()));
        if let Some(mac) = self.attachment.wiring.link.as_ref().and_then(|link| link.mac) {
            target.args.push(("MAC".to_owned(), mac.to_string()));
            target.capabilities.insert(capability::MAC.to_owned(), json!(mac.to_string()));
        }
        let leases = &self.attachment.leases;
        if let Some(first) = leases.first() {
            let all: Vec<String> = leases.iter().map(|it| it.address.to_string()).collect();
            target.args.push(("IP".to_owned(), first.address.addr().to_string()));
            target.capabilities.insert(capability::IPS.to_owned(), json!(all));
        }
        target
    }

    /// The name of the interface in the sandbox.
    fn name(&self) -> &IfName {
        let link = self.attachment.wiring.link.as_ref();
        link.and_then(|link| link.name.as_ref()).unwrap_or(&self.attachment.id.ifname)
    }
}

/// The network that a configuration list is, with its plugins in `path`.
///
/// # Errors
/// [`model::Kind::Invalid`] where the list has no plugins.
pub fn plugin_chain(list: &NetworkList, path: Vec<PathBuf>) -> Result<PluginChain> {
    match list.plugins.is_empty() || path.is_empty() {
        true => Err(Error::invalid(format!("list {} has no plugins, or no path", list.name))),
        false => Ok(PluginChain { config: list.whole(), path }),
    }
}

fn chain_of(kind: &LinkKind) -> Option<&PluginChain> {
    match kind {
        LinkKind::Chain(chain) => Some(chain),
        _ => None,
    }
}

fn mac_of(success: &Success, attachment: &Attachment) -> Option<Mac> {
    let mut made = success.interfaces.iter();
    let own = made.find(|it| it.name == attachment.id.ifname.as_str() && !it.sandbox.is_empty())?;
    own.mac.parse().ok()
}

fn read(result: &Value) -> Result<Success> {
    let empty = serde_json::Map::new();
    Success::parse(&Object::new("result", result.as_object().unwrap_or(&empty)), Version::V010)
}

/// A runtime that speaks CNI gets the plugin's own code and words of it.
fn reported(failure: Failure) -> Error {
    failure.into_error("the network's CNI plugins")
}

fn advice(missing: &[String], path: &[PathBuf]) -> String {
    let path: Vec<String> = path.iter().map(|directory| directory.display().to_string()).collect();
    format!(
        "the CNI plugins {} are not in {}; install them there (those of the CNI project are in the \
         package containernetworking-plugins, `spoke cni install` puts Spoke's own)",
        missing.join(", "),
        path.join(", ")
    )
}

/// The namespace that the record means; another one at its path is none.
fn open(sandbox: &Sandbox) -> Result<Netns> {
    let netns = Netns::open(&sandbox.path)?;
    match netns.inode() == sandbox.inode {
        true => Ok(netns),
        false => Err(Error::not_found(format!(
            "{} is another network namespace by now",
            sandbox.path.display()
        ))),
    }
}
