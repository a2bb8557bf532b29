//! The request for the daemon, as the network configuration in the call.

use std::path::PathBuf;

use engine::Members;
use model::{AttachmentId, ContainerId, IfName, Mac, NetworkName, Result};
use serde_json::{Map, Value, json};

use super::gob::Value as Gob;
use super::{Subject, unreadable};
use crate::source::dhcp;
use crate::wire::{Document, Object};

/// `IP Address Lease Time` (RFC 2132 §9.2).
const LEASE_TIME: u8 = 51;

/// A key of `CNI_ARGS`: the hardware address of the link.
const LINK: &str = "SPOKE_LINK";

/// `CNI_ARGS` for our own daemon; the reference's passes over it.
pub(super) fn args(subject: &Subject) -> String {
    match subject.mac {
        Some(mac) => format!("IgnoreUnknown=1;{LINK}={mac}"),
        None => String::new(),
    }
}

fn link(args: &str) -> Option<Mac> {
    let pairs = args.split(';').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == LINK).find_map(|(_, mac)| mac.parse().ok())
}

/// As the reference's daemon reads it.
pub(super) fn write(subject: &Subject) -> Value {
    let dhcp = &subject.dhcp;
    let option =
        |code: &u8| json!({"option": code.to_string(), "skipDefault": !dhcp.skip.is_empty()});
    // It skips all usual options or none.
    let usual = dhcp::USUAL.iter().filter(|code| !dhcp.skip.contains(code));
    let kept = usual.filter(|code| !dhcp.skip.is_empty() && !dhcp.request.contains(code));
    let mut request: Vec<Value> = dhcp.request.iter().chain(kept).map(option).collect();
    if request.is_empty() && !dhcp.skip.is_empty() {
        // A server sends it in any case.
        request.push(option(&LEASE_TIME));
    }
    let provide: Vec<Value> = dhcp
        .provide
        .iter()
        .map(|option| {
            json!({"option": option.code.to_string(), "value": String::from_utf8_lossy(&option.value)})
        })
        .collect();
    let mut ipam = Map::new();
    ipam.insert("type".into(), "dhcp".into());
    ipam.insert("request".into(), request.into());
    ipam.insert("provide".into(), provide.into());
    ipam.extend(dhcp.priority.map(|metric| ("priority".to_owned(), metric.into())));
    json!({"cniVersion": "1.0.0", "name": subject.id.network.as_str(), "type": "dhcp", "ipam": ipam})
}

/// Reads a call's argument: that of Go's plugin, or of Spoke's.
pub(super) fn read(arguments: &Gob) -> Result<Subject> {
    let container: ContainerId = name(arguments, "ContainerID")?;
    let ifname: IfName = name(arguments, "IfName")?;
    let config = Document::parse(arguments.bytes("StdinData"))
        .map_err(|failure| failure.into_error("reading the configuration"))?;
    let network = network(&config)?;
    let root = config.root();
    let nothing = Map::new();
    let ipam = root.object("ipam")?.unwrap_or_else(|| Object::new("ipam", &nothing));
    let args = arguments.text("Args");
    let dhcp = dhcp::asked(&args, &ipam)?;
    let netns = PathBuf::from(arguments.text("Netns"));
    Ok(Subject { id: AttachmentId { network, container, ifname }, netns, mac: link(&args), dhcp })
}

/// The network, and which of its attachments stay.
pub(super) fn read_members(arguments: &Gob) -> Result<(NetworkName, Members)> {
    let config = Document::parse(arguments.bytes("StdinData"))
        .map_err(|failure| failure.into_error("reading the configuration"))?;
    let network = network(&config)?;
    let listed = config.root().list("cni.dev/valid-attachments")?;
    let members = listed.iter().map(|node| {
        let object = node.object()?;
        let member = (object.parse("containerID")?, object.parse("ifname")?);
        match member {
            (Some(container), Some(ifname)) => Ok((container, ifname)),
            _ => Err(unreadable("an attachment")),
        }
    });
    Ok((network, members.collect::<Result<_>>()?))
}

fn network(config: &Document) -> Result<NetworkName> {
    config.name().map_err(|failure| failure.into_error("reading the configuration"))
}

fn name<T: std::str::FromStr>(arguments: &Gob, field: &str) -> Result<T> {
    arguments.text(field).parse().map_err(|_| unreadable(field))
}
