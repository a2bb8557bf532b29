//! The way out of a network: routing rules and a table of its own, and a table of the packet filter that drops
//! what would leave by another one. Each of both holds alone.
//!
//! Everything is named by a function of the bridge's name, so nothing has to be remembered to be removed:
//!
//! | what | |
//! |---|---|
//! | rule 153 | answers to flows that came in by the host's own ways are routed as the host routes |
//! | rule 154 | what comes in by the bridge, or bears the network's mark, is routed by the network's table |
//! | rule 155 | the same is unreachable where that table has no route |
//! | table | the default route of each family that leads out, and routes to networks of Spoke's |

mod candidate;
mod hop;
mod routes;

use std::net::IpAddr;

use engine::port::Still;
use model::{Error, Family, IfName, IpNet, Network, NetworkName, Result, Via, Wiring, way_table};
use netlink::{At, Link, Socket, conntrack};

pub use candidate::Candidate;
pub use hop::{Hop, Hops, Peer};

use crate::filter::via;
use crate::sources::{self, StrictBy};
use routes::{Connected, Routed};

/// Answers are routed as the host routes.
pub const BACK: u32 = 153;
/// What leaves a network is routed by its table.
pub const LEAD: u32 = 154;
/// What that has no route for ends here.
pub const END: u32 = 155;

/// A network with a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// The network.
    pub network: NetworkName,
    /// Its bridge.
    pub bridge: IfName,
    /// The way.
    pub via: Via,
    /// The families whose packets get the address of the device that they leave by.
    pub translated: Vec<Family>,
}

impl WayOut {
    /// The way out of a network; `None` where it has none of its own.
    ///
    /// # Errors
    /// [`Wiring::refuse_via`].
    pub fn of(network: &NetworkName, wiring: &Wiring) -> Result<Option<Self>> {
        wiring.refuse_via(network)?;
        let bridge = wiring.bridge();
        let (Some(via), Some(bridge)) = (&wiring.via, bridge) else { return Ok(None) };
        let is_translated = |family: &Family| {
            let part = wiring.masquerade.as_ref().filter(|part| part.is_of(*family));
            part.is_some_and(|part| part.sources.of(*family).is_none())
        };
        Ok(Some(Self {
            network: network.clone(),
            bridge: bridge.name.clone(),
            via: via.clone(),
            translated: [Family::V4, Family::V6].into_iter().filter(is_translated).collect(),
        }))
    }

    /// The same of a network's record.
    ///
    /// # Errors
    /// As [`WayOut::of`].
    pub fn of_network(network: &Network) -> Result<Option<Self>> {
        Self::of(&network.name, &network.wiring)
    }

    /// The number of its routing table, and the mark of what this host sends for it.
    pub fn table(&self) -> u32 {
        way_table(&self.bridge)
    }
}

/// Holds the network's packets before its first container is there: by the way, where this host itself says
/// where that leads. Where it is held already nothing is changed: the daemon follows the way.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it. Nothing may be attached then.
pub fn ensure(filter: &mut Socket, way: &WayOut) -> Result<()> {
    let mut route = Socket::route()?;
    if via::is_held(filter, way)? && routes::is_led(&mut route, way)? {
        return Ok(());
    }
    keep(filter, way, None).map(drop)
}

/// Makes everything what it should be by what this host looks like now. `peer` is the container that
/// forwards, as long as it is there. Returns where the way leads, and whether anything was changed.
///
/// # Errors
/// As [`ensure`].
pub fn keep(filter: &mut Socket, way: &WayOut, peer: Option<&Peer>) -> Result<(Hops, bool)> {
    let how = Hold { flows: Flows::GoOn, relays: None, still: &always };
    hold(filter, way, peer, &how).map(|(held, changed)| (held.hops, changed))
}

/// What a network was held to, as this host looked then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedWay {
    /// Where its way leads.
    pub hops: Hops,
    /// Whether the kernel has taken all of it: of what it has not, no program has taken anything away.
    pub is_whole: bool,
    connected: Connected,
    relays: Option<bool>,
}

/// How a network is held.
pub struct Hold<'a> {
    /// What becomes of flows that began before.
    pub flows: Flows,
    /// Whether a container on it is the way of another network, and so sends in the name of others. `None` leaves what
    /// is said of that: only who knows all networks can say it.
    pub relays: Option<bool>,
    /// Whether the network's record still says so: another process may have changed it since.
    pub still: Still<'a>,
}

/// What becomes of flows that began before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flows {
    /// They go on: the way is the same.
    GoOn,
    /// They end, before a packet leaves by the way. It is another one, or there was none: flows would keep the address
    /// with which they left, or were called.
    End,
    /// They end where they left by another way: for who does not know what was recorded before.
    EndIfLedElsewhere,
}

/// For who has recorded what holds, and is the one who makes the kernel follow.
///
/// # Errors
/// None.
pub fn always() -> Result<bool> {
    Ok(true)
}

