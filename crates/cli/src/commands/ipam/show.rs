//! `spoke ipam show`: addresses with their holders, and free ones.

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::Engine;
use host::time::{ago, rfc3339};
use model::{Error, Holder, IpNet, NetworkName, Pool, Result, Space};

use super::taken;
use crate::answer::Answer;
use crate::commands::ps;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};
use crate::titles::{Titles, shown};
use crate::usage::{self, Taken};
use crate::view::{AddressView, BookView, PoolView};

mod whose;

/// How many free ranges a table shows of each pool.
const SHOWN: usize = 8;

pub(super) fn show(
    what: Option<&str>,
    no_trunc: bool,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let networks = engine.records.networks_and_described()?;
    let taken = taken(&engine, &networks, context)?;
    let pools = networks.iter().flat_map(|network| network.ipam.pools());
    let titles = Titles::of(&networks).with(&engine.records.aliases()?);
    let wanted = what.map(|what| Subject::parse(what, &engine)).transpose()?;
    let pools: Vec<&Pool> =
        pools.filter(|pool| wanted.as_ref().is_none_or(|wanted| wanted.is_pool(pool))).collect();
    if let (Some(Subject::Network(name)), true) = (&wanted, pools.is_empty()) {
        engine.records.network(name)?;
    }
    let is_shown = |(address, view): &(IpAddr, AddressView)| {
        wanted.as_ref().is_none_or(|wanted| wanted.is_address(*address, view, &pools))
    };
    let mut addresses: Vec<_> = addresses(&taken).into_iter().filter(is_shown).collect();
    addresses.sort_by_key(|(address, _)| *address);
    if let (Some(Subject::Address(address)), true) = (&wanted, addresses.is_empty()) {
        return Ok(Answer::text(free_address(*address, &pools, &titles, output)?));
    }
    let details = wanted.is_some();
    if details || output != Output::Table {
        whose::name(&mut addresses, &engine.records.attachments()?);
    }
    let book = BookView {
        pools: pools.iter().map(|pool| usage::view(pool, &taken)).collect(),
        addresses: addresses.into_iter().map(|(_, view)| view).collect(),
    };
    let book = book.called(&titles);
    Ok(Answer::text(render(output, &book, || text(&book, details, no_trunc, context))?))
}

/// The subject of `ipam show`.
enum Subject {
    Network(NetworkName),
    Subnet(IpNet),
    Address(IpAddr),
}

impl BookView {
    /// With what networks are called.
    fn called(mut self, titles: &Titles) -> Self {
        for pool in &mut self.pools {
            pool.title = titles.title(&pool.network, None);
            titles.put(&mut pool.network);
        }
        for address in &mut self.addresses {
            let Some(network) = &mut address.network else { continue };
            address.title = titles.title(network, address.runtime.as_deref());
            titles.put(network);
        }
        self
    }
}

impl Subject {
    fn parse(text: &str, engine: &Engine<'_>) -> Result<Self> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Ok(subnet) = text.parse::<IpNet>() {
            return Ok(Self::Subnet(subnet.trunc()));
        }
        let called: NetworkName = text.parse().map_err(|_: Error| {
            Error::invalid(format!("{text:?} is no network, subnet or address"))
        })?;
        engine.records.meant(&called).map(Self::Network)
    }

    /// An address that no network has for itself belongs to those whose pools it is in.
    fn is_address(&self, address: IpAddr, view: &AddressView, pools: &[&Pool]) -> bool {
        match self {
            Self::Address(wanted) => address == *wanted,
            Self::Subnet(subnet) => subnet.contains(&address),
            Self::Network(name) => match &view.network {
                Some(network) => network == name.as_str(),
                None => pools.iter().any(|pool| pool.range_of(address).is_some()),
            },
        }
    }

    fn is_pool(&self, pool: &Pool) -> bool {
        match self {
            Self::Network(name) => pool.id.network == *name,
            Self::Subnet(subnet) => {
                pool.ranges.iter().any(|range| subnet.contains(&range.subnet.trunc()))
            }
            Self::Address(address) => {
                pool.ranges.iter().any(|range| range.subnet.contains(address))
            }
        }
    }
}

fn addresses(taken: &Taken) -> Vec<(IpAddr, AddressView)> {
    let held = taken.holders.iter().map(|holder| (holder.lease.address.addr(), held(holder)));
    let files = taken.files.iter().map(|file| {
        let view = AddressView {
            address: file.address.to_string(),
            state: "held",
            network: Some(file.network.clone()),
            title: None,
            container: Some(file.container.clone()),
            interface: file.interface.clone(),
            owner: None,
            runtime: Some("reference".to_owned()),
            since: Some(rfc3339(file.modified)),
            file: Some(file.path.display().to_string()),
            at: Some(file.modified),
        };
        (file.address, view)
    });
    let keys: BTreeSet<(&Space, IpAddr)> = taken
        .holders
        .iter()
        .map(|holder| (&holder.lease.space, holder.lease.address.addr()))
        .collect();
    let reserved = taken
        .reservations
        .iter()
        .filter(|reserved| !keys.contains(&(&reserved.space, reserved.address)));
    let reserved = reserved.map(|reserved| {
        let view = AddressView {
            address: reserved.address.to_string(),
            state: "reserved",
            network: reserved
                .network
                .as_ref()
                .or(network_of(&reserved.space))
                .map(ToString::to_string),
            title: None,
            container: None,
            interface: None,
            owner: reserved.owner.as_ref().map(ToString::to_string),
            runtime: None,
            since: None,
            file: None,
            at: None,
        };
        (reserved.address, view)
    });
    held.chain(files).chain(reserved).collect()
}

