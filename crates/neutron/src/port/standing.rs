//! Whether a port that exists may become an attachment's.

use model::{Attachment, Error, Result};

use crate::Neutron;
use crate::api::PortResource;
use crate::cloud::PortPurpose;
use crate::contract::{self, HostId, Mark};
use crate::nested::SUBPORT;
use crate::stock_key::KeyDigest;

/// The standing of a port towards an attachment that wants its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The attachment may have it.
    Free,
    /// It is from the stock, or was made for a requested address, and has no name yet.
    Unnamed,
    /// It may not, because.
    Taken(&'static str),
}

impl Neutron {
    /// Fails where the port has another owner, or may have one.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] with its owner; [`model::Kind::TryAgain`] while it is being
    /// prepared for another attachment.
    pub(super) fn refuse_foreign(
        &self,
        attachment: &Attachment,
        port: &PortResource,
    ) -> Result<()> {
        let standing = standing(&self.settings.host, attachment, port);
        if let Standing::Taken(why) = standing {
            return Err(in_use(port, why));
        }
        if self.is_getting_a_name(&port.id, Some(&attachment.id)) {
            return Err(in_use(port, "a container has it"));
        }
        match standing {
            Standing::Unnamed => self.refuse_unrequested(attachment, port),
            Standing::Free | Standing::Taken(_) => Ok(()),
        }
    }

    /// An address that was allocated for an engine waits for that engine's endpoint. This
    /// attachment's runtime did not request it.
    fn refuse_unrequested(&self, attachment: &Attachment, port: &PortResource) -> Result<()> {
        let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
        let mut addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
        let allocated = addresses.find_map(|ip| self.allocated.port(&port.network_id, ip));
        let asked = allocated.and_then(|allocated| allocated.asked);
        let is_anothers = matches!((asked, mac), (Some(asked), Some(mac)) if asked != mac);
        match attachment.alias.is_none() || is_anothers {
            true => Err(in_use(port, "it was requested for another container")),
            false => Ok(()),
        }
    }

    /// Whether the port was in the stock and is deleted now, so that its address is free. An
    /// attachment that wants this very address wants a port of its own.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] while it is being prepared; Neutron's refusal.
    pub(super) fn vacate(&self, port: &PortResource) -> Result<bool> {
        let mark = Mark::read(&port.description).filter(|mark| mark.is_of(&self.settings.host));
        let Some(digest) = mark.as_ref().and_then(KeyDigest::of_mark) else { return Ok(false) };
        let stock_files = self.stock_files();
        if stock_files.is_lent(&port.id) || self.is_getting_a_name(&port.id, None) {
            return Ok(false);
        }
        // A process that was making ports of this kind has stored them afterwards.
        stock_files.made(&digest)?;
        if stock_files.claim_port(&port.id)?.is_none() {
            if stock_files.is_lent(&port.id) {
                return Ok(false);
            }
            if stock_files.returned_ports()?.contains(&port.id) {
                return Err(Error::try_again(format!(
                    "port {} ({}) is being made ready again: its container just ended",
                    port.id,
                    addresses(port)
                )));
            }
            // Its file went with the boot. Whose it was says its name.
            if !is_unnamed(port) {
                return Ok(false);
            }
        }
        self.abandon(&port.id)?;
        stock_files.drop_lent(&port.id)?;
        Ok(true)
    }
}

/// The standing as far as the port's own data shows it.
fn standing(host: &HostId, attachment: &Attachment, port: &PortResource) -> Standing {
    let device = contract::device_id(attachment);
    let mark = Mark::read(&port.description);
    let is_made_by_us = is_made_by(host, port);
    if port.host().is_some_and(|other| other != host.as_str()) {
        return Standing::Taken("it is bound to another host");
    }
    match port.device_owner.as_str() {
        "" | contract::OWNER => {}
        SUBPORT if is_made_by_us => {}
        _ => return Standing::Taken("it is of something that is no container"),
    }
    if let Some(mark) = &mark {
        if !mark.is_of(host) {
            return Standing::Taken("another host made it for itself");
        }
        if mark.what == device {
            return Standing::Free;
        }
        if mark.what.len() == device.len() {
            return Standing::Taken("it was made for another container");
        }
        if PortPurpose::of(mark) == Some(PortPurpose::Auxiliary) {
            return Standing::Taken("the address is kept back");
        }
    }
    if let Some(endpoint) = contract::id_of_tags(port.tags.iter().map(String::as_str))
        && endpoint != device
    {
        return Standing::Taken("a container has it");
    }
    let is_anothers = !port.device_id.is_empty() && port.device_id != device;
    match (is_anothers, is_made_by_us) {
        (true, true) => Standing::Taken("a container has it"),
        (true, false) if port.host().is_some() && !is_meant(attachment, port) => {
            Standing::Taken("it is bound to this host for another owner")
        }
        (false, true) if is_unnamed(port) => Standing::Unnamed,
        _ => Standing::Free,
    }
}

