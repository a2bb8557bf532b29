//! Failures in the words of the reference plugins, which programs compare.
//!
//! The engine says what failed, on which object and what to do. A runtime gets the reference's
//! sentence where it has one; a person gets Spoke's on standard error.

use std::net::IpAddr;

use model::{DeviceChoice, Error, Fact, IfName, RequestedAddress, Route};

use crate::call::Call;
use crate::capability;
use crate::plugin_type::Plugin;
use crate::wire::{Command, Failure};

/// An error of a configuration: the reference's words, and Spoke's addition.
pub(crate) fn reported(words: impl Into<String>, more: &str) -> Error {
    let words = words.into();
    Error::invalid(format!("{words}{more}")).about(Fact::Words(words))
}

/// The failure for the runtime, and the additional sentence for a person.
pub(crate) fn failure(call: &Call<'_>, error: &Error) -> (Failure, Option<String>) {
    let mut failure = Failure::of(error, call.command);
    // The reference has no plugin of our type, and no STATUS.
    let is_ours = call.plugin == Plugin::Spoke || call.command == Command::Status;
    let known = error.fact().filter(|_| !is_ours).and_then(|fact| worded(call, fact));
    let Some(words) = known else {
        return (failure, None);
    };
    let ours = std::mem::replace(&mut failure.msg, words);
    if failure.msg == ours {
        return (failure, None);
    }
    (failure, Some(ours))
}

fn worded(call: &Call<'_>, fact: &Fact) -> Option<String> {
    let plugin = call.plugin;
    match fact {
        Fact::Words(words) | Fact::Whole(words) => Some(words.clone()),
        Fact::Attached { .. } if plugin == Plugin::HostDevice => Some(no_device().to_owned()),
        Fact::Attached { first, wanted, .. } if asks_first(call) => match (wanted, first) {
            (Some(wanted), _) => Some(held(wanted)),
            (None, Some(first)) => Some(allocated(call, 0, *first)),
            (None, None) => None,
        },
        Fact::Attached { peer, .. } => name_taken(call, peer.as_ref()),
        Fact::Held(wanted) if !wanted.ranges.is_empty() => Some(by_source(call, held(wanted))),
        Fact::Held(_) => None,
        Fact::Full { index, ranges } => Some(by_source(
            call,
            format!(
                "failed to allocate for range {index}: no IP addresses available in range set: \
                 {ranges}"
            ),
        )),
        Fact::NameTaken(peer) => name_taken(call, peer.as_ref()),
        Fact::NoDevice(device) => no_such_device(call, &device.choice),
        Fact::StaysHere(name) => Some(format!(
            "failed to move link failed to move \"{name}\" to tempNS: invalid argument"
        )),
        Fact::NoParent => no_parent(call),
        checked => differs(call, checked),
    }
}

/// The sentence of CHECK.
fn differs(call: &Call<'_>, fact: &Fact) -> Option<String> {
    let plugin = call.plugin;
    Some(match fact {
        Fact::NoInterface(name) => no_interface(call, name)?,
        Fact::OtherMac { name, is, wanted } => match plugin {
            Plugin::Bridge if is_bridge(call, name) => {
                format!("Bridge interface {name} Mac doesn't match: {wanted}")
            }
            Plugin::Bridge if name.as_str() != call.environment.ifname => {
                format!("Interface {name} Mac doesn't match: {wanted} not found")
            }
            _ => format!(
                "{} {name} Mac {wanted} doesn't match container Mac: {is}",
                start(plugin, "Interface", "interface")?
            ),
        },
        Fact::NoAddress { name, address } => {
            format!("Failed to match addr {address} on interface {name}")
        }
        Fact::NoRoute(route) => {
            format!("Expected Route {} not found in routing table", shown(route))
        }
        Fact::OtherKind(name) => other_kind(call, name)?,
        Fact::Down(name) if plugin == Plugin::Dummy => format!("Interface {name} is down"),
        Fact::OtherMode { is, wanted } => match plugin {
            Plugin::Macvlan => {
                format!("container macvlan mode {is} does not match expected value: {wanted}")
            }
            Plugin::Ipvlan => {
                format!("Container IPVlan mode {is} does not match expected value: {wanted}")
            }
            _ => return None,
        },
        Fact::NoRule { chain, rule } if plugin == Plugin::Firewall => {
            let words = rule.replace('"', "");
            let is_shared = chain == "FORWARD" || words.contains("admin overrides");
            let of = if is_shared { format!("{chain} rule") } else { "rule".to_owned() };
            format!("expected {of} [{words}] not found")
        }
        Fact::NotPromiscuous(name) => format!(
            "Bridge interface {name} configured Promisc Mode true doesn't match current state: false "
        ),
        Fact::NoPort(bridge) => format!("CNI veth created for bridge {bridge} was not found"),
        _ => return None,
    })
}

/// How a plugin begins the sentence about an interface.
fn start(plugin: Plugin, upper: &str, lower: &str) -> Option<String> {
    match plugin {
        Plugin::Bridge | Plugin::Ipvlan | Plugin::HostDevice | Plugin::Dummy => {
            Some(upper.to_owned())
        }
        Plugin::Macvlan => Some(lower.to_owned()),
        Plugin::Ptp => Some(format!("ptp: {upper}")),
        Plugin::Vlan => Some(format!("vlan: {upper}")),
        _ => None,
    }
}

fn no_interface(call: &Call<'_>, name: &IfName) -> Option<String> {
    let own = &call.environment.ifname;
    match call.plugin {
        Plugin::Bridge if is_bridge(call, name) => Some(format!("Interface name {name} not found")),
        // Both ends of a pair are removed together, and the container's is checked first.
        Plugin::Bridge => Some(format!("Interface name {own} not found")),
        Plugin::Tap => Some(format!("Cannot find container link {own}")),
        Plugin::Tuning if call.command == Command::Check => {
            Some(format!("Cannot find container link {own}"))
        }
        Plugin::Tuning => Some(format!("failed to get {own:?}: Link not found")),
        plugin => {
            let start = start(plugin, "Container", "container")?;
            Some(format!("{start} Interface name in prevResult: {own} not found"))
        }
    }
}

