//! `firewall`: access to the container, chained behind a main plugin.

use model::{Backend, Error, Firewall, IfName, IngressPolicy, Result, Wiring, ZoneName};

use super::Plan;
use crate::call::Call;
use crate::wire::Object;
use crate::words::reported;

/// The back end that is asked by D-Bus.
const FIREWALLD: &str = "firewalld";
/// The reference's default.
const TRUSTED: &str = "trusted";

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let admin_chain = admin_chain(&root)?;
    let backend = backend(call, &root, admin_chain.is_some())?;
    let zone = zone(&root)?;
    let ingress = ingress(&root)?.unwrap_or(IngressPolicy::Open);
    let bridge = call.previous.as_ref().and_then(|previous| previous.host_side());
    if call.previous.is_some() {
        require_bridge(ingress, bridge.as_ref())?;
    }
    let egress = model::EgressPolicy::Open;
    let firewall = Firewall {
        backend,
        ingress,
        egress,
        bridge,
        admin_chain,
        zone,
        passage: model::Passage::default(),
    };
    let wiring = Wiring { firewall: Some(firewall), ..Wiring::default() };
    let addresses = call.previous.as_ref().map(|previous| previous.addresses());
    Ok(Plan { wiring, addresses: addresses.unwrap_or_default(), ..Plan::default() })
}

/// Some rules, of which nothing else is known.
pub(super) fn remnant(call: &Call<'_>) -> Wiring {
    let zone = zone(&call.config.root()).unwrap_or_default();
    let firewall = Firewall { zone, ..Firewall::open(call.context.backend) };
    Wiring { firewall: Some(firewall), ..Wiring::default() }
}

/// `ingressPolicy`.
pub(super) fn ingress(root: &Object<'_>) -> Result<Option<IngressPolicy>> {
    Ok(Some(match root.text("ingressPolicy")? {
        None => return Ok(None),
        Some("open") => IngressPolicy::Open,
        Some("same-bridge") => IngressPolicy::SameBridge,
        Some("isolated") => IngressPolicy::Isolated,
        Some(other) => {
            let words = format!("unknown ingress policy: {other:?}");
            return Err(reported(words, "; \"ingressPolicy\" is open, same-bridge or isolated"));
        }
    }))
}

fn require_bridge(ingress: IngressPolicy, bridge: Option<&IfName>) -> Result<()> {
    let name = match ingress {
        IngressPolicy::Open => return Ok(()),
        IngressPolicy::SameBridge => "same-bridge",
        IngressPolicy::Isolated => "isolated",
    };
    match bridge {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!(
            "interface needs to be set for ingress policy {name:?}, make sure to chain \
             \"firewall\" plugin with \"bridge\""
        ))),
    }
}

/// A chain of the administrator's is one of iptables, so that naming it asks for iptables.
fn backend(call: &Call<'_>, root: &Object<'_>, has_chain: bool) -> Result<Backend> {
    match root.text("backend")? {
        None if has_chain => Ok(Backend::Iptables),
        None => Ok(call.context.backend),
        Some("iptables") => Ok(Backend::Iptables),
        Some("nftables") if has_chain => Err(Error::invalid(
            "\"backend\" is nftables, but \"iptablesAdminChainName\" names a chain of iptables",
        )),
        Some("nftables") => Ok(Backend::Nftables),
        // Its zone is in addition to what every back end has.
        Some(FIREWALLD) => Ok(call.context.backend),
        Some(other) => Err(Error::invalid(format!(
            "\"backend\" is {other:?}, which is neither nftables, iptables nor firewalld"
        ))),
    }
}

/// `firewalldZone`, which counts where the back end is firewalld.
fn zone(root: &Object<'_>) -> Result<Option<ZoneName>> {
    let named = root.parse::<ZoneName>("firewalldZone")?;
    if root.text("backend")? != Some(FIREWALLD) {
        return Ok(None);
    }
    named.map_or_else(|| TRUSTED.parse(), Ok).map(Some)
}

fn admin_chain(root: &Object<'_>) -> Result<Option<String>> {
    let Some(chain) = root.text("iptablesAdminChainName")? else { return Ok(None) };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    match chain.len() <= 28 && !chain.starts_with('-') && chain.bytes().all(plain) {
        true => Ok(Some(chain.to_owned())),
        false => Err(Error::invalid(format!(
            "\"iptablesAdminChainName\" is {chain:?}, which is not the name of a chain"
        ))),
    }
}