/// Made by this host, or by kuryr-libnetwork before us: those go with their addresses.
pub(super) fn is_made_by(host: &HostId, port: &PortResource) -> bool {
    match Mark::read(&port.description) {
        Some(mark) => mark.is_of(host),
        None => contract::is_kuryrs_address(port),
    }
}

/// A requester that names the hardware address too knows the container of the port; and an engine's
/// earlier request was checked then.
fn is_meant(attachment: &Attachment, port: &PortResource) -> bool {
    let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
    let is_requested = attachment.alias.is_some() && port.is_tagged(contract::EXISTING_PORT);
    is_requested || mac == Some(port.mac_address)
}

fn is_unnamed(port: &PortResource) -> bool {
    let tagged = contract::id_of_tags(port.tags.iter().map(String::as_str));
    port.device_id.is_empty() && tagged.is_none()
}

fn addresses(port: &PortResource) -> String {
    let addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(", ")
}

pub(super) fn in_use(port: &PortResource, why: &str) -> Error {
    let reported = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    Error::conflict(format!(
        "port {} ({}) is in use: {why} (device_owner {}, device_id {}, host {})",
        port.id,
        addresses(port),
        reported(&port.device_owner),
        reported(&port.device_id),
        reported(port.host().unwrap_or_default())
    ))
}

#[cfg(test)]
mod tests {
    use model::{Layer, Phase, Process, Runtime, Timestamp};
    use serde_json::{Value, json};

    use super::*;

    const OTHER: &str = "386eddb51ebca09339cb17aaec05e48ffe60659ced6f3fc41b020b0eb506d364";

    fn judged(changes: Value) -> Standing {
        let id = doubles::attachment_id("front", "c");
        let phase = Phase::Attaching { by: Process { pid: 1, start: 1 } };
        let asked = Attachment::new(id, Layer::Link, Runtime::Cni, Timestamp(0), phase);
        let mut body = json!({
            "id": "p", "network_id": "n", "mac_address": "fa:16:3e:00:00:01",
            "name": contract::PORT_NAME, "device_owner": contract::OWNER,
            "binding:host_id": "node", "tags": [contract::OWNER],
        });
        for (key, value) in changes.as_object().unwrap() {
            body[key] = value.clone();
        }
        let host = HostId::try_from("node".to_owned()).unwrap();
        standing(&host, &asked, &serde_json::from_value(body).unwrap())
    }

    #[test]
    fn what_anybody_has_is_taken() {
        let request = "spoke:node:request-0011223344556677";
        let stock = format!("spoke:node:stock-{}", "0".repeat(32));
        for changes in [
            json!({ "binding:host_id": "other" }),
            json!({ "device_owner": "compute:nova" }),
            json!({ "device_owner": SUBPORT, "tags": [] }),
            json!({ "description": "spoke:other:request-00" }),
            json!({ "description": format!("spoke:node:{OTHER}") }),
            json!({ "description": "spoke:node:auxiliary-00" }),
            json!({ "description": request, "device_id": OTHER }),
            json!({ "description": request, "tags": contract::id_tags(OTHER) }),
            json!({ "description": stock, "device_id": OTHER }),
            json!({ "description": stock, "tags": contract::id_tags(OTHER) }),
            // kuryr-libnetwork's, and an operator's.
            json!({ "device_id": OTHER }),
            json!({ "tags": contract::id_tags(OTHER), "name": "mine" }),
            json!({ "tags": [], "name": "mine", "device_id": "zun" }),
        ] {
            let reported = judged(changes.clone());
            assert!(matches!(reported, Standing::Taken(_)), "{changes}: {reported:?}");
        }
        for changes in [json!({ "description": request }), json!({ "description": stock })] {
            assert_eq!(judged(changes.clone()), Standing::Unnamed, "{changes}");
        }
        assert_eq!(judged(json!({ "binding:host_id": "" })), Standing::Unnamed);
        for changes in [
            json!({ "tags": [], "name": "mine" }),
            json!({ "tags": [], "name": "mine", "device_id": "zun", "binding:host_id": "" }),
        ] {
            assert_eq!(judged(changes.clone()), Standing::Free, "{changes}");
        }
    }
}