fn other_kind(call: &Call<'_>, name: &IfName) -> Option<String> {
    let (word, kind) = match call.plugin {
        Plugin::Bridge if is_bridge(call, name) => {
            return Some(format!("Interface {name} does not have link type of bridge"));
        }
        Plugin::Bridge => ("Error", "veth"),
        Plugin::Ptp => ("Error", "veth/p2p"),
        Plugin::Macvlan => ("error", "macvlan"),
        Plugin::Ipvlan => ("Error", "ipvlan"),
        Plugin::Vlan => ("Error", "vlan"),
        Plugin::Dummy => ("Error", "dummy"),
        _ => return None,
    };
    Some(format!("{word}: Container interface {name} not of type {kind}"))
}

/// Whether the plugin asks the address source before it makes anything.
fn asks_first(call: &Call<'_>) -> bool {
    matches!(call.plugin, Plugin::HostLocal | Plugin::Ptp | Plugin::Tap)
}

fn allocated(call: &Call<'_>, index: u8, address: IpAddr) -> String {
    format!(
        "failed to allocate for range {index}: {address} has been allocated to {}, duplicate \
         allocation is not allowed",
        call.environment.container
    )
}

fn held(wanted: &RequestedAddress) -> String {
    format!(
        "failed to allocate for range {}: requested IP address {} is not available in range set {}",
        wanted.index, wanted.address, wanted.ranges
    )
}

/// An address source's sentence, as the plugin passes it on.
fn by_source(call: &Call<'_>, words: String) -> String {
    match call.plugin {
        Plugin::Vlan => format!("failed to execute IPAM delegate: {words}"),
        _ => words,
    }
}

fn name_taken(call: &Call<'_>, peer: Option<&IfName>) -> Option<String> {
    let own = &call.environment.ifname;
    match call.plugin {
        Plugin::Bridge | Plugin::Ptp => {
            let peer = peer.map_or_else(|| "veth".to_owned(), ToString::to_string);
            Some(format!("container veth name ({own:?}) peer provided ({peer:?}) already exists"))
        }
        Plugin::Macvlan => Some(format!("failed to rename macvlan to {own:?}: file exists")),
        Plugin::Ipvlan => Some(format!("failed to rename ipvlan to {own:?}: file exists")),
        Plugin::Vlan => Some("failed to create vlan: file exists".to_owned()),
        Plugin::Dummy => Some("failed to create dummy: file exists".to_owned()),
        Plugin::HostDevice => {
            let device = call.config.root().text("device").ok().flatten()?;
            Some(format!(
                "failed to move link failed to move {own:?} (host: {device:?}) to container NS: \
                 file exists"
            ))
        }
        _ => None,
    }
}

fn no_device() -> &'static str {
    "failed to find host device: Link not found"
}

fn no_such_device(call: &Call<'_>, choice: &DeviceChoice) -> Option<String> {
    Some(match choice {
        DeviceChoice::Name(_) => no_device().to_owned(),
        DeviceChoice::Mac(_) => {
            "failed to find host device: failed to find physical interface".to_owned()
        }
        DeviceChoice::Path(path) => {
            let net = path.join("net");
            let open = format!("open {}: no such file or directory", net.display());
            format!(
                "failed to find host device: failed to read directory {}: {open:?}",
                net.display()
            )
        }
        DeviceChoice::Bus(address) => {
            let runtime = call.config.runtime().ok().flatten();
            let by_runtime = runtime.and_then(|it| it.text(capability::DEVICE_ID).ok().flatten());
            match by_runtime {
                Some(id) => format!("runtime config DeviceID {id} not found or unsupported"),
                None => format!(
                    "error with host device: lstat /sys/bus/pci/devices/{}: no such file or directory",
                    address.as_str()
                ),
            }
        }
    })
}

fn no_parent(call: &Call<'_>) -> Option<String> {
    match call.plugin {
        Plugin::Macvlan => Some("Link not found".to_owned()),
        Plugin::Vlan if call.command != Command::Check => Some("Link not found".to_owned()),
        Plugin::Ipvlan | Plugin::Vlan => {
            let master = call.config.root().text("master").ok().flatten()?;
            Some(format!("failed to lookup master {master:?}: Link not found"))
        }
        _ => None,
    }
}

fn is_bridge(call: &Call<'_>, name: &IfName) -> bool {
    let bridge = call.config.root().text("bridge").ok().flatten();
    name.as_str() == bridge.unwrap_or("cni0")
}

/// As the reference's language prints it; a mask is hexadecimal.
fn shown(route: &Route) -> String {
    let mask = match route.dst {
        model::IpNet::V4(net) => format!("{:08x}", u32::from(net.netmask())),
        model::IpNet::V6(net) => format!("{:032x}", u128::from(net.netmask())),
    };
    let number = |number: Option<u32>| number.unwrap_or(0);
    let given = |text: Option<String>| text.unwrap_or_else(|| "<nil>".to_owned());
    format!(
        "{{Dst:{{IP:{} Mask:{mask}}} GW:{} MTU:{} AdvMSS:{} Priority:{} Table:{} Scope:{}}}",
        route.dst.addr(),
        given(route.via.map(|via| via.to_string())),
        number(route.mtu),
        number(route.advmss),
        number(route.priority),
        given(route.table.map(|table| table.to_string())),
        given(route.scope.map(|scope| scope.to_string())),
    )
}
