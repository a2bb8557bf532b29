//! firewalld: it rejects what no zone accepts, also what another table accepted before. It accepts
//! packets of an interface in a trusted zone, as those of Docker and Podman are.
//!
//! The requests go over D-Bus (firewalld.dbus(5)), and only where firewalld's table is in the
//! packet filter of this network namespace: the bus does not say which namespace it works on.

pub(crate) mod bus;
pub(crate) mod message;

use model::{Error, IfName, InterfaceAddress, Result, ZoneName};
use netlink::Socket;
use netlink::nft::{self, Family, Shape, Table};

use self::bus::{Bus, Refusal};
use self::message::{Arguments, Method, Value};

/// Where it keeps its rules.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Inet, name: "firewalld" };
/// Only its panic mode has such a chain here; during a reload there are others.
const PANIC: Table<'static> = Table { name: "firewalld_policy_drop", ..TABLE };
/// Where it decides on what is forwarded.
pub(crate) const FORWARD: &str = "filter_FORWARD";
/// The chains that assign packets to zones: since version 1.0, and before.
const ZONES: [&str; 2] = ["filter_FORWARD_ZONES", "filter_FORWARD_IN_ZONES"];
/// Its zone without any rule.
const TRUSTED: &str = "trusted";
/// The programs' names of refusals that mean that all is as it should be, before a colon.
const IS_SO: [&str; 3] = ["ZONE_ALREADY_SET", "ALREADY_ENABLED", "ZONE_CONFLICT"];
const IS_NOT: [&str; 4] = ["UNKNOWN_INTERFACE", "UNKNOWN_SOURCE", "NOT_ENABLED", "ZONE_CONFLICT"];
const IS_SO_OF_SOURCES: [&str; 2] = ["ZONE_ALREADY_SET", "ALREADY_ENABLED"];
/// firewalld is on no bus of this host.
const ABSENT: [&str; 2] =
    ["org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"];

/// Puts `interface` into the zone that trusts, unless it is in one: which one is the administrator's
/// decision. Whether it was in none.
///
/// # Errors
/// Where firewalld's rules are here and it cannot be asked.
pub(crate) fn trust(socket: &mut Socket, interface: &IfName) -> Result<bool> {
    if !is_here(socket)? || is_in_a_zone(socket, interface)? {
        return Ok(false);
    }
    let Some(mut firewalld) = Firewalld::connect()? else { return Ok(false) };
    firewalld.change("addInterface", (TRUSTED, interface.as_str()), &IS_SO)
}

/// Removes the interface from the zone. In another zone it stays; without firewalld there is no
/// request.
///
/// # Errors
/// As [`trust`].
pub(crate) fn forget(socket: &mut Socket, interface: &IfName) -> Result<()> {
    if !is_here(socket)? || !is_in_a_zone(socket, interface)? {
        return Ok(());
    }
    let Some(mut firewalld) = Firewalld::connect()? else { return Ok(()) };
    firewalld.change("removeInterface", (TRUSTED, interface.as_str()), &IS_NOT).map(drop)
}

/// Makes the addresses sources of the zone. What is so already stays as it is.
///
/// # Errors
/// Where firewalld does not run, does not know the zone, or has the address in another one.
pub(crate) fn add_sources(zone: &ZoneName, addresses: &[InterfaceAddress]) -> Result<()> {
    let mut firewalld = Firewalld::running()?;
    for source in sources(addresses) {
        firewalld.change("addSource", (zone.as_str(), &source), &IS_SO_OF_SOURCES)?;
    }
    Ok(())
}

/// Takes them out again; where it does not run they are gone.
///
/// # Errors
/// Where it runs and cannot be asked.
pub(crate) fn remove_sources(zone: &ZoneName, addresses: &[InterfaceAddress]) -> Result<()> {
    let Some(mut firewalld) = Firewalld::connect()? else { return Ok(()) };
    for source in sources(addresses) {
        firewalld.change("removeSource", (zone.as_str(), &source), &IS_NOT)?;
    }
    Ok(())
}

