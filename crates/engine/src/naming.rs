//! What the sandboxes that Spoke itself connects are called, and what they resolve names with.

use model::{Attachment, Dns, HostName, LinkLocal, Phase, Result, Runtime};

use crate::Engine;
use crate::port::{Key, Note, Prefix};
use crate::sandbox::is_exit;

/// How a sandbox is to be on a network, where Spoke itself connects it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connecting {
    /// What leads the sandbox out is the attachment with the greatest one.
    pub priority: i32,
    /// What it is called there besides the container's name.
    pub names: Vec<HostName>,
    /// What its interface has besides the addresses that are handed out.
    pub link_local: Vec<LinkLocal>,
    /// What it resolves names with; of what is not said here, what the network says.
    pub dns: Dns,
}

impl Connecting {
    /// Says what of it is the attachment's own.
    pub(crate) fn say(&self, attachment: &mut Attachment) {
        attachment.names.clone_from(&self.names);
        attachment.link_local.clone_from(&self.link_local);
        attachment.dns = self.dns.or(&attachment.dns);
        attachment.runtime = Runtime::Spoke;
    }
}

impl From<i32> for Connecting {
    fn from(priority: i32) -> Self {
        Self { priority, ..Self::default() }
    }
}

impl Engine<'_> {
    /// Has every sandbox that Spoke itself connects resolve names as the records say, and those that are
    /// connected no more resolve them as the host does. The records are the intent: whoever calls this after
    /// a crash completes what was begun. Tells what stays as somebody else made it.
    pub fn name_sandboxes(&self) -> Result<Vec<Note>> {
        self.driver.name(&|| self.sandboxes_named())
    }

    /// What leads a sandbox out that nothing else leads out has no names (libnetwork's `docker_gwbridge`).
    fn sandboxes_named(&self) -> Result<Vec<Attachment>> {
        let mut named = Vec::new();
        for (key, _) in self.store.list(&Prefix::Sandboxes)? {
            let Key::Sandbox(container) = key else { continue };
            let members = self.connected(&container)?.into_iter();
            named.extend(members.filter(|member| {
                matches!(member.phase, Phase::Attached(_)) && !is_exit(&member.id)
            }));
        }
        Ok(named)
    }
}
