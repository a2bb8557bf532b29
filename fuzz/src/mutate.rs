//! Changing bytes.

/// Numbers that look random: xorshift64*, by Sebastiano Vigna.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// Where things go wrong, in texts and in numbers.
const WORDS: [&[u8]; 40] = [
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f",
    b"\x80",
    b"\xed\xa0\x80",
    b"/",
    b"..",
    b"../",
    b"-1",
    b"0",
    b"1",
    b"65535",
    b"65536",
    b"4294967295",
    b"4294967296",
    b"18446744073709551616",
    b"1e999",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"[[",
    b"{\"",
    b"\"\"",
    b"\\u0000",
    b"\\ud800",
    b"0.0.0.0/0",
    b"255.255.255.255/32",
    b"::/0",
    b"::ffff:1.2.3.4",
    b"fe80::1%eth0",
    b"/33",
    b"/129",
    b"\"cniVersion\":",
    b"\"0.1.0\"",
    b"\"1.1.0\"",
    b"sixteen-bytes-16",
    b";",
    b"=",
];

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Less than `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(drawn).unwrap_or(0) % end.max(1)
    }
}

/// `bytes` with one to eight changes; `other` is a second input to take parts of.
pub(crate) fn mutated(dice: &mut Dice, bytes: &[u8], other: &[u8], longest: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(8) {
        change(dice, &mut bytes, other);
    }
    bytes.truncate(longest);
    bytes
}

fn change(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = dice.below(bytes.len() + 1);
    let end = (at + dice.below(16)).min(bytes.len());
    match dice.below(9) {
        0 => flip(dice, bytes, |bit| 1 << (bit % 8)),
        1 => flip(dice, bytes, |value| u8::try_from(value).unwrap_or(0)),
        2 => drop(bytes.drain(at..end)),
        3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
        4 => drop(bytes.splice(at..at, WORDS[dice.below(WORDS.len())].iter().copied())),
        5 => drop(bytes.splice(at..end, WORDS[dice.below(WORDS.len())].iter().copied())),
        6 => drop(bytes.splice(at..end, part(dice, other))),
        7 => bytes.truncate(at),
        _ => swap(dice, bytes),
    }
}

fn flip(dice: &mut Dice, bytes: &mut [u8], mask: fn(usize) -> u8) {
    let at = dice.below(bytes.len());
    let mask = mask(dice.below(256));
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= mask;
    }
}

fn part(dice: &mut Dice, other: &[u8]) -> Vec<u8> {
    let start = dice.below(other.len() + 1);
    let end = (start + dice.below(64)).min(other.len());
    other[start..end].to_vec()
}

/// Exchanges two strings of JSON, so that values get to where others are expected.
fn swap(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let quotes: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'"').collect();
    if quotes.len() < 4 {
        return;
    }
    let first = dice.below(quotes.len() / 2 - 1) * 2;
    let second = first + 2 + dice.below((quotes.len() - first - 2) / 2) * 2;
    let (a, b) = (quotes[first]..quotes[first + 1], quotes[second]..quotes[second + 1]);
    let (one, other) = (bytes[a.clone()].to_vec(), bytes[b.clone()].to_vec());
    bytes.splice(b, one);
    bytes.splice(a, other);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let some = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| mutated(&mut dice, b"{\"a\":\"b\"}", b"xyz", 64)).collect::<Vec<_>>()
        };
        assert_eq!(some(5), some(5));
        assert_ne!(some(5), some(7));
    }
}