/// As [`keep`]. What led elsewhere is shut first. Returns what the network is held to, and whether anything was changed.
///
/// # Errors
/// As [`ensure`]; [`model::Kind::TryAgain`] where it is not the way any more.
pub fn hold(
    filter: &mut Socket,
    way: &WayOut,
    peer: Option<&Peer>,
    how: &Hold<'_>,
) -> Result<(AppliedWay, bool)> {
    let mut route = Socket::route()?;
    let hops = Hops::find(&mut route, way, peer)?;
    peer.into_iter().for_each(Peer::let_answers_in);
    routes::refuse_shared(&mut route, way)?;
    let connected = routes::connected(&mut route)?;
    let inside = connected.inside();
    let is_led_elsewhere = match how.flows {
        Flows::GoOn => false,
        Flows::End => true,
        Flows::EndIfLedElsewhere => !routes::leads_out(&mut route, way, &hops)?,
    };
    let lead = via::Lead { hops: &hops, inside: &inside, relays: how.relays };
    let mut changed = via::keep(filter, way, &lead, how.still)?;
    if is_led_elsewhere {
        end_flows(filter, &mut route, &way.bridge)?;
    }
    // The filter may have been as it should be before another process gave the network another way.
    if !(how.still)()? {
        return Err(model::Error::try_again(format!(
            "network {} has another way than {}",
            way.network, way.via
        )));
    }
    changed |= routes::lead(&mut route, way)?;
    // Without that filter packets are led all the same.
    let settled = sources::settle(&way.bridge, StrictBy::Unknown);
    let routed = routes::keep(&mut route, way, &hops, &connected.ours)?;
    settled?;
    changed |= routed != Routed::Kept;
    let is_whole = routed != Routed::Partly;
    Ok((AppliedWay { hops, is_whole, connected, relays: how.relays }, changed))
}

/// Ends the flows between the subnets of a bridge and elsewhere.
fn end_flows(filter: &mut Socket, route: &mut Socket, bridge: &IfName) -> Result<()> {
    let Some(link) = route.link(At::Name(bridge))? else { return Ok(()) };
    let subnets: Vec<IpNet> = route
        .addresses(Some(link.index))?
        .into_iter()
        .map(|there| there.address)
        .filter(|net| !model::link_local(Family::of(net)).contains(net))
        .collect();
    let is_here = |address: IpAddr| subnets.iter().any(|net| net.contains(&address));
    conntrack::end(filter, |flow| is_here(flow.source) != is_here(flow.destination)).map(drop)
}

/// Refuses a way whose routing table another bridge has.
///
/// # Errors
/// [`model::Kind::Conflict`] where that is so.
pub fn refuse_shared(way: &WayOut) -> Result<()> {
    routes::refuse_shared(&mut Socket::route()?, way)
}

/// Where the way leads now, without a change.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn find(way: &WayOut, peer: Option<&Peer>) -> Result<Hops> {
    Hops::find(&mut Socket::route()?, way, peer)
}

/// The bridges that rules lead, or the filter holds: those of networks with a way out, now or before.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn led() -> Result<Vec<IfName>> {
    let mut all = routes::led(&mut Socket::route()?)?;
    all.extend(via::held(&mut Socket::netfilter()?)?);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Whether packets of the network are held: the filter, the rules, and the routes that lead out.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_kept(filter: &mut Socket, way: &WayOut, hops: &Hops) -> Result<bool> {
    let mut route = Socket::route()?;
    Ok(via::is_held(filter, way)?
        && routes::is_led(&mut route, way)?
        && routes::is_kept(&mut route, way, hops)?)
}

/// Which sources the way of a network asks of what its bridge passes up to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sources {
    /// Those inside this host: rules lead the bridge.
    Inside,
    /// All: a container on it forwards for another network.
    OfAnybody,
    /// No rule leads it.
    Undecided,
}

pub(crate) fn sources(route: &mut Socket, bridge: &Link) -> Result<Sources> {
    if !routes::led(route)?.contains(&bridge.name) {
        return Ok(Sources::Undecided);
    }
    Ok(match via::relays(&mut Socket::netfilter()?, &bridge.name)? {
        true => Sources::OfAnybody,
        false => Sources::Inside,
    })
}

/// The subnets inside this host, with all that is reached by a bridge.
pub(crate) fn inside(route: &mut Socket, bridge: &Link) -> Result<Vec<IpNet>> {
    let mut all = routes::connected(route)?.inside();
    all.extend(routes::behind(route, bridge)?);
    Ok(IpNet::aggregate(&all))
}

/// Removes everything of a bridge that is gone, or whose network has no way of its own any more. What is
/// gone is no error.
///
/// # Errors
/// Where the process may not change it.
pub fn forget_bridge(filter: &mut Socket, bridge: &IfName) -> Result<()> {
    forget_while(filter, bridge, &always)
}

/// The same while the network's record says so: another process may give it a way again.
///
/// # Errors
/// As [`forget_bridge`]; [`model::Kind::TryAgain`] where it has one.
pub fn forget_while(filter: &mut Socket, bridge: &IfName, still: Still<'_>) -> Result<()> {
    // The rules of the way that it has by now stay.
    if !still()? {
        return Err(Error::try_again(format!("the network of {bridge} has a way out again")));
    }
    let mut route = Socket::route()?;
    // What holds goes last: until then nothing leaves, and flows by the former way end. Another process may have
    // removed the rules just now.
    routes::forget(&mut route, bridge)?;
    let settled = sources::settle(bridge, StrictBy::Unknown);
    if via::holds(filter, bridge)? {
        end_flows(filter, &mut route, bridge)?;
    }
    via::forget_bridge(filter, bridge, still).and(settled)
}
