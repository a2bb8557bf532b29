//! Open vSwitch's database (OVSDB, RFC 7047), as far as ports of bridges need it: what `ovs-vsctl`
//! does, without a process for it.

mod frame;
mod installed;
mod listed;
mod operation;
mod remote;
mod segment;
mod session;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Error, IfName, Kind, Mac, ResourceId, Result};
use serde_json::{Value, json};

use operation::{Table, comment, insert, is_named, mutate, select, wait};
use session::{Refusal, Session, TIMEOUT};

pub use listed::Listed;
pub use remote::Remote;
pub use segment::SegmentPort;

/// The owner of Kuryr's ports in a switch (`external_ids:owner`), which its own script searches
/// for.
const OWNER: &str = "kuryr";

/// The maker of Spoke's ports (`external_ids:made-by`).
const MADE_BY: &str = "spoke";

/// How long the switch may take to configure a port, at most. A session waits a little longer for
/// each answer.
const TAKING: Duration = Duration::from_secs(10);

/// How long it may take to find the port's device, which exists.
const FINDING: Duration = Duration::from_secs(2);

/// How often a port is read again that others change.
const ATTEMPTS: usize = 3;

/// What forwards a bridge's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// The kernel (`system`).
    Kernel,
    /// The switch itself (`netdev`), which takes frames as they are.
    Program,
}

impl From<&str> for Datapath {
    fn from(text: &str) -> Self {
        if text == "netdev" { Datapath::Program } else { Datapath::Kernel }
    }
}

/// A bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// What forwards its packets.
    pub datapath: Datapath,
}

/// A port that is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewPort<'a> {
    /// Of this bridge.
    pub bridge: &'a IfName,
    /// The interface.
    pub end: &'a IfName,
    /// The Neutron port that it is.
    pub port: &'a ResourceId,
    /// Its hardware address.
    pub mac: Mac,
    /// Neutron's `device_id`.
    pub device: &'a str,
}

/// A container's port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugged {
    /// The interface.
    pub end: IfName,
    /// The Neutron port that it is.
    pub port: ResourceId,
    /// Neutron's `device_id`.
    pub device: String,
    /// Whether we made it, and not kuryr-libnetwork.
    pub is_ours: bool,
    /// Why the switch cannot use it, if that is so.
    pub error: Option<String>,
}

/// A connection to the database.
pub struct Ovsdb {
    session: Session,
    taking: Duration,
}

impl Ovsdb {
    /// Connects to the database at `remote`: `unix:PATH` or `tcp:HOST:PORT`.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where no server answers there; [`Kind::Denied`]; [`Kind::Invalid`] or
    /// [`Kind::Unsupported`] where it is no such address.
    pub fn connect(remote: &str) -> Result<Self> {
        Ok(Self { session: Session::open(&remote.parse()?, TIMEOUT)?, taking: TAKING })
    }

    /// The same for a caller that others wait for: neither the database nor the switch may take longer for an
    /// answer.
    ///
    /// # Errors
    /// As [`Ovsdb::connect`].
    pub fn connect_within(remote: &str, timeout: Duration) -> Result<Self> {
        Ok(Self { session: Session::open(&remote.parse()?, timeout)?, taking: timeout / 2 })
    }

    /// Sets how long the switch may take to configure a port: ten seconds at most.
    #[must_use]
    pub fn within(self, taking: Duration) -> Self {
        Self { taking: taking.min(TAKING), ..self }
    }

    /// The bridge of this name, if there is one.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where the database does not answer; [`Kind::Kernel`] where it refuses.
    pub fn bridge(&mut self, name: &IfName) -> Result<Option<Bridge>> {
        let asked = [select(Table::Bridge, is_named(name), &["datapath_type"])];
        let results = self.carry_out(&asked)?;
        let rows = value::rows(&results, 0);
        Ok(rows.first().map(|row| {
            let text = row.get("datapath_type").and_then(Value::as_str).unwrap_or_default();
            Bridge { datapath: text.into() }
        }))
    }

    /// Makes a port, and waits until the switch has taken it. Repeating it is no error.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where there is no such bridge; [`Kind::Conflict`] where another Neutron
    /// port has an interface of that name; [`Kind::TryAgain`] where the switch does not take it in
    /// time; [`Kind::Kernel`] where it cannot.
    pub fn plug(&mut self, new: &NewPort<'_>) -> Result<()> {
        for _ in 0..ATTEMPTS {
            // Both at once: the second is answered when the switch has dealt with the first.
            let made = self.session.send(&insertion(new))?;
            let taken = self.session.send(&taking(new.end, self.taking))?;
            let made = self.session.receive(made)?;
            let taken = self.session.receive(taken)?;
            let there = match made {
                Ok(_) => true,
                Err(refusal) if refusal.is_timeout() => self.is_there(new)?,
                Err(refusal) => return Err(refusal.into_error(&format!("plugging {}", new.end))),
            };
            if there {
                return self.is_taken(new, taken);
            }
        }
        Err(Error::try_again(format!(
            "{} of {} keeps changing in Open vSwitch",
            new.end, new.bridge
        )))
    }

