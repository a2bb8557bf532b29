//! Sets of addresses with ports, as firewalld makes of ipsets of the types `hash:ip,port` and `hash:net,port`: the
//! fields stand in registers that follow each other (nft(8), "concatenations").

use model::Result;
use netlink::nft::{self, AnySet, Register32};

use super::super::rules::{Match, Test};
use super::{Condition, Reader, RegisterValue, Went};

/// The length of a register in bytes; each field begins in a new one.
const REGISTER: usize = 4;

impl Reader<'_> {
    /// The rule holds for what is in the set or, inverted, for what is not.
    pub(super) fn lookup(&mut self, set: &AnySet, key: Register32, inverted: bool) -> Result<Went> {
        // Nothing reports that an element has ended: until the next look it would let in who is out.
        let lets_in = if inverted { self.refuses } else { self.accepts };
        if set.has_timeouts && lets_in {
            return Ok(self.unclear("a set whose elements end by themselves"));
        }
        let Some(fields) = self.fields(key, set.key_length) else {
            return Ok(self.unclear("a set of fields"));
        };
        if fields.len() < 2 {
            return Ok(match nft::keys(self.socket, set)? {
                Some(keys) => self.compare(key, &keys, inverted, false),
                None => self.unclear("a set"),
            });
        }
        // Each element of such a set has its own end, or is one key.
        let set = AnySet { is_interval: false, ..set.clone() };
        let Some(keys) = nft::keys(self.socket, &set)? else { return Ok(self.unclear("a set")) };
        let Some(elements) = self.elements(&fields, &keys) else {
            return Ok(self.unclear("a set of fields"));
        };
        Ok(self.within(elements, inverted))
    }

    /// What the key is made of, with the length of each field; `None` where that is not known.
    fn fields(&self, key: Register32, length: usize) -> Option<Vec<(RegisterValue, usize)>> {
        let (mut all, mut place, mut rest) = (Vec::new(), key.0, length);
        while rest > 0 {
            let held = self.registers.get(&place)?;
            let width = self.width(held);
            let taken = width.div_ceil(REGISTER);
            all.push((held.clone(), width));
            place += taken;
            match rest.checked_sub(taken * REGISTER) {
                Some(left) => rest = left,
                // A key of one field has no padding.
                None => return Some(all),
            }
        }
        Some(all)
    }

    fn width(&self, held: &RegisterValue) -> usize {
        match held {
            RegisterValue::Family | RegisterValue::Protocol => 1,
            RegisterValue::Port | RegisterValue::SourcePort => 2,
            RegisterValue::State | RegisterValue::Status => 4,
            RegisterValue::Input => 16,
            RegisterValue::Source | RegisterValue::Destination if self.is_v4 => 4,
            RegisterValue::Source | RegisterValue::Destination => 16,
            RegisterValue::Masked(of, _) => self.width(of),
        }
    }

    /// The conditions of each element; `None` where one is not understood.
    fn elements(
        &self,
        fields: &[(RegisterValue, usize)],
        keys: &[(Vec<u8>, Vec<u8>)],
    ) -> Option<Vec<Vec<Test>>> {
        let mut all = Vec::new();
        'elements: for (first, last) in keys {
            let (mut tests, mut offset) = (Vec::new(), 0);
            for (held, width) in fields {
                let part = |key: &Vec<u8>| Some(key.get(offset..offset + width)?.to_vec());
                match self.found(held, &[(part(first)?, part(last)?)], false) {
                    Condition::Any(any) => match <[Match; 1]>::try_from(any) {
                        Ok([what]) => tests.push(what.holds()),
                        Err(_) => return None,
                    },
                    Condition::Always => {}
                    Condition::Never => continue 'elements,
                    Condition::Unclear => return None,
                }
                offset += width.div_ceil(REGISTER) * REGISTER;
            }
            all.push(tests);
        }
        Some(all)
    }

    fn within(&mut self, elements: Vec<Vec<Test>>, inverted: bool) -> Went {
        if !inverted {
            if elements.is_empty() {
                return Went::Never;
            }
            self.tests.push(elements);
            return Went::On;
        }
        for element in elements {
            if element.is_empty() {
                return Went::Never;
            }
            // One of its fields differs.
            let other = |test: Test| vec![Test { not: !test.not, ..test }];
            self.tests.push(element.into_iter().map(other).collect());
        }
        Went::On
    }
}
