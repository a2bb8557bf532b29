//! A published port, as `spoke ps` shows it.

use model::{Attachment, Family, PortMap, Publish};
use serde::Serialize;

/// A published port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PortView {
    pub(crate) host_ip: Option<String>,
    pub(crate) host_port: u16,
    pub(crate) container_port: u16,
    pub(crate) protocol: String,
    /// Whether a command added it while the container ran.
    pub(crate) added: bool,
    /// Why it leads nowhere: its container has no address of this family (`IPv4`, `IPv6`).
    pub(crate) lacks: Option<String>,
    /// As people read it.
    pub(crate) text: String,
}

impl PortView {
    pub(crate) fn of(map: &PortMap, added: bool) -> Self {
        Self {
            host_ip: map.host.map(|host| host.to_string()),
            host_port: map.host_port.get(),
            container_port: map.container_port.get(),
            protocol: map.protocol.to_string(),
            added,
            lacks: None,
            text: map.to_string(),
        }
    }

    /// Says where it leads nowhere.
    fn with(self, lacking: Option<Family>) -> Self {
        let lacks = lacking.map(|family| family.to_string());
        let text = match &lacks {
            Some(family) => format!("{} ({})", self.text, nowhere(family)),
            None => self.text,
        };
        Self { lacks, text, ..self }
    }
}

/// Those of a layer.
pub(crate) fn ports(layer: &Attachment) -> Vec<PortView> {
    let publish = layer.wiring.publish.iter();
    let view = |publish: &Publish, map: &PortMap| {
        PortView::of(map, publish.added.contains(map)).with(layer.lacks(map))
    };
    publish.flat_map(|it| it.ports.iter().map(move |map| view(it, map))).collect()
}

/// What is shown of a port that leads nowhere.
pub(crate) fn nowhere(family: &str) -> String {
    format!("nowhere: no {family} address")
}
