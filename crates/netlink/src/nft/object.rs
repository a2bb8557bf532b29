//! The objects of a ruleset, besides rules and sets.

use std::fmt;

use super::abi;
use crate::wire::{Attributes, Request};

/// The packets that a table sees (`NFPROTO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Frames of a bridge.
    Bridge,
}

impl Family {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Family::Inet => 1,
            Family::Ipv4 => 2,
            Family::Ipv6 => 10,
            Family::Bridge => 7,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Family::Inet, Family::Ipv4, Family::Ipv6, Family::Bridge]
            .into_iter()
            .find(|family| family.number() == number)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Inet => "inet",
            Family::Ipv4 => "ip",
            Family::Ipv6 => "ip6",
            Family::Bridge => "bridge",
        })
    }
}

/// The name of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table<'a> {
    /// The packets that it sees.
    pub family: Family,
    /// At most 255 bytes.
    pub name: &'a str,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} {}", self.family, self.name)
    }
}

/// Where in a packet's way a chain is called (`NF_INET_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// As it comes in.
    Prerouting,
    /// As it is delivered to this host.
    Input,
    /// As it passes through.
    Forward,
    /// As this host makes it.
    Output,
    /// As it goes out.
    Postrouting,
}

impl Hook {
    const ALL: [Hook; 5] =
        [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];

    fn number(self) -> u32 {
        (0..).zip(Self::ALL).find(|(_, hook)| *hook == self).map_or(0, |(number, _)| number)
    }

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The kinds of base chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    /// Accept and drop; called for every packet.
    Filter,
    /// Translate addresses; called for the first packet of a connection.
    Nat,
}

impl ChainKind {
    fn name(self) -> &'static str {
        match self {
            ChainKind::Filter => "filter",
            ChainKind::Nat => "nat",
        }
    }
}

/// The verdict on a packet that reaches the end of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `NF_ACCEPT`.
    Accept,
    /// `NF_DROP`.
    Drop,
}

/// The properties of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its kind.
    pub kind: ChainKind,
    /// Where it is called.
    pub hook: Hook,
    /// Lower is called earlier.
    pub priority: i32,
    /// The verdict on what it does not decide.
    pub policy: Policy,
}

impl Base {
    pub(crate) fn write(&self, request: &mut Request<'_>) {
        request.text(abi::CHAIN_TYPE, self.kind.name());
        request.be32(abi::CHAIN_POLICY, if self.policy == Policy::Accept { 1 } else { 0 });
        request.nest(abi::CHAIN_HOOK, |hook| {
            hook.be32(abi::HOOK_NUMBER, self.hook.number());
            hook.attribute(abi::HOOK_PRIORITY, &self.priority.to_be_bytes());
        });
    }

    /// Of a chain's attributes; `None` if it is a regular chain or of a kind or hook that is not
    /// named here.
    pub(crate) fn read(chain: &Attributes<'_>) -> Option<Self> {
        let hook = chain.find_kind(abi::CHAIN_HOOK)?.nested();
        let kind = match chain.find_kind(abi::CHAIN_TYPE)?.text()? {
            "filter" => ChainKind::Filter,
            "nat" => ChainKind::Nat,
            _ => return None,
        };
        let policy = chain.find_kind(abi::CHAIN_POLICY).and_then(|policy| policy.be32());
        Some(Self {
            kind,
            hook: Hook::from_number(hook.find_kind(abi::HOOK_NUMBER)?.be32()?)?,
            priority: hook.find_kind(abi::HOOK_PRIORITY)?.be32()?.cast_signed(),
            policy: if policy == Some(0) { Policy::Drop } else { Policy::Accept },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Batch, HEADER, Messages};

    const FORWARD: Base =
        Base { kind: ChainKind::Filter, hook: Hook::Forward, priority: -10, policy: Policy::Drop };

    #[test]
    fn base_chains_are_written_and_read() {
        let mut batch = Batch::new();
        FORWARD.write(&mut batch.request(0, 0, "test"));
        let bytes = batch.seal(1).to_vec();
        let attributes: &[u8] = &[
            11, 0, 7, 0, b'f', b'i', b'l', b't', b'e', b'r', 0, 0, // type
            8, 0, 5, 0, 0, 0, 0, 0, // policy
            20, 0, 4, 0x80, 8, 0, 1, 0, 0, 0, 0, 2, 8, 0, 2, 0, 0xff, 0xff, 0xff,
            0xf6, // hook
        ];
        assert_eq!(&bytes[HEADER..], attributes);
        let message = Messages::new(&bytes).next().unwrap();
        assert_eq!(Base::read(&message.attributes(0)), Some(FORWARD));
    }

    proptest! {
        #[test]
        fn any_chain_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Base::read(&Attributes::new(&bytes));
        }
    }
}