    /// Removes the interface's port, if it is this Neutron port's and was plugged for this device;
    /// whether there was one. Two containers may claim one Neutron port, and one of them is wrong.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where the database does not answer; [`Kind::Kernel`] where it refuses.
    pub fn unplug(&mut self, end: &IfName, port: &ResourceId, device: &str) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let results = self.carry_out(&[
                select(Table::Interface, is_named(end), &["external_ids"]),
                select(Table::Port, is_named(end), &["_uuid"]),
            ])?;
            let interface = value::rows(&results, 0).first();
            let row =
                value::rows(&results, 1).first().and_then(|row| value::uuid(row.get("_uuid")?));
            let (Some(interface), Some(row)) = (interface, row) else { return Ok(false) };
            let ids = interface.get("external_ids").cloned().unwrap_or_default();
            let reported = value::map(&ids);
            let is_anothers = reported.get("vm-uuid").is_some_and(|other| other != device);
            if is_anothers || reported.get("iface-id").map(String::as_str) != Some(port.as_str()) {
                return Ok(false);
            }
            let removed = self.session.transact(&deletion(end, &ids, row))?;
            match removed {
                Ok(_) => return Ok(true),
                Err(refusal) if refusal.is_timeout() => {}
                Err(refusal) => return Err(refusal.into_error(&format!("unplugging {end}"))),
            }
        }
        Err(Error::try_again(format!("{end} keeps changing in Open vSwitch")))
    }

    /// Whether the bridge has this interface as a port, it is this Neutron port's, and the switch can
    /// use it.
    ///
    /// # Errors
    /// As [`Ovsdb::bridge`].
    pub fn holds(&mut self, bridge: &IfName, end: &IfName, port: &ResourceId) -> Result<bool> {
        let results = self.carry_out(&[
            select(Table::Bridge, is_named(bridge), &["ports"]),
            select(Table::Interface, is_named(end), &["external_ids", "error"]),
            select(Table::Port, is_named(end), &["_uuid"]),
        ])?;
        let first = |index: usize| value::rows(&results, index).first();
        let (Some(bridge), Some(interface)) = (first(0), first(1)) else { return Ok(false) };
        let row = first(2).and_then(|row| value::uuid(row.get("_uuid")?));
        let ids = interface.get("external_ids").map(value::map).unwrap_or_default();
        let is_inside = row.is_some_and(|row| value::uuids(bridge.get("ports")).contains(&row));
        let is_usable = interface.get("error").and_then(value::text).is_none();
        Ok(is_inside && is_usable && ids.get("iface-id").is_some_and(|id| id == port.as_str()))
    }

    /// The containers' ports of this switch, from any maker.
    ///
    /// # Errors
    /// As [`Ovsdb::bridge`].
    pub fn plugged(&mut self) -> Result<Vec<Plugged>> {
        let owned = json!([["external_ids", "includes", ["map", [["owner", OWNER]]]]]);
        let columns = ["name", "external_ids", "error"];
        let results = self.carry_out(&[select(Table::Interface, owned, &columns)])?;
        Ok(value::rows(&results, 0).iter().filter_map(plugged).collect())
    }

    /// Whether the port exists already as it is to be. One that is this Neutron port's, but in
    /// another bridge or of another device, is removed.
    fn is_there(&mut self, new: &NewPort<'_>) -> Result<bool> {
        let results = self.carry_out(&[
            select(Table::Bridge, is_named(new.bridge), &["ports"]),
            select(Table::Interface, is_named(new.end), &["external_ids"]),
            select(Table::Port, is_named(new.end), &["_uuid"]),
        ])?;
        let Some(bridge) = value::rows(&results, 0).first() else {
            return Err(Error::not_found(format!(
                "Open vSwitch has no bridge {}, which {} is to be a port of",
                new.bridge, new.end
            )));
        };
        let interface = value::rows(&results, 1).first();
        let row = value::rows(&results, 2).first().and_then(|row| value::uuid(row.get("_uuid")?));
        let ids = interface.and_then(|row| row.get("external_ids")).map(value::map);
        match (ids, row) {
            (Some(ids), Some(row)) if ids.get("iface-id") == Some(&new.port.to_string()) => {
                let inside = value::uuids(bridge.get("ports")).contains(&row);
                // The device exists and belongs to the caller: a program that plugged another one
                // is gone.
                let plugged_for = ids.get("vm-uuid").map_or(new.device, String::as_str);
                let is_it = inside && plugged_for == new.device;
                if !is_it {
                    self.unplug(new.end, new.port, plugged_for)?;
                }
                Ok(is_it)
            }
            (None, None) => Ok(false),
            (ids, _) => Err(Error::conflict(format!(
                "Open vSwitch has a port or interface {} already, of {}: it is to be of port {}",
                new.end,
                whose(ids.as_ref()),
                new.port
            ))),
        }
    }

    /// Whether the switch has found the port's device.
    fn is_taken(&mut self, new: &NewPort<'_>, taken: Result<Vec<Value>, Refusal>) -> Result<()> {
        let (end, bridge) = (new.end, new.bridge);
        match taken {
            Ok(_) => return Ok(()),
            Err(refusal) if refusal.is_timeout() => {}
            Err(refusal) => return Err(refusal.into_error(&format!("waiting for {end}"))),
        }
        let results =
            self.carry_out(&[select(Table::Interface, is_named(end), &["ofport", "error"])])?;
        let row = value::rows(&results, 0).first();
        match row.and_then(|row| value::text(row.get("error")?)) {
            Some(error) => Err(Error::new(
                Kind::Kernel,
                format!("Open vSwitch cannot use {end} as a port of {bridge}: {error}"),
            )),
            None => Err(Error::try_again(format!(
                "Open vSwitch has not taken {end} as a port of {bridge} within {} seconds: is \
                 ovs-vswitchd running?",
                self.taking.as_secs_f32()
            ))),
        }
    }

    fn carry_out(&mut self, operations: &[Value]) -> Result<Vec<Value>> {
        let results = self.session.transact(operations)?;
        results.map_err(|refusal| refusal.into_error("asking Open vSwitch"))
    }
}

