//! Virtual functions of network cards, set through the card's own function (`IFLA_VFINFO_LIST`).

use model::{Mac, VlanId};

use super::{At, NEW, info};
use crate::wire::Batch;

/// `IFLA_VFINFO_LIST`, `IFLA_VF_INFO`, and what is in that.
const FUNCTIONS: u16 = 22;
const FUNCTION: u16 = 1;
const MAC: u16 = 1;
const VLAN: u16 = 2;

/// `struct ifla_vf_mac` has room for any hardware address.
const MAC_ROOM: usize = 32;

/// The settings of one of a card's virtual functions. What is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its number, from zero.
    pub number: u32,
    /// Its hardware address, which it cannot change by itself then; zeros let it.
    pub mac: Option<Mac>,
    /// The VLAN that the card puts its packets into; `Some(None)` for none.
    pub vlan: Option<Option<VlanId>>,
}

impl Batch {
    /// Sets one of the functions of the card at `at`; returns the message's index. EOPNOTSUPP or
    /// EINVAL if it has no such function.
    pub fn set_function(&mut self, at: At<'_>, function: &Function) -> usize {
        let about = format!("setting virtual function {} of {at}", function.number);
        let mut request = self.request(NEW, 0, about);
        request.bytes(&info(at.index(), 0, 0));
        at.name(&mut request);
        let number = function.number.to_ne_bytes();
        request.nest(FUNCTIONS, |functions| {
            functions.nest(FUNCTION, |reported| {
                if let Some(mac) = function.mac {
                    let mut room = [0; MAC_ROOM];
                    for (at, octet) in room.iter_mut().zip(mac.octets()) {
                        *at = octet;
                    }
                    reported.attribute(MAC, &[&number[..], &room].concat());
                }
                if let Some(vlan) = function.vlan {
                    let vlan = u32::from(vlan.map_or(0, VlanId::number)).to_ne_bytes();
                    reported.attribute(VLAN, &[number, vlan, [0; 4]].concat());
                }
            });
        });
        self.count() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_these_bytes() {
        let mut batch = Batch::new();
        let mac = Mac::new([0xfa, 0x16, 0x3e, 1, 2, 3]);
        let vlan = Some(VlanId::new(101));
        batch.set_function(At::Index(4), &Function { number: 3, mac: Some(mac), vlan });
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(4 + value.len()).unwrap();
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
        };
        let number = 3u32.to_ne_bytes();
        let mac = [&number[..], &mac.octets(), &[0; 26]].concat();
        let vlan = [number, 101u32.to_ne_bytes(), [0; 4]].concat();
        let reported = [attribute(1, &mac), attribute(2, &vlan)].concat();
        let body = attribute(0x8016, &attribute(0x8001, &reported));
        let message = batch.seal(1);
        assert_eq!(&message[16 + 16..], body);
        assert_eq!(message[20..24], 4u32.to_ne_bytes());
    }
}
