//! Networks, as `spoke network ls` has them.

use model::{Alias, Attachment, Network};

use crate::titles::Titles;
use crate::view::NetworkView;

pub(super) fn shown(
    network: &Network,
    records: &[Attachment],
    aliases: &[Alias],
    known: &Titles,
) -> page::shown::Network {
    let view = NetworkView::of(network, records, aliases);
    let mut titles: Vec<String> = view.aliases.into_iter().filter_map(|alias| alias.name).collect();
    titles.retain(|title| *title != view.name);
    titles.dedup();
    page::shown::Network {
        subnets: match view.ipam.as_str() {
            by @ ("dhcp" | "neutron") => vec![by.to_owned()],
            _ => view.subnets.into_iter().map(|subnet| subnet.subnet).collect(),
        },
        title: known.title(network.name.as_str(), None),
        name: view.name,
        runtime: view.runtime,
        driver: view.driver,
        device: view.bridge,
        parent: view.parent,
        internal: view.internal,
        state: view.state.to_owned(),
        titles,
    }
}
