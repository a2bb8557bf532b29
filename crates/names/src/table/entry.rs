//! A container, as it is found.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use model::{
    Attachment, ContainerId, Fence, HostName, NamedElsewhere, NetworkName, OwnerName, Phase,
    Runtime, SharedEndpoint, SharedName,
};

use super::served::{is_internal, parsed};
use crate::holder::Holder;

/// A container on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is called first.
    pub name: String,
    /// What else it is called there.
    pub aliases: Vec<String>,
    /// Its addresses there.
    pub addresses: Vec<IpAddr>,
    /// Whose it is, where that is known.
    pub runtime: Option<Runtime>,
    /// The host that it is on, where that is another one.
    pub host: Option<HostName>,
    /// Its attachment, where it is on this host.
    pub(super) holder: Option<Holder>,
    pub(super) network: NetworkName,
    pub(super) sandbox: Option<(PathBuf, u64)>,
    pub(super) container: String,
    pub(super) internal: bool,
    pub(super) servers: Vec<IpAddr>,
    pub(super) fence: Option<Fence>,
}

impl Entry {
    /// The network that it is on.
    pub(crate) fn network(&self) -> &NetworkName {
        &self.network
    }

    /// None of what has no names, or is not complete.
    pub(super) fn of(attachment: &Attachment) -> Option<Self> {
        let Phase::Attached(attached) = &attachment.phase else { return None };
        if attachment.wiring.name_servers(&attachment.ipam).is_empty() {
            return None;
        }
        let given = match attached.addresses.is_empty() {
            true => &attachment.addresses,
            false => &attached.addresses,
        };
        let container = attachment.id.container.to_string();
        let (name, aliases) = names(attachment, &container);
        Some(Self {
            name,
            aliases,
            addresses: given.iter().map(|held| held.address.addr()).collect(),
            runtime: Some(attachment.runtime),
            host: None,
            holder: Some(Holder { id: attachment.id.clone(), since: attachment.since }),
            network: attachment.id.network.clone(),
            sandbox: attachment.sandbox.as_ref().map(|it| (it.path.clone(), it.inode)),
            container,
            internal: is_internal(&attachment.wiring),
            servers: parsed(&attachment.dns.nameservers),
            fence: attachment.wiring.own_fence.clone(),
        })
    }

    /// One of another host.
    pub(super) fn elsewhere(it: &NamedElsewhere) -> Self {
        let mut names = it.names.iter().map(ToString::to_string);
        Self {
            name: names.next().unwrap_or_default(),
            aliases: names.collect(),
            addresses: it.addresses.clone(),
            runtime: it.runtime,
            host: Some(it.host.clone()),
            holder: None,
            network: it.network.clone(),
            sandbox: None,
            container: String::new(),
            internal: true,
            servers: Vec::new(),
            fence: None,
        }
    }

    /// What the container of an attachment is called on other hosts, the first name first; nothing where
    /// it has no names, or is not complete.
    pub fn names_of(attachment: &Attachment) -> Vec<SharedName> {
        let Some(entry) = Self::of(attachment) else { return Vec::new() };
        let fitting = entry.names().filter_map(|name| name.parse().ok());
        fitting.take(SharedEndpoint::MOST_NAMES).collect()
    }

    /// The id that its runtime gave it, where it is on this host; Docker's is that of its endpoint.
    pub fn container(&self) -> Option<&ContainerId> {
        self.holder.as_ref().map(|holder| &holder.id.container)
    }

    /// Whether it has rules of its own of where it may go.
    pub fn has_own_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// Whether a command of this host's operator attached it, and no runtime, whose users say what it is given.
    pub(super) fn is_of_command(&self) -> bool {
        self.runtime == Some(Runtime::Spoke)
    }

    /// Whose it is, as text; empty where that is not known.
    pub fn runtime_name(&self) -> String {
        self.runtime.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.aliases).filter(|name| !name.is_empty())
    }
}

/// Docker's containers have the names that an engine lists, and until then none; the id of an endpoint
/// is no name. Others are also found by the first twelve digits of a long id, which are what runtimes
/// call a host.
fn names(attachment: &Attachment, container: &str) -> (String, Vec<String>) {
    let lower = |text: &str| text.to_ascii_lowercase();
    let mut names: Vec<String> = Vec::new();
    // CNI's runtimes put a namespace in front.
    let own = |owner: &OwnerName| owner.as_str().rsplit('/').next().map(lower);
    names.extend(attachment.owner.as_ref().and_then(own));
    if names.is_empty() && attachment.runtime != Runtime::Docker {
        names.push(lower(container));
    }
    names.extend(attachment.names.iter().map(|name| lower(name.as_str())));
    let is_long = container.len() == 64 && container.bytes().all(|it| it.is_ascii_hexdigit());
    if is_long && attachment.runtime != Runtime::Docker {
        names.extend(container.get(..12).map(lower));
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let mut names = names.into_iter();
    (names.next().unwrap_or_default(), names.collect())
}
