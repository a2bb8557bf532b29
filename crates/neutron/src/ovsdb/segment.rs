//! Ports of containers and tunnels on a bridge that the host's administrator made, without Neutron.

use std::net::IpAddr;
use std::time::Duration;

use model::{Error, IfName, Kind, Result, VlanId, Vni};
use serde_json::{Map, Value, json};

use super::operation::{Table, comment, insert, is_named, mutate, select, wait};
use super::{ATTEMPTS, MADE_BY, Ovsdb, deletion, taking, value, whose_port};

/// The key of a port's owner in `external_ids`.
pub(super) const OWNER: &str = "spoke-owner";

/// A port of a segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentPort<'a> {
    /// The bridge.
    pub bridge: &'a IfName,
    /// The interface.
    pub end: &'a IfName,
    /// The VLAN; what has no tag where there is none.
    pub vlan: Option<VlanId>,
    /// Its owner. A port of another owner is never changed.
    pub owner: &'a str,
    /// The tunnel that the switch makes; without one the port is a device that exists.
    pub tunnel: Option<(Vni, IpAddr)>,
}

impl Ovsdb {
    /// Makes a port, and waits until the switch has taken it. Repeating it is no error; one of the same
    /// owner that is otherwise is made anew.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where there is no such bridge; [`Kind::Conflict`] where another owner has a
    /// port of that name; [`Kind::TryAgain`] where the switch does not take it in time;
    /// [`Kind::Kernel`] where it cannot.
    pub fn add(&mut self, new: &SegmentPort<'_>) -> Result<()> {
        for _ in 0..ATTEMPTS {
            match self.session.transact(&insertion(new))? {
                Ok(_) => return self.wait_until_taken(new),
                Err(refusal) if refusal.is_timeout() => {}
                Err(refusal) => return Err(refusal.into_error(&format!("adding {}", new.end))),
            }
            match self.is_same(new)? {
                Some(true) => {
                    self.wait_until_taken(new)?;
                    // A row of before the boot may have been removed until the switch found its device.
                    if self.has(new)? {
                        return Ok(());
                    }
                }
                Some(false) => drop(self.remove(new.end, new.owner)?),
                None => {}
            }
        }
        Err(changing(new.end))
    }

    /// Removes the owner's port of this name; whether there was one.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where the database does not answer; [`Kind::Kernel`] where it refuses.
    pub fn remove(&mut self, end: &IfName, owner: &str) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let results = self.carry_out(&[
                select(Table::Interface, is_named(end), &["external_ids"]),
                select(Table::Port, is_named(end), &["_uuid"]),
            ])?;
            let ids = value::rows(&results, 0).first().and_then(|row| row.get("external_ids"));
            let row = value::rows(&results, 1).first();
            let row = row.and_then(|row| value::uuid(row.get("_uuid")?));
            let (Some(ids), Some(row)) = (ids, row) else { return Ok(false) };
            if !is_of(ids, owner) {
                return Ok(false);
            }
            match self.session.transact(&deletion(end, ids, row))? {
                Ok(_) => return Ok(true),
                Err(refusal) if refusal.is_timeout() => {}
                Err(refusal) => return Err(refusal.into_error(&format!("removing {end}"))),
            }
        }
        Err(changing(end))
    }

    /// Whether the port is there as [`Ovsdb::add`] made it.
    ///
    /// # Errors
    /// As [`Ovsdb::add`].
    pub fn has(&mut self, new: &SegmentPort<'_>) -> Result<bool> {
        Ok(self.is_same(new)? == Some(true))
    }

    /// Whether what has the port's name is as it is to be; `None` where nothing has. Fails with
    /// [`Kind::Conflict`] where that is another owner's.
    fn is_same(&mut self, new: &SegmentPort<'_>) -> Result<Option<bool>> {
        let results = self.carry_out(&[
            select(Table::Bridge, is_named(new.bridge), &["ports"]),
            select(Table::Interface, is_named(new.end), &["external_ids", "type", "options"]),
            select(Table::Port, is_named(new.end), &["_uuid", "tag", "protected"]),
        ])?;
        let first = |index: usize| value::rows(&results, index).first();
        let Some(bridge) = first(0) else {
            return Err(Error::not_found(format!(
                "Open vSwitch has no bridge {}: make it with `ovs-vsctl add-br {}`",
                new.bridge, new.bridge
            )));
        };
        let (Some(interface), Some(port)) = (first(1), first(2)) else { return Ok(None) };
        let ids = interface.get("external_ids").cloned().unwrap_or_default();
        let Some(row) = port.get("_uuid").and_then(value::uuid) else { return Ok(None) };
        if !is_of(&ids, new.owner) {
            return Err(Error::conflict(format!(
                "Open vSwitch has a port {} already, of {}",
                new.end,
                whose_port(&value::map(&ids), OWNER)
            )));
        }
        let is_inside = value::uuids(bridge.get("ports")).contains(&row);
        let (kind, options) = kind(new);
        let has = interface.get("options").map(value::map).unwrap_or_default();
        let is_made_so = value::text(interface.get("type").unwrap_or(&Value::Null)) == kind
            && options.iter().all(|(key, value)| has.get(*key) == Some(value))
            && port.get("tag").and_then(Value::as_u64) == Some(u64::from(tag(new)))
            && port.get("protected").and_then(Value::as_bool) == Some(new.tunnel.is_some());
        Ok(Some(is_inside && is_made_so))
    }

    /// Returns once the switch has looked at the interface, and can use it.
    fn wait_until_taken(&mut self, new: &SegmentPort<'_>) -> Result<()> {
        match self.session.transact(&taking(new.end, self.taking))? {
            Ok(_) => return Ok(()),
            Err(refusal) if refusal.is_timeout() => {}
            Err(refusal) => {
                return Err(refusal.into_error(&format!("waiting for {}", new.end)));
            }
        }
        let results = self.carry_out(&[select(Table::Interface, is_named(new.end), &["error"])])?;
        let row = value::rows(&results, 0).first();
        match row.and_then(|row| value::text(row.get("error")?)) {
            Some(error) => Err(Error::new(
                Kind::Kernel,
                format!("Open vSwitch cannot use {} in bridge {}: {error}", new.end, new.bridge),
            )),
            None => Err(Error::try_again(format!(
                "Open vSwitch has not taken {} into bridge {} within {} seconds: is ovs-vswitchd \
                 running?",
                new.end,
                new.bridge,
                self.taking.as_secs()
            ))),
        }
    }
}

