//! Whether ports pass traffic.

use std::thread;
use std::time::{Duration, Instant};

use engine::port::PortStatus;
use model::{Attachment, Error, NeutronLink, ResourceId, Result};

use super::spec::link_of;
use crate::Neutron;

/// The first and the longest pause before Neutron is asked again.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Neutron's word for a port that passes traffic.
const ACTIVE: &str = "ACTIVE";

impl Neutron {
    /// The status of the attachment's port, at most five seconds old.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is no port.
    pub fn status_of(&self, attachment: &Attachment) -> Result<PortStatus> {
        let port = bound_port(attachment, link_of(attachment)?)?;
        match self.statuses.recent(port) {
            Some(status) => Ok(PortStatus(status)),
            None => self.ask_status(attachment, port).map(PortStatus),
        }
    }

    /// Waits until the attachment's port passes traffic, where this host is configured to. Then a
    /// port that takes too long is an error.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where it takes too long.
    pub fn wait_until_active(&self, attachment: &Attachment) -> Result<()> {
        let Some(timeout) = self.settings.plugging.wait else { return Ok(()) };
        let port = bound_port(attachment, link_of(attachment)?)?;
        let since = Instant::now();
        let [mut pause, longest] = PAUSES;
        loop {
            let status = self.ask_status(attachment, port)?;
            if status == ACTIVE {
                return Ok(());
            }
            let remaining = timeout.saturating_sub(since.elapsed());
            if remaining.is_zero() {
                return Err(Error::try_again(format!(
                    "port {port} of {} is {status} after {} s: does Neutron's agent on this host \
                     see its interface?",
                    attachment.id,
                    timeout.as_secs()
                )));
            }
            thread::sleep(pause.min(remaining));
            pause = longest.min(pause * 2);
        }
    }

    fn ask_status(&self, attachment: &Attachment, id: &ResourceId) -> Result<String> {
        let port = self.api().port(id)?.ok_or_else(|| {
            Error::not_found(format!("port {id} of {} is gone from Neutron", attachment.id))
        })?;
        self.statuses.note(&port);
        Ok(port.status)
    }
}

/// The port that the record knows.
pub(crate) fn bound_port<'a>(
    attachment: &Attachment,
    link: &'a NeutronLink,
) -> Result<&'a ResourceId> {
    match &link.binding {
        Some(binding) => Ok(&binding.port),
        None => Err(Error::not_found(format!("{} has no port of Neutron's yet", attachment.id))),
    }
}
