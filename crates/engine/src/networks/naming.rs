//! Names of the sandboxes that Spoke itself connects, and their resolver configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use model::{Attachment, AttachmentId, ContainerId, NetworkName, Phase, Result};

use crate::Networks;
use crate::networks::sandbox::gateway_network::is_gateway_endpoint;
use crate::port::{Key, Near, Note, Prefix};

impl Networks<'_> {
    /// Writes the hosts files and resolver configuration of every sandbox that Spoke itself
    /// connects, as the records say. Sandboxes that are no longer connected get those of the host.
    /// The records are the intent, so a call after a crash completes what began. Returns the files
    /// that stay because another program wrote them.
    pub fn name_sandboxes(&self) -> Result<Vec<Note>> {
        self.driver.name(&|| self.sandboxes_named())
    }

    /// The same of one sandbox, which came to a network or left it, and of those that are on that: it costs
    /// what these are on, however many others there are. `path` is where the sandbox is, or was. What an
    /// earlier process left undone of others is left to them and to
    /// [`Repair::reconcile`](crate::Repair::reconcile).
    pub fn name_sandbox(
        &self,
        container: &ContainerId,
        path: &Path,
        network: &NetworkName,
    ) -> Result<Vec<Note>> {
        self.driver.name_near(path, &|| self.near_sandbox(container, path, network))
    }

    fn near_sandbox(
        &self,
        container: &ContainerId,
        path: &Path,
        network: &NetworkName,
    ) -> Result<Near> {
        let mut seen = ReadNetworks::default();
        self.see_network(network, &mut seen)?;
        let mut near = Near::default();
        let mut sandboxes: BTreeMap<String, BTreeSet<ContainerId>> = BTreeMap::new();
        let known = seen.records.values().filter_map(|record| {
            Some((record.sandbox.as_ref()?.path.as_path(), record.sandbox_name()))
        });
        for (path, container) in [(path, container)].into_iter().chain(known) {
            if let Some((name, others)) = self.driver.namespace_named(path) {
                let called = sandboxes.entry(name).or_insert(others);
                called.insert(container.clone());
            }
        }
        for (name, containers) in sandboxes {
            for container in &containers {
                for member in self.named_members(container)? {
                    self.see_network(&member.id.network, &mut seen)?;
                }
            }
            near.namespaces.insert(name);
        }
        near.records = seen.records.into_values().collect();
        Ok(near)
    }

    /// Adds what Spoke itself connects to the network.
    fn see_network(&self, network: &NetworkName, seen: &mut ReadNetworks) -> Result<()> {
        if !seen.networks.insert(network.clone()) {
            return Ok(());
        }
        for read in self.records.attachments_in(&Prefix::AttachmentsOf(network.clone()))? {
            if read.value.gateway_role.is_some() && has_names(&read.value) {
                seen.records.insert(read.value.id.clone(), *read.value);
            }
        }
        Ok(())
    }

    /// The attachments of a sandbox that have names.
    fn named_members(&self, container: &ContainerId) -> Result<Vec<Attachment>> {
        let mut members = self.records.connected(container)?;
        members.retain(has_names);
        Ok(members)
    }

    /// A gateway network has no names (libnetwork's `docker_gwbridge`).
    fn sandboxes_named(&self) -> Result<Vec<Attachment>> {
        let mut named = Vec::new();
        for (key, _) in self.store.list(&Prefix::Sandboxes)? {
            let Key::Sandbox(container) = key else { continue };
            named.extend(self.named_members(&container)?);
        }
        Ok(named)
    }
}

/// A gateway network has no names.
fn has_names(attachment: &Attachment) -> bool {
    matches!(attachment.phase, Phase::Attached(_)) && !is_gateway_endpoint(&attachment.id)
}

/// The networks that were read.
#[derive(Default)]
struct ReadNetworks {
    networks: BTreeSet<NetworkName>,
    records: BTreeMap<AttachmentId, Attachment>,
}
