//! ProgramExternalConnectivity: publishing a sandbox's ports.

use model::{Attachment, Error, Family, Result};

use super::Remote;
use super::endpoint::{at, ports, subject};
use super::network::remote_link;
use super::undo_log::Undo;
use libnetwork::parameters::NetworkParameters;
use libnetwork::{Call, ProgramConnectivity};

impl Remote {
    /// The families of which the driver named a gateway when the attachment joined: in these it
    /// publishes ports.
    pub fn gateways(&self, attachment: &Attachment) -> Result<Vec<Family>> {
        Ok(self.kept(attachment)?.map(|kept| kept.gateways()).unwrap_or_default())
    }

    /// Whether ProgramExternalConnectivity was called, and is not to be revoked. Another process that works
    /// on the attachment's log file is not waited for.
    pub fn is_programmed(&self, attachment: &Attachment) -> Result<bool> {
        let undo = revocation(attachment)?;
        let record = self.undo_log.peek(&subject(attachment).key())?;
        let mut entries = record.iter().flat_map(|record| &record.entries);
        Ok(entries.any(|entry| entry.pending.is_none() && entry.undo == undo))
    }

    /// RevokeExternalConnectivity, where it is to be called; as [`Remote::leave`].
    pub fn revoke(&self, attachment: &Attachment) -> Result<()> {
        let undo = revocation(attachment)?;
        self.announce(&subject(attachment), |held| *held == undo)
    }

    /// ProgramExternalConnectivity with the ports that the attachment's record publishes, where the
    /// driver gave a gateway of one of these families; RevokeExternalConnectivity, where ports are
    /// published, if there is no such family. On a network that is internal it does nothing.
    pub fn program_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let doing = |error: Error| error.context(&attachment.id);
        self.set_gateway_of_link(attachment, families).map_err(doing)
    }

    fn set_gateway_of_link(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let link = remote_link(attachment.wiring.link.as_ref())?;
        if NetworkParameters::read(&link.network)?.internal {
            return Ok(());
        }
        let Some(mut log_file) = self.undo_log.find(&subject(attachment).key())? else {
            return Err(Error::not_found("its endpoint is not known to have joined a sandbox"));
        };
        let gateways = log_file.record.joined.as_ref().map(super::undo_log::JoinAnswer::gateways);
        let gateways = gateways.unwrap_or_default();
        let undo = revocation(attachment)?;
        if !gateways.iter().any(|family| families.contains(family)) {
            return self.announce_on(&mut log_file, |held| *held == undo);
        }
        let leads = |family| families.contains(&family);
        let call = Call::ProgramConnectivity(ProgramConnectivity {
            at: at(attachment, link).wire()?,
            ports: ports(attachment, link)?,
            // Another endpoint is the gateway that this one could be.
            no_proxy_6to4: gateways.contains(&Family::V6) && !leads(Family::V6),
        });
        if log_file.holds(|held| *held == undo) {
            // Drivers need not understand it twice: engines revoke what they program again.
            self.announce_on(&mut log_file, |held| *held == undo)?;
        }
        // A pending call from before must not come after this.
        let is_pending = log_file.record.entries.iter().any(|entry| entry.undo == undo);
        log_file.strike(&undo);
        log_file.hold(undo.clone());
        log_file.save()?;
        self.calls.call(&link.driver, &call).map(drop).or_else(|failed| {
            if !is_pending && !failed.may_be_done() {
                log_file.strike(&undo);
                log_file.save()?;
            }
            Err(failed.into())
        })
    }
}

fn revocation(attachment: &Attachment) -> Result<Undo> {
    let link = remote_link(attachment.wiring.link.as_ref())?;
    Ok(Undo::Revoke(link.driver.clone(), at(attachment, link)))
}
