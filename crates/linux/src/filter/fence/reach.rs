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

    /// Makes the sets say so of the bridge. What they say of it that is to go is removed.
    pub(super) fn put(
        &self,
        socket: &mut Socket,
        transaction: &mut Transaction,
        (bridge, about): (&IfName, &dyn Fn() -> String),
    ) -> Result<()> {
        for (element, is_routed) in self.routed(bridge) {
            transaction.ensure_element(TABLE, ROUTED.name, &element, about());
            if !is_routed {
                transaction.delete_element(TABLE, ROUTED.name, &element, about());
            }
        }
        let wanted = self.trusted(bridge);
        let there = nft::elements(socket, TABLE, TRUSTED.name)?;
        for element in there.iter().filter(|element| is_of(bridge, element)) {
            if !wanted.iter().any(|it| it.key == element.key) {
                transaction.delete_element(TABLE, TRUSTED.name, element, about());
            }
        }
        for element in &wanted {
            transaction.ensure_element(TABLE, TRUSTED.name, element, about());
        }
        Ok(())
    }

    fn routed(&self, bridge: &IfName) -> [(Element, bool); 2] {
        [(Family::V4, nft::Family::Ipv4), (Family::V6, nft::Family::Ipv6)].map(|(of, family)| {
            let key = Tuple::new().interface(bridge).of_family(family);
            (Element::of(key), self.families.contains(&of))
        })
    }

    fn trusted(&self, bridge: &IfName) -> Vec<Element> {
        let key = |device| Element::of(Tuple::new().interface(bridge).interface(device));
        self.devices.iter().map(key).collect()
    }
}

fn is_of(bridge: &IfName, element: &Element) -> bool {
    element.key.bytes().starts_with(Tuple::new().interface(bridge).bytes())
}

/// Whether the sets say so of these bridges.
pub(super) fn is_so<'a>(
    socket: &mut Socket,
    mut all: impl Iterator<Item = (&'a IfName, &'a Reach)>,
) -> Result<bool> {
    let routed = nft::elements(socket, TABLE, ROUTED.name)?;
    let trusted = nft::elements(socket, TABLE, TRUSTED.name)?;
    let has = |of: &[Element], one: &Element| of.iter().any(|it| it.key == one.key);
    Ok(all.all(|(bridge, reach)| {
        let wanted = reach.trusted(bridge);
        let mut there = trusted.iter().filter(|element| is_of(bridge, element));
        reach.routed(bridge).iter().all(|(one, is_routed)| has(&routed, one) == *is_routed)
            && there.all(|one| has(&wanted, one))
            && wanted.iter().all(|one| has(&trusted, one))
    }))
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
