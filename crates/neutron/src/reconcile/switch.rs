//! Places on Open vSwitch of ports that are gone: who unplugs them may have been killed, or the switch
//! did not answer then.

use model::Result;

use super::{Fate, Orphan, OrphanKind, Removed, Version};
use crate::Neutron;
use crate::facts::Facts;
use crate::ovsdb::{Ovsdb, Plugged};
use crate::plug;

impl Neutron {
    /// The ports that Spoke plugged. Empty where there is no such switch, or it does not answer:
    /// what is not seen stays.
    pub(super) fn plugged_by_us(&self) -> Vec<Plugged> {
        let plugging = &self.settings.plugging;
        if plugging.nesting.is_some() {
            return Vec::new();
        }
        let listed = Ovsdb::connect(&plugging.ovsdb).and_then(|mut database| database.plugged());
        listed.unwrap_or_default().into_iter().filter(|plugged| plugged.is_ours).collect()
    }

    /// Frees the place, if it is unchanged, and neither Neutron nor this host has the port.
    pub(super) fn remove_switch_port(
        &self,
        orphan: &Orphan,
        facts: &dyn Fn() -> Result<Facts>,
    ) -> Result<Removed> {
        if self.api().port(&orphan.id)?.is_some() {
            return Ok(Removed::Kept);
        }
        let plugged = self.plugged_by_us();
        let facts = facts()?;
        let is_it = |plugged: &&Plugged| self::orphan(plugged, &facts).as_ref() == Some(orphan);
        match plugged.iter().find(is_it) {
            Some(stray) => {
                plug::remove_stray(stray, &self.settings.plugging).map(|()| Removed::Deleted)
            }
            None => Ok(Removed::Kept),
        }
    }
}

/// A place on the switch whose port Neutron does not have, if no record speaks of it either.
pub(super) fn orphan(plugged: &Plugged, facts: &Facts) -> Option<Orphan> {
    let is_held = facts.ports.contains(&plugged.port) || facts.devices.contains(&plugged.device);
    (!is_held).then(|| Orphan {
        thing: OrphanKind::SwitchPort,
        id: plugged.port.clone(),
        title: plugged.end.to_string(),
        why: "its port is gone from Neutron, and no container here has it".to_owned(),
        fate: Fate::Delete,
        version: Version::Text(format!("{} {}", plugged.end, plugged.device)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_record_speaks_of_keeps_its_place() {
        let plugged = Plugged {
            end: "tap0".parse().unwrap(),
            port: "port-1".parse().unwrap(),
            device: "device-1".to_owned(),
            is_ours: true,
            error: None,
        };
        let of = |ports: &[&str], devices: &[&str]| {
            let ports = ports.iter().map(|port| port.parse().unwrap()).collect();
            let devices = devices.iter().map(|&device| device.to_owned()).collect();
            orphan(&plugged, &Facts { ports, devices, ..Facts::default() })
        };
        assert!(of(&["port-1"], &[]).is_none());
        assert!(of(&["port-2"], &["device-1"]).is_none());
        let stray = of(&["port-2"], &["device-2"]).unwrap();
        assert_eq!((stray.thing, stray.fate), (OrphanKind::SwitchPort, Fate::Delete));
        // Whether the switch can use it at the moment makes no other orphan of it.
        let broken = Plugged { error: Some("no device".to_owned()), ..plugged.clone() };
        assert_eq!(orphan(&broken, &Facts::default()), orphan(&plugged, &Facts::default()));
    }
}
