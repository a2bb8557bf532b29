//! Whether a port of OVN's passes traffic: its controller on this host writes it beside the port
//! (`external_ids:ovn-installed`, ovn-controller(8)), long before Neutron knows.

use std::time::{Duration, Instant};

use model::{IfName, Result};
use serde_json::json;

use super::operation::{Table, is_named, select, wait};
use super::{Ovsdb, value};

/// The key that the controller writes.
const INSTALLED: &str = "ovn-installed";

/// The key of a switch with such a controller.
const REMOTE: &str = "ovn-remote";

impl Ovsdb {
    /// Waits for the flows of a plugged port; returns whether they are installed. Does not wait
    /// where no OVN controller has the switch.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where the database does not answer; [`model::Kind::Kernel`] where
    /// it refuses.
    pub fn is_installed(&mut self, end: &IfName, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        loop {
            let results = self.carry_out(&[
                select(Table::Interface, is_named(end), &["external_ids"]),
                select(Table::Switch, json!([]), &["external_ids"]),
            ])?;
            let ids = |index: usize| {
                let row = value::rows(&results, index).first()?;
                row.get("external_ids").cloned()
            };
            let (Some(port), Some(switch)) = (ids(0), ids(1)) else { return Ok(false) };
            let has_controller = value::map(&switch).keys().any(|key| key.starts_with(REMOTE));
            let external_ids = value::map(&port);
            if !has_controller
                || external_ids.get(INSTALLED).is_some_and(|external_ids| external_ids == "true")
            {
                return Ok(has_controller);
            }
            let remaining = until.saturating_duration_since(Instant::now());
            let same = json!([{ "external_ids": port }]);
            let changed = wait(Table::Interface, end, "!=", (&["external_ids"], same), remaining);
            match self.session.transact(&[changed])? {
                Ok(_) => {}
                Err(refusal) if refusal.is_timeout() => return Ok(false),
                Err(refusal) => return Err(refusal.into_error(&format!("waiting for {end}"))),
            }
        }
    }
}
