//! systemd-resolved (org.freedesktop.resolve1(5)): which server it asks about the names of a network, by the network's
//! bridge.
//!
//! It is configured over D-Bus. What is set for a device goes with the device.

use std::net::IpAddr;

use model::{Error, Result};

use crate::firewalld::bus::{Bus, Refusal};
use crate::firewalld::message::{Arguments, Method, Structure, Value};

/// resolved is on no bus of this host.
const ABSENT: [&str; 2] =
    ["org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"];
/// The device is gone.
const GONE: &str = "org.freedesktop.resolve1.NoSuchLink";
/// systemd-networkd configures the device.
const MANAGED: &str = "org.freedesktop.resolve1.LinkBusy";
/// It does not know the call: it is older than version 246.
const UNKNOWN: &str = "org.freedesktop.DBus.Error.UnknownMethod";

/// Families of addresses, as the kernel and resolved number them.
const INET: i32 = 2;
const INET6: i32 = 10;

/// What it asks by a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkNames {
    /// The index of the device.
    pub index: u32,
    /// The servers.
    pub servers: Vec<IpAddr>,
    /// Their port.
    pub port: u16,
    /// The domains about which they are asked; no other server is asked about these, and they are asked about nothing else.
    pub domains: Vec<String>,
}

/// systemd-resolved of this host.
pub struct Resolved(Bus);

impl Resolved {
    /// With its name on the bus, which another one does not have; `None` where it does not run.
    ///
    /// # Errors
    /// Where the bus is there and does not answer.
    pub fn connect() -> Result<Option<(Self, String)>> {
        let Some(mut bus) = Bus::connect()? else { return Ok(None) };
        let method = Method {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            name: "GetNameOwner",
        };
        let arguments = Arguments::default().string("org.freedesktop.resolve1");
        match bus.call(&method, &arguments)? {
            Ok(Value::Text(owner)) => Ok(Some((Self(bus), owner))),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Has it ask these servers about these domains. Whether the device was there.
    ///
    /// # Errors
    /// `Unsupported` where it is too old, or something else configures the device.
    pub fn set(&mut self, link: &LinkNames) -> Result<bool> {
        let index = || Arguments::default().integer(index(link.index));
        let servers: Vec<Structure> =
            link.servers.iter().map(|server| self::server(*server, link.port)).collect();
        let domain = |name: &String| Structure::default().string(name).bool(true);
        let domains: Vec<Structure> = link.domains.iter().map(domain).collect();
        for (name, arguments) in [
            // Names below a domain that the world does not know have no signatures, and no certificate.
            ("SetLinkDNSSEC", index().string("no")),
            ("SetLinkDNSOverTLS", index().string("no")),
            ("SetLinkDefaultRoute", index().bool(false)),
            ("SetLinkDomains", index().structures("sb", &domains)),
            ("SetLinkDNSEx", index().structures("iayqs", &servers)),
        ] {
            if !self.call(name, &arguments)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has it send no query by the device any more. A device that is gone is done.
    ///
    /// # Errors
    /// As [`Resolved::set`].
    pub fn revert(&mut self, link: u32) -> Result<()> {
        self.call("RevertLink", &Arguments::default().integer(index(link))).map(drop)
    }

    /// Whether the device is there.
    fn call(&mut self, name: &'static str, arguments: &Arguments) -> Result<bool> {
        let method = Method {
            destination: "org.freedesktop.resolve1",
            path: "/org/freedesktop/resolve1",
            // The escape keeps the bus's word out of ours.
            interface: "org.freedesktop.resolve1.Man\u{61}ger",
            name,
        };
        match self.0.call(&method, arguments)? {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.name == GONE => Ok(false),
            Err(refusal) => Err(refused(name, refusal)),
        }
    }
}

fn refused(call: &str, Refusal { name, text }: Refusal) -> Error {
    match name.as_str() {
        MANAGED => Error::unsupported(format!(
            "systemd-networkd configures the bridge, so systemd-resolved takes its servers from there only: {text}"
        )),
        UNKNOWN => Error::unsupported("systemd-resolved is older than version 246"),
        name if ABSENT.contains(&name) => Error::try_again("systemd-resolved has just ended"),
        _ => Error::os(
            format!("configuring systemd-resolved for a bridge ({call})"),
            std::io::Error::other(format!("{name}: {text}")),
        ),
    }
}

/// The kernel's indices are positive.
fn index(link: u32) -> i32 {
    i32::try_from(link).unwrap_or_default()
}

fn server(address: IpAddr, port: u16) -> Structure {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (INET, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, address.octets().to_vec()),
    };
    Structure::default().integer(family).bytes(&bytes).short(port).string("")
}