fn held(holder: &Holder) -> AddressView {
    AddressView {
        address: holder.lease.address.addr().to_string(),
        state: if holder.quarantined.is_some() { "quarantined" } else { "held" },
        network: holder.attachment().map(|id| id.network.to_string()),
        title: None,
        container: holder.attachment().map(|id| id.container.to_string()),
        interface: holder.attachment().map(|id| id.ifname.to_string()),
        owner: holder.owner.as_ref().map(ToString::to_string),
        runtime: Some(holder.runtime.to_string()),
        since: Some(rfc3339(holder.since)),
        file: None,
        at: Some(holder.since),
    }
}

fn network_of(space: &Space) -> Option<&NetworkName> {
    match space {
        Space::Host | Space::Global | Space::Named(_) => None,
        Space::Network(name) => Some(name),
    }
}

/// Pools, and where one thing was asked about its addresses and what is free.
fn text(book: &BookView, details: bool, no_trunc: bool, context: &CommandContext) -> String {
    let mut text = String::new();
    if !(book.pools.is_empty() && details) {
        text.push_str(&pools(&book.pools).text());
    }
    if !details {
        return text;
    }
    if !book.addresses.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&holders(&book.addresses, no_trunc, context).text());
    }
    for pool in &book.pools {
        let limit = if no_trunc { usize::MAX } else { SHOWN };
        let more = pool.free_ranges.len().saturating_sub(limit);
        let shown: Vec<&str> = pool.free_ranges.iter().take(limit).map(String::as_str).collect();
        let shown = if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") };
        text.push_str(&format!("\nfree in {}: {shown}", pool.pool));
        if more > 0 {
            text.push_str(&format!(", and {more} more ranges (--no-trunc)"));
        }
    }
    if !book.pools.is_empty() {
        text.push('\n');
    }
    text
}

fn pools(pools: &[PoolView]) -> Table {
    let mut table = Table::new(&[
        "NETWORK",
        "POOL",
        "SIZE",
        "USED",
        "RESERVED",
        "QUARANTINE",
        "FREE",
        "HOLDERS",
    ]);
    for pool in pools {
        let holders: Vec<String> =
            pool.holders.iter().map(|(runtime, count)| format!("{runtime} {count}")).collect();
        table.row([
            shown(&pool.title, &pool.network).clone(),
            pool.pool.clone(),
            number(pool.size),
            number(pool.used),
            number(pool.reserved),
            number(pool.quarantined),
            number(pool.free),
            holders.join(", "),
        ]);
    }
    table
}

/// The digits of an IPv6 subnet's size are too many to be useful.
fn number(count: u64) -> String {
    if count < 1_000_000_000_000 { count.to_string() } else { format!("{:.1e}", count as f64) }
}

fn holders(addresses: &[AddressView], no_trunc: bool, context: &CommandContext) -> Table {
    let mut table = Table::new(&["ADDRESS", "STATE", "HOLDER", "INTERFACE", "RUNTIME", "SINCE"]);
    for view in addresses {
        let id = view.container.as_deref().map(|id| ps::shortened(id, no_trunc));
        table.row([
            view.address.clone(),
            view.state.to_owned(),
            view.owner.clone().or(id).unwrap_or_default(),
            view.interface.clone().unwrap_or_default(),
            view.runtime.clone().unwrap_or_default(),
            view.at.map(|since| ago(since, context.now)).unwrap_or_default(),
        ]);
    }
    table
}

fn free_address(
    address: IpAddr,
    pools: &[&Pool],
    titles: &Titles,
    output: Output,
) -> Result<String> {
    let gateway = pools.iter().find(|pool| pool.is_gateway(address));
    let id = gateway.or(pools.first()).map(|pool| &pool.id.network);
    let network = id.map(|id| titles.called(id));
    let title = id.and_then(|id| titles.title(id.as_str(), None));
    let state = match (gateway, pools) {
        (Some(_), _) => "gateway",
        (None, []) => {
            return Err(Error::not_found(format!(
                "{address} is in no network's subnet; `spoke ipam show` lists them"
            )));
        }
        (None, [..]) => "free",
    };
    let called = title.as_ref().or(network.as_ref());
    let of = called.map(|name| format!(" of network {name}")).unwrap_or_default();
    let sentence = match state {
        "gateway" => format!("{address} is the gateway{of}\n"),
        _ => format!("{address}{of} is free\n"),
    };
    let view = AddressView {
        address: address.to_string(),
        state,
        network,
        title,
        container: None,
        interface: None,
        owner: None,
        runtime: None,
        since: None,
        file: None,
        at: None,
    };
    render(output, &BookView { pools: Vec::new(), addresses: vec![view] }, || sentence)
}