/// Fails for the first that is no source of the zone.
///
/// # Errors
/// That, and as [`add_sources`].
pub(crate) fn check_sources(zone: &ZoneName, addresses: &[InterfaceAddress]) -> Result<()> {
    let mut firewalld = Firewalld::running()?;
    for source in sources(addresses) {
        if firewalld.call("querySource", &[zone.as_str(), &source])? != Ok(Value::Bool(true)) {
            return Err(Error::not_found(format!(
                "{source} is no source of firewalld's zone {zone}"
            )));
        }
    }
    Ok(())
}

fn sources(addresses: &[InterfaceAddress]) -> impl Iterator<Item = String> {
    addresses.iter().map(|held| model::host_net(held.address.addr()).to_string())
}

/// Whether it drops everything: it has a table of its own for that.
pub(crate) fn is_in_panic(socket: &mut Socket) -> Result<bool> {
    nft::chain_exists(socket, PANIC, "raw_prerouting")
}

/// Whether it answers on the bus, which does not say of which network namespace it is.
pub(crate) fn runs() -> bool {
    Firewalld::running().is_ok()
}

fn is_here(socket: &mut Socket) -> Result<bool> {
    nft::chain_exists(socket, TABLE, FORWARD)
}

/// Whether a rule of firewalld's leads from the interface to a zone. Read from the rules, because a
/// request costs a thousand times as much.
fn is_in_a_zone(socket: &mut Socket, interface: &IfName) -> Result<bool> {
    let is_meant = |rule: &nft::Rule| match rule.shape.as_slice() {
        [Shape::InputName, Shape::Equal(there), ..] => is_name(there, interface),
        _ => false,
    };
    for chain in ZONES {
        if nft::rules(socket, TABLE, chain)?.iter().any(is_meant) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A whole name is compared with the zeros behind it, and only its beginning without any.
fn is_name(compared: &[u8], interface: &IfName) -> bool {
    let name = compared.split(|byte| *byte == 0).next().unwrap_or_default();
    name.len() < compared.len() && name == interface.as_str().as_bytes()
}

/// The program, on the bus.
struct Firewalld(Bus);

impl Firewalld {
    /// `None` where there is no bus: whose rules those are does not run.
    fn connect() -> Result<Option<Self>> {
        Ok(Bus::connect()?.map(Self))
    }

    /// Fails where it does not run.
    fn running() -> Result<Self> {
        let not = || Error::try_again("firewalld does not run, and \"backend\" asks for it");
        let mut firewalld = Self::connect()?.ok_or_else(not)?;
        match firewalld.call("getZones", &[])? {
            Err(Refusal { name, .. }) if ABSENT.contains(&name.as_str()) => Err(not()),
            _ => Ok(firewalld),
        }
    }

    /// Calls `method`, and says whether it changed anything; a refusal for one of the reasons in
    /// `fine` is none.
    fn change(&mut self, method: &str, (zone, what): (&str, &str), fine: &[&str]) -> Result<bool> {
        match self.call(method, &[zone, what])? {
            Ok(_) => Ok(true),
            Err(Refusal { name, .. }) if ABSENT.contains(&name.as_str()) => Ok(false),
            Err(Refusal { text, .. }) if is_reason(&text, fine) => Ok(false),
            Err(Refusal { name, text }) => Err(Error::try_again(format!(
                "firewalld refuses {method} of {what} in zone {zone}: {name}: {text}"
            ))),
        }
    }

    fn call(&mut self, name: &str, arguments: &[&str]) -> Result<Result<Value, Refusal>> {
        let method = Method {
            destination: "org.fedoraproject.FirewallD1",
            path: "/org/fedoraproject/FirewallD1",
            interface: "org.fedoraproject.FirewallD1.zone",
            name,
        };
        self.0.call(&method, &Arguments::strings(arguments))
    }
}

fn is_reason(text: &str, reasons: &[&str]) -> bool {
    reasons.iter().any(|reason| text.split(':').next() == Some(reason))
}
