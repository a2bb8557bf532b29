//! `portmap`: ports of the host that lead to the container, chained behind a main plugin.

use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{Backend, Error, IptablesPublish, PortMap, Protocol, Publish, Result, Wiring};

use super::Plan;
use crate::call::Call;
use crate::capability;
use crate::wire::{Command, Node, Object};
use crate::words::reported;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    // The reference has these words in front with ADD only.
    let publish = publish(call, "backend").map_err(|error| match call.command {
        Command::Add => error.context("failed to parse config"),
        _ => error,
    })?;
    let idle = publish.ports.is_empty();
    let publish = Some(publish).filter(|_| !idle);
    let wiring = Wiring { publish, ..Wiring::default() };
    Ok(Plan { wiring, idle, addresses: super::own_addresses(call), ..Plan::default() })
}

/// The ports to publish, with `backend` in the field of that name.
pub(super) fn publish(call: &Call<'_>, backend: &str) -> Result<Publish> {
    let root = call.config.root();
    let iptables = iptables_options(&root)?;
    let masks = root.integer("markMasqBit")?.is_some();
    if masks && iptables.set_mark_chain.is_some() {
        return Err(Error::invalid("Cannot specify externalSetMarkChain and markMasqBit"));
    }
    let backend = choose_backend(call, &root, backend)?;
    let behind = call.previous.as_ref().and_then(|previous| previous.host_side());
    Ok(Publish {
        backend,
        served: Vec::new(),
        added: Vec::new(),
        leaving: Vec::new(),
        ports: port_maps(call)?,
        reach: model::Reach::Any,
        snat: root.maybe("snat")?.unwrap_or(true),
        masquerade_all: root.flag("masqAll")?,
        behind,
        iptables,
    })
}

fn iptables_options(root: &Object<'_>) -> Result<IptablesPublish> {
    let mark_bit = match root.integer("markMasqBit")? {
        None => None,
        Some(bit @ 0..=31) => u8::try_from(bit).ok(),
        Some(bit) => {
            let more = format!(": \"markMasqBit\" is {bit}");
            return Err(reported("MasqMarkBit must be between 0 and 31", &more));
        }
    };
    Ok(IptablesPublish {
        conditions_v4: root.texts("conditionsV4")?,
        conditions_v6: root.texts("conditionsV6")?,
        mark_bit,
        set_mark_chain: root.text("externalSetMarkChain")?.map(str::to_owned),
    })
}

/// The named one; or iptables, where an option means nothing to nftables; or the host's default.
fn choose_backend(call: &Call<'_>, root: &Object<'_>, key: &str) -> Result<Backend> {
    let mut only_iptables = Vec::new();
    for conditions in ["conditionsV4", "conditionsV6"] {
        let Some(node) = root.get(conditions) else { continue };
        match root.texts(conditions)?.first() {
            None => {}
            Some(first) if first.starts_with(['-', '!']) => only_iptables.push(conditions),
            Some(_) => {
                let wrong =
                    node.wrong("which is in the syntax of nft; only that of iptables is supported");
                return Err(Error::unsupported(wrong.to_string()));
            }
        }
    }
    if root.text("externalSetMarkChain")?.is_some() {
        only_iptables.push("externalSetMarkChain");
    }
    match root.text(key)? {
        Some("iptables") => Ok(Backend::Iptables),
        Some("nftables") if only_iptables.is_empty() => Ok(Backend::Nftables),
        Some("nftables") => Err(Error::invalid(format!(
            "nftables backend was requested but configuration contains iptables-specific options [{}]",
            only_iptables.join(" ")
        ))),
        Some(other) => {
            let more = format!("; {key:?} is nftables or iptables");
            Err(reported(format!("unrecognized backend {other:?}"), &more))
        }
        None if only_iptables.is_empty() => Ok(call.context.backend),
        None => Ok(Backend::Iptables),
    }
}

fn port_maps(call: &Call<'_>) -> Result<Vec<PortMap>> {
    match call.config.runtime()? {
        None => Ok(Vec::new()),
        Some(runtime) => runtime.list(capability::PORT_MAPPINGS)?.iter().map(port_map).collect(),
    }
}

fn port_map(node: &Node<'_>) -> Result<PortMap> {
    let object = node.object()?;
    let port = |key: &str, what: &str| {
        let number = object.integer(key)?.unwrap_or(0);
        let port = u16::try_from(number).ok().and_then(NonZeroU16::new);
        port.ok_or_else(|| Error::invalid(format!("Invalid {what} port number: {number}")))
    };
    let container_port = port("containerPort", "container")?;
    let host_port = port("hostPort", "host")?;
    let protocol = object.parse::<Protocol>("protocol")?;
    let protocol = protocol.ok_or_else(|| node.wrong("which has no \"protocol\""))?;
    let host = object.parse::<IpAddr>("hostIP")?.map(|host| host.to_canonical());
    Ok(PortMap { host, host_port, container_port, protocol })
}
