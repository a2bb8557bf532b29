//! How others reach a network at the addresses of its containers: these answer.

use model::{Family, IfName, Result, Wiring};
use netlink::Socket;
use netlink::nft::{self, Element, Transaction, Tuple};

use super::sets::{ROUTED, TABLE, TRUSTED};

/// Who reaches a network at the addresses of its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Everybody, by packets of these families.
    pub families: Vec<Family>,
    /// Who comes by these devices.
    pub devices: Vec<IfName>,
}

impl Reach {
    /// What a network says. One that is not masqueraded is known by its own addresses, whatever it says.
    pub(super) fn of(wiring: &Wiring) -> Self {
        let is_let = wiring.let_by_route();
        let is_masqueraded =
            |family: Family| wiring.masquerade.as_ref().is_some_and(|part| part.is_of(family));
        let is_reached = |it: &Family| is_let.contains(it) || !is_masqueraded(*it);
        Self {
            families: [Family::V4, Family::V6].into_iter().filter(is_reached).collect(),
            devices: wiring.passage().trusted().to_vec(),
        }
    }

    /// Who reaches the other one reaches this one, too.
    pub(super) fn unite(&mut self, other: &Self) {
        for family in &other.families {
            if !self.families.contains(family) {
                self.families.push(*family);
            }
        }
        for device in &other.devices {
            if !self.devices.contains(device) {
                self.devices.push(device.clone());
            }
        }
    }

    /// The sets, and the elements of the bridge that say so.
    fn elements(&self, bridge: &IfName) -> Vec<(&'static str, Element)> {
        let of = |family: &Family| match family {
            Family::V4 => nft::Family::Ipv4,
            Family::V6 => nft::Family::Ipv6,
        };
        let key = || Tuple::new().interface(bridge);
        let families = self.families.iter().map(|it| (ROUTED.name, key().of_family(of(it))));
        let devices = self.devices.iter().map(|it| (TRUSTED.name, key().interface(it)));
        families.chain(devices).map(|(set, key)| (set, Element::of(key))).collect()
    }
}

/// What the sets say, of all bridges.
pub(super) struct Reached(Vec<(&'static str, Element)>);

impl Reached {
    pub(super) fn read(socket: &mut Socket) -> Result<Self> {
        let mut all = Vec::new();
        for set in [ROUTED.name, TRUSTED.name] {
            let there = nft::elements(socket, TABLE, set)?;
            all.extend(there.into_iter().map(|element| (set, element)));
        }
        Ok(Self(all))
    }

    /// Whether they say all this of a bridge.
    pub(super) fn has(&self, bridge: &IfName, reach: &Reach) -> bool {
        reach.elements(bridge).iter().all(|one| has(&self.0, one))
    }

    /// Whether they say nothing else of it.
    pub(super) fn has_only(&self, bridge: &IfName, reach: &Reach) -> bool {
        self.others(bridge, reach).next().is_none()
    }

    fn others(
        &self,
        bridge: &IfName,
        reach: &Reach,
    ) -> impl Iterator<Item = &(&'static str, Element)> {
        let (of, wanted) = (Tuple::new().interface(bridge), reach.elements(bridge));
        self.0
            .iter()
            .filter(move |one| one.1.key.bytes().starts_with(of.bytes()) && !has(&wanted, one))
    }

    /// Adds what they do not say yet of a bridge.
    pub(super) fn add(
        &self,
        transaction: &mut Transaction,
        (bridge, reach): (&IfName, &Reach),
        about: &dyn Fn() -> String,
    ) {
        for (set, element) in reach.elements(bridge).iter().filter(|one| !has(&self.0, one)) {
            transaction.ensure_element(TABLE, set, element, about());
        }
    }

    /// Removes what else they say of it.
    pub(super) fn remove_others(
        &self,
        transaction: &mut Transaction,
        (bridge, reach): (&IfName, &Reach),
        about: &dyn Fn() -> String,
    ) {
        for (set, element) in self.others(bridge, reach) {
            transaction.delete_element(TABLE, set, element, about());
        }
    }
}

fn has(all: &[(&'static str, Element)], (set, one): &(&'static str, Element)) -> bool {
    all.iter().any(|(name, it)| name == set && it.key == one.key)
}

#[cfg(test)]
mod tests {
    use model::{Backend, Masquerade};

    use super::*;

    #[test]
    fn what_is_not_masqueraded_is_reached_by_routes() {
        let families = |masquerade| Reach::of(&Wiring { masquerade, ..Wiring::default() }).families;
        assert_eq!(families(None), [Family::V4, Family::V6]);
        let all = Masquerade::new(Backend::Nftables);
        assert_eq!(families(Some(all.clone())), []);
        assert_eq!(families(Some(Masquerade { only: Some(Family::V4), ..all })), [Family::V6]);
    }
}