/// Makes the port, if none of its name exists and the bridge does.
fn insertion(new: &NewPort<'_>) -> Vec<Value> {
    let here = |name: &IfName| json!([{ "name": name.as_str() }]);
    let ids = [
        ("attached-mac", new.mac.to_string()),
        ("iface-id", new.port.to_string()),
        ("iface-status", "active".to_owned()),
        ("made-by", MADE_BY.to_owned()),
        ("owner", OWNER.to_owned()),
        ("vm-uuid", new.device.to_owned()),
    ];
    let interface = json!({ "name": new.end.as_str(), "external_ids": ["map", ids] });
    let port = json!({ "name": new.end.as_str(), "interfaces": ["named-uuid", "interface"] });
    let ports = json!([["ports", "insert", ["set", [["named-uuid", "port"]]]]]);
    let at_once = Duration::ZERO;
    vec![
        comment(&format!("spoke: plug {} of port {}", new.end, new.port)),
        wait(Table::Bridge, new.bridge, "==", (&["name"], here(new.bridge)), at_once),
        wait(Table::Interface, new.end, "==", (&["name"], json!([])), at_once),
        wait(Table::Port, new.end, "==", (&["name"], json!([])), at_once),
        insert(Table::Interface, "interface", interface),
        insert(Table::Port, "port", port),
        mutate(Table::Bridge, is_named(new.bridge), ports),
    ]
}

/// Is answered once the switch has configured the interface, and has found its device (`ofport` is
/// empty before, and -1 where it has not).
fn taking(end: &IfName, limit: Duration) -> Vec<Value> {
    let ofport: &[&str] = &["ofport"];
    vec![
        wait(Table::Interface, end, "!=", (ofport, json!([{ "ofport": ["set", []] }])), limit),
        wait(Table::Interface, end, "!=", (ofport, json!([{ "ofport": -1 }])), FINDING.min(limit)),
    ]
}

/// Takes the port, and with it the interface, out of its bridge: what nothing refers to is gone.
fn deletion(end: &IfName, ids: &Value, row: &str) -> Vec<Value> {
    let unchanged = json!([{ "external_ids": ids }]);
    let holds = json!([["ports", "includes", ["set", [["uuid", row]]]]]);
    vec![
        comment(&format!("spoke: unplug {end}")),
        wait(Table::Interface, end, "==", (&["external_ids"], unchanged), Duration::ZERO),
        mutate(Table::Bridge, holds, json!([["ports", "delete", ["set", [["uuid", row]]]]])),
    ]
}

fn plugged(row: &Value) -> Option<Plugged> {
    let mut ids = value::map(row.get("external_ids")?);
    Some(Plugged {
        end: row.get("name")?.as_str()?.parse().ok()?,
        port: ids.get("iface-id")?.parse().ok()?,
        device: ids.remove("vm-uuid").unwrap_or_default(),
        is_ours: ids.get("made-by").is_some_and(|by| by == MADE_BY),
        error: row.get("error").and_then(value::text).map(str::to_owned),
    })
}

/// Reads `bytes` as what a database sends, in pieces of so many, and counts the messages before the
/// first that is none: the entry of a fuzz target.
pub fn decode_anything(bytes: &[u8], piece: usize) -> usize {
    let mut frames = frame::Frames::default();
    let mut count = 0;
    for piece in bytes.chunks(piece.max(1)) {
        frames.push(piece);
        loop {
            match frames.next() {
                Ok(Some(message)) => count += 1 + session::decode_anything(message),
                Ok(None) => break,
                Err(_) => return count,
            }
        }
    }
    count
}

/// The owner of a port, by the key that Spoke's ports have.
fn whose_port(ids: &BTreeMap<String, String>, owner: &str) -> String {
    ids.get(owner).cloned().unwrap_or_else(|| whose(Some(ids)))
}

fn whose(ids: Option<&BTreeMap<String, String>>) -> String {
    match ids.and_then(|ids| ids.get("iface-id")) {
        Some(port) => format!("Neutron port {port}"),
        None => "no Neutron port".to_owned(),
    }
}