/// Makes the port, provided that there is none of its name and that there is the bridge.
fn insertion(new: &SegmentPort<'_>) -> Vec<Value> {
    let ids = [("made-by", MADE_BY), (OWNER, new.owner)];
    let (kind, options) = kind(new);
    let mut interface = Map::new();
    interface.insert("name".into(), json!(new.end.as_str()));
    interface.insert("external_ids".into(), json!(["map", ids]));
    if let Some(kind) = kind {
        interface.insert("type".into(), json!(kind));
        interface.insert("options".into(), json!(["map", options]));
    }
    // `ovs-ctl --delete-transient-ports` removes what ended with the boot; a tunnel needs no device.
    let transient: &[(&str, &str)] =
        if new.tunnel.is_none() { &[("transient", "true")] } else { &[] };
    let port = json!({
        "name": new.end.as_str(), "interfaces": ["named-uuid", "interface"],
        "tag": tag(new), "protected": new.tunnel.is_some(),
        "other_config": ["map", transient],
    });
    let here = json!([{ "name": new.bridge.as_str() }]);
    let ports = json!([["ports", "insert", ["set", [["named-uuid", "port"]]]]]);
    let none = || (&["name"][..], json!([]));
    vec![
        comment(&format!("spoke: {} of {}", new.end, new.owner)),
        wait(Table::Bridge, new.bridge, "==", (&["name"], here), Duration::ZERO),
        wait(Table::Interface, new.end, "==", none(), Duration::ZERO),
        wait(Table::Port, new.end, "==", none(), Duration::ZERO),
        insert(Table::Interface, "interface", Value::Object(interface)),
        insert(Table::Port, "port", port),
        mutate(Table::Bridge, is_named(new.bridge), ports),
    ]
}

/// A port without a tag would carry every VLAN (ovs-vswitchd.conf.db(5), `Port`, `vlan_mode`).
fn tag(new: &SegmentPort<'_>) -> u16 {
    new.vlan.map_or(0, VlanId::number)
}

fn kind(new: &SegmentPort<'_>) -> (Option<&'static str>, Vec<(&'static str, String)>) {
    match new.tunnel {
        None => (None, Vec::new()),
        Some((vni, remote)) => {
            (Some("vxlan"), vec![("key", vni.to_string()), ("remote_ip", remote.to_string())])
        }
    }
}

fn is_of(ids: &Value, owner: &str) -> bool {
    let ids = value::map(ids);
    ids.get("made-by").is_some_and(|by| by == MADE_BY)
        && ids.get(OWNER).is_some_and(|it| it == owner)
}

fn changing(end: &IfName) -> Error {
    Error::try_again(format!("{end} keeps changing in Open vSwitch"))
}
