//! How many neighbours a container can make this host look for or remember. The kernel keeps them in one table for each
//! family, which all interfaces and network namespaces share, and takes no more than 1,024 (`gc_thresh3`): with a full
//! one nobody on this host reaches a new address of any link. What is younger than five seconds is not replaced.

use std::borrow::Cow;

use netlink::nft::{
    Base, ChainKind, Conntrack, Expression, Field, Hook, Meta, Policy, Set, Verdict,
};

use super::rules::{DROP, Ip, NAME_WORDS, R, Steps, ending, not_ours, of_ethernet};
use super::ruleset::{HOME, SHARED_BRIDGES, set};

/// So many addresses of others one container may come with at once, and so many a second.
const BURST: u32 = 60;
const PER_SECOND: u32 = 4;
/// The same of all containers together.
const BURST_OF_ALL: u32 = 256;
const PER_SECOND_OF_ALL: u32 = 32;
/// How long an address that was let pass is, in seconds.
const PASSED: u32 = 10;

pub(super) const CHAIN: &str = "returning";
/// Behind connection tracking (-200), and before anything is translated (-100).
pub(super) const BASE: Base = Base {
    kind: ChainKind::Filter,
    hook: Hook::Prerouting,
    priority: -180,
    policy: Policy::Accept,
};

const fn noted(name: &'static str, key: &'static [Field]) -> Set<'static> {
    Set { lookup: netlink::nft::Lookup::Counting, ..set(name, key) }
}

const SOUGHT: [Set<'static>; 2] = [
    noted("sought4", &[Field::Interface, Field::Ipv4]),
    noted("sought6", &[Field::Interface, Field::Ipv6]),
];
const SEEKERS: [Set<'static>; 2] = [
    noted("seekers4", &[Field::Interface, Field::Ethernet]),
    noted("seekers6", &[Field::Interface, Field::Ethernet]),
];
/// Of `inet spoke`.
pub(super) const SETS: [Set<'static>; 4] = [SOUGHT[0], SOUGHT[1], SEEKERS[0], SEEKERS[1]];

const ACCEPT: Expression<'static> = Expression::Verdict(Verdict::Accept);

/// What this host would route back to the network that it comes from.
pub(super) fn returning() -> Vec<Steps> {
    let is_known = |ip: Ip, sets: &[Set<'static>; 2]| {
        ending(ip.behind(Meta::InputName, ip.destination(), sets), ACCEPT)
    };
    let mut rules = vec![
        ending(not_ours().to_vec(), ACCEPT),
        vec![Expression::Meta(Meta::InputName, R), Expression::In(SHARED_BRIDGES.name, R), ACCEPT],
        vec![
            Expression::Conntrack(Conntrack::State, R),
            Expression::Mask(R, Cow::Owned(ONGOING.to_ne_bytes().to_vec())),
            Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
            ACCEPT,
        ],
        vec![
            Expression::DestinationType(R),
            Expression::Unequal(R, Cow::Owned(RTN_UNICAST.to_ne_bytes().to_vec())),
            ACCEPT,
        ],
        vec![Expression::ForwardPath(R), Expression::Equal(R, Cow::Borrowed(&[0; 4])), ACCEPT],
    ];
    for ip in [Ip::V4, Ip::V6] {
        rules.extend([is_known(ip, &HOME), is_known(ip, &SOUGHT)]);
        rules.extend(bounded(ip));
    }
    rules
}

/// `NF_CT_STATE_BIT` of what is established, or related to that.
const ONGOING: u32 = 6;
/// `linux/rtnetlink.h`.
const RTN_UNICAST: u32 = 1;

fn bounded(ip: Ip) -> [Steps; 3] {
    let [its_type, is_ethernet] = of_ethernet();
    let by = vec![
        its_type,
        is_ethernet,
        Expression::Meta(Meta::InputName, R),
        Expression::EthernetSource(R.behind(NAME_WORDS)),
        often(ip.of(&SEEKERS)),
        DROP,
    ];
    let destination = match ip.destination() {
        Expression::Network { offset, length, .. } => {
            Expression::Network { offset, length, into: R.behind(NAME_WORDS) }
        }
        other => other,
    };
    let note = Expression::Note { set: ip.of(&SOUGHT), key: R, seconds: PASSED };
    let noted = vec![of_all(), Expression::Meta(Meta::InputName, R), destination, note, ACCEPT];
    [by, noted, vec![DROP]].map(|steps| [ip.only().to_vec(), steps].concat())
}

/// Matches where the key in the first register comes with too many.
pub(super) fn often(set: &'static str) -> Expression<'static> {
    Expression::Often { set, key: R, times: PER_SECOND, seconds: 1, burst: BURST }
}

/// Matches as long as all together come with few enough.
pub(super) fn of_all() -> Expression<'static> {
    Expression::Limit { per_second: PER_SECOND_OF_ALL, burst: BURST_OF_ALL }
}
