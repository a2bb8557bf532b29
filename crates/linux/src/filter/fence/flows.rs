//! Flows that a container may belong to without being the one that began them: who may begin one, and which answers leave.

use std::borrow::Cow;

use netlink::nft::{Conntrack, Expression, Meta};

use super::rules::{ICMPV6, MARK, WITHOUT_OPTIONS, equal, in_link, jump};
use super::sets::{FENCED, OWN, ROUTED, SOURCES, TRUSTED};
use crate::filter::rules::{
    ACCEPT, DROP, ESTABLISHED, Ip, NAME_WORDS, NEW, R, RELATED, RETURN, Steps, between, ending,
    of_state, of_status, translated,
};
use crate::identity::{GROUP, VLAN_GATEWAY};

const ICMP: u8 = 1;
/// `IP_CT_DIR_ORIGINAL`.
const ORIGINAL: u8 = 0;
/// `IPS_SRC_NAT` (`linux/netfilter/nf_conntrack_common.h`).
const IPS_SRC_NAT: u32 = 0x10;
const BRIDGE: &[u8; 16] = b"bridge\0\0\0\0\0\0\0\0\0\0";
const VETH: &[u8; 16] = b"veth\0\0\0\0\0\0\0\0\0\0\0\0";
/// Devices behind which are containers and virtual machines, whose addresses this host has routes to. What comes by an
/// uplink may be answered by another one.
const KINDS: [&[u8; 16]; 3] = [BRIDGE, VETH, b"tun\0\0\0\0\0\0\0\0\0\0\0\0\0"];

/// The mark of a flow whose first packet this host would answer by another device than it came by, where it has no mark:
/// kernels before 5.19 know routes only where it is not known yet which device the packet leaves by.
const FORGED: u32 = MARK + 1;

/// Marks flows that this host would answer by another device than they came by.
pub(super) fn new_flow() -> Vec<Steps> {
    let forged = |kind: &'static [u8; 16]| {
        vec![
            Expression::Meta(Meta::InputKind, R),
            equal(kind.to_vec()),
            Expression::ReturnPath(R),
            equal(vec![0; 4]),
            Expression::Conntrack(Conntrack::Mark, R),
            equal(vec![0; 4]),
            Expression::Load(R, mark_of_forged().into()),
            Expression::SetConnectionMark(R),
        ]
    };
    KINDS.map(forged).to_vec()
}

/// The value of [`FORGED`] in rules.
pub(crate) fn mark_of_forged() -> Vec<u8> {
    FORGED.to_ne_bytes().to_vec()
}

fn forged() -> Steps {
    vec![Expression::Conntrack(Conntrack::Mark, R), equal(mark_of_forged())]
}

/// What belongs to a flow that has been answered, and that was not begun in another's name.
pub(super) fn genuine_flow() -> Steps {
    let mark = mark_of_forged().into();
    let mut steps = of_state(ESTABLISHED);
    steps.extend([Expression::Conntrack(Conntrack::Mark, R), Expression::Unequal(R, mark), ACCEPT]);
    steps
}

/// What is no packet of a flow that has been answered.
pub(super) fn begins() -> Steps {
    ending(of_state(NEW | RELATED), jump("started"))
}

/// What the one who began a flow sends by IPv4 when it has been answered, and was not begun in another's name: no rule
/// behind this one drops it. Most packets come no further.
pub(super) fn goes_on() -> Steps {
    let mut steps = of_state(ESTABLISHED);
    steps.extend(from_beginner());
    steps.extend([
        Expression::Conntrack(Conntrack::Mark, R),
        Expression::Unequal(R, mark_of_forged().into()),
    ]);
    steps.extend(Ip::V4.only());
    steps.extend([
        Expression::Network { offset: 0, length: 1, into: R },
        Expression::Mask(R, Cow::Borrowed(&[0x0f])),
        equal(vec![WITHOUT_OPTIONS]),
        ACCEPT,
    ]);
    steps
}

/// Matches what the one sends who began the flow.
fn from_beginner() -> [Expression<'static>; 2] {
    [Expression::Conntrack(Conntrack::Direction, R), equal(vec![ORIGINAL])]
}

/// What goes to a fenced container.
pub(super) fn started() -> Vec<Steps> {
    let own =
        |ip: Ip| ending(ip.behind(Meta::OutputName, ip.destination(), &OWN), jump("arriving"));
    let fenced = vec![Expression::Meta(Meta::OutputName, R), Expression::In(FENCED.name, R)];
    vec![ending(fenced, jump("arriving")), own(Ip::V4), own(Ip::V6)]
}

/// A helper of connection tracking lets anybody in whom the container has named; of what is related only reports are
/// wanted. And the answer to a forged address would carry what the container likes to it.
pub(super) fn arriving() -> Vec<Steps> {
    let mut expected = of_state(RELATED);
    for reports in [ICMP, ICMPV6] {
        expected.push(Expression::Meta(Meta::Protocol, R));
        expected.push(Expression::Unequal(R, vec![reports].into()));
    }
    vec![ending(expected, DROP), ending(forged(), DROP)]
}

/// What stays behind the bridge. With `br_netfilter` a frame comes here, too, whose packet is for elsewhere, and which
/// would begin a flow to there.
pub(super) fn within() -> Vec<Steps> {
    let mut of_group = Ip::V4.only().to_vec();
    of_group.extend([
        Ip::V4.destination(),
        Expression::Mask(R, Cow::Borrowed(&[0xf0, 0, 0, 0])),
        Expression::Equal(R, Cow::Borrowed(&[0xe0, 0, 0, 0])),
        ACCEPT,
    ]);
    let mut to_all = Ip::V4.only().to_vec();
    to_all.extend([Ip::V4.destination(), equal(vec![0xff; 4]), ACCEPT]);
    let mut of_group_six = Ip::V6.only().to_vec();
    of_group_six.extend([
        Expression::Network { offset: 24, length: 1, into: R },
        equal(vec![0xff]),
        ACCEPT,
    ]);
    let own = |ip: Ip| ending(ip.behind(Meta::InputName, ip.destination(), &SOURCES), ACCEPT);
    vec![
        own(Ip::V4),
        own(Ip::V6),
        of_group,
        to_all,
        of_group_six,
        ending(in_link(Ip::V6.destination()), ACCEPT),
    ]
}

/// What belongs to a flow that the container began passes. What others began is answered where it came by a published port,
/// to networks of this host, by devices that the network trusts, and where it is reached by routes.
pub(super) fn answers() -> Vec<Steps> {
    let own_flow = ending(from_beginner().to_vec(), ACCEPT);
    let of_group = |group: u32| {
        let is_it = equal(group.to_ne_bytes().to_vec());
        vec![Expression::Meta(Meta::OutputGroup, R), is_it, ACCEPT]
    };
    // Networks of other programs are masqueraded, which tells their devices from uplinks.
    let to_others = |kind: &'static [u8; 16]| {
        let mut steps = vec![Expression::Meta(Meta::OutputKind, R), equal(kind.to_vec())];
        steps.extend(of_status(IPS_SRC_NAT));
        ending(steps, ACCEPT)
    };
    let routed = vec![
        Expression::Meta(Meta::InputName, R),
        Expression::Meta(Meta::Family, R.behind(NAME_WORDS)),
        Expression::In(ROUTED.name, R),
        ACCEPT,
    ];
    vec![
        ending(forged(), RETURN),
        own_flow,
        translated(ACCEPT),
        of_group(GROUP),
        of_group(VLAN_GATEWAY),
        to_others(BRIDGE),
        to_others(VETH),
        ending(between(&TRUSTED), ACCEPT),
        routed,
    ]
}
