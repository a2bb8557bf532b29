//! The names of the holders of addresses, as `spoke ps` shows them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::meter;
use model::Attachment;

use super::AddressView;

/// Says the names of containers and interfaces that became known after the address was given.
pub(super) fn name(addresses: &mut [(IpAddr, AddressView)], records: &[Attachment]) {
    let mut layers: BTreeMap<(&str, &str, &str), Vec<&Attachment>> = BTreeMap::new();
    for record in records {
        let id = &record.id;
        let key = (id.network.as_str(), id.container.as_str(), id.ifname.as_str());
        layers.entry(key).or_default().push(record);
    }
    for (_, view) in addresses {
        let (Some(network), Some(container), Some(interface)) =
            (&view.network, &view.container, &view.interface)
        else {
            continue;
        };
        let Some(layers) = layers.get(&(&**network, &**container, &**interface)) else { continue };
        if let Some(owner) = layers.iter().find_map(|layer| layer.owner.as_ref()) {
            view.owner = Some(owner.to_string());
        }
        if let Some(name) = layers.iter().find_map(|layer| meter::named_by_runtime(layer)) {
            view.interface = Some(name.to_string());
        }
    }
}
