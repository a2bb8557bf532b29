//! The rules of the table, statement for statement what `fence.nft` says.

use netlink::nft::{Base, ChainKind, Expression, Hook, Meta, Policy, Register, Set, Verdict};

use super::flows::{answers, arriving, begins, genuine_flow, goes_on, new_flow, started, within};
use super::sets::{
    ALLOWED, FENCED, HOSTS, LEARNING, OPENINGS, OWN, OWN_ALLOWED, OWN_HOSTS, OWN_LEARNING, SOURCES,
    STAMP, STRICT, TABLE, WITHIN, all_sets,
};
use crate::filter::rules::{
    ACCEPT, BEFORE_FRAGMENTS, DROP, ESTABLISHED, Ip, NAME_WORDS, NEW, R, RETURN, Steps, between,
    ending, in_frames_to_all, meant_for_all, of_state, reserved, translated,
};
use crate::filter::ruleset::Ruleset;

/// The group in which packets are reported, and how much of one.
pub const LOG_GROUP: u16 = 5353;
const LENGTH: u32 = 128;
/// The port of the gateways at which names are asked: the packet filter leads there what is asked at port
/// 53, so that other servers of this host can have that. It is none of IANA's, and only root may have it:
/// the process that has it while the daemon is away answers for it.
pub const NAMES_PORT: u16 = 299;

const TCP: u8 = 6;
const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
/// `RTN_UNICAST` (rtnetlink(7)).
const UNICAST: u32 = 1;
/// Router solicitation, neighbour solicitation and advertisement (RFC 4861).
const DISCOVERY: [u8; 3] = [133, SOLICITATION, ADVERTISEMENT];
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// RFC 4443 §3.4.
const PARAMETER_PROBLEM: u8 = 4;
/// Of RFC 4861.
const REDIRECT: u8 = 137;
/// What a host says about a packet (RFC 4443, RFC 4861): not delivered, too big, too old, not understood; and that
/// there is a shorter way.
const REPORTS: [u8; 5] = [1, 2, 3, PARAMETER_PROBLEM, REDIRECT];
/// What may follow the header of IPv6 at once. Every other one may be a way, or have one behind it (RFC 8200 §4).
const TRANSPORTS: [u8; 4] = [TCP, UDP, ICMPV6, SCTP];
const HOP_BY_HOP: u8 = 0;
/// The length of a header of IPv4 without options, in words (RFC 791 §3.1).
pub(super) const WITHOUT_OPTIONS: u8 = 5;

/// The table.
pub(super) fn ruleset() -> Ruleset {
    let at =
        |hook, priority| Base { kind: ChainKind::Filter, hook, priority, policy: Policy::Accept };
    let base = |hook| at(hook, -20);
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: all_sets(),
        chains: vec![
            (STAMP, None),
            // A flush removes chains one after the other, in this order. What is marked is judged by `forward`,
            // which goes last.
            ("marking", Some(at(Hook::Prerouting, 300))),
            ("beginning", Some(base(Hook::Prerouting))),
            ("new_flow", None),
            ("senders", Some(at(Hook::Prerouting, BEFORE_FRAGMENTS))),
            ("sent_to_all", None),
            ("for_all", None),
            ("sender", None),
            ("reports", Some(base(Hook::Output))),
            ("to_link", None),
            ("input", Some(base(Hook::Input))),
            ("started", None),
            ("arriving", None),
            ("within", None),
            ("answers", None),
            ("leaving", None),
            ("to_host", None),
            ("own_leaving", None),
            ("own_to_host", None),
            ("genuine", None),
            ("forged", None),
            ("refused", None),
            ("own_refused", None),
            ("denied", None),
            ("learned", None),
            ("forward", Some(base(Hook::Forward))),
        ],
        rules: rules(),
    }
}

fn rules() -> Vec<(&'static str, Steps)> {
    let chains = [
        ("senders", senders()),
        ("sent_to_all", sent_to_all()),
        ("for_all", for_all()),
        ("sender", sender()),
        ("reports", vec![report(), to_the_link()]),
        ("to_link", REPORTS.map(|kind| ending(of_icmpv6(kind), DROP)).to_vec()),
        ("marking", vec![marking()]),
        ("forward", [vec![begins(), goes_on()], judged("own_leaving", "leaving")].concat()),
        ("beginning", vec![ending(of_state(NEW), jump("new_flow"))]),
        ("new_flow", new_flow()),
        ("started", started()),
        ("arriving", arriving()),
        ("within", within()),
        ("answers", answers()),
        ("leaving", leaving()),
        ("input", judged("own_to_host", "to_host")),
        ("to_host", to_host()),
        ("own_leaving", own_leaving()),
        ("own_to_host", own_to_host()),
        ("genuine", genuine()),
        ("forged", forged()),
        ("refused", refused()),
        ("own_refused", own_refused()),
        ("denied", vec![log("denied", [100, 200]), vec![DROP]]),
        ("learned", vec![log("learned", [100, 200]), vec![ACCEPT]]),
    ];
    let named = |(chain, rules): (&'static str, Vec<Steps>)| {
        rules.into_iter().map(move |rule| (chain, rule))
    };
    chains.into_iter().flat_map(named).collect()
}

/// What the mark of a packet says that a strict network's fence was there for. No bit is set that others read
/// in a mark: Kubernetes 14 and 15, the reference plugins and Podman 13, Cilium 8 to 11; and it is no way's.
pub(super) const MARK: u32 = 0x7370_0065;

fn senders() -> Vec<Steps> {
    let [to_all, to_group] = in_frames_to_all(&Steps::new(), "sent_to_all");
    vec![reserved(), to_all, to_group, ending(in_set(&FENCED), jump("sender"))]
}

/// Drops what is for one machine, of what is sent to all.
fn for_all() -> Vec<Steps> {
    let [to_group, to_all] = meant_for_all();
    vec![to_group, to_all, vec![DROP]]
}

fn sent_to_all() -> Vec<Steps> {
    let from = |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &SOURCES), jump("for_all"));
    vec![from(Ip::V4), from(Ip::V6)]
}

fn sender() -> Vec<Steps> {
    // Who asks for an address by DHCP forges none.
    let mut rules = of_link_or_unspecified(ACCEPT).to_vec();
    rules.extend([from_none(Ip::V4, DROP), vec![jump("genuine")]]);
    rules
}

/// What comes from an address of a link, or from none.
pub(crate) fn of_link_or_unspecified(then: Expression<'static>) -> [Steps; 2] {
    [ending(of_the_link(), then.clone()), from_none(Ip::V6, then)]
}

/// What has no source: `0.0.0.0`, `::`.
pub(in crate::filter) fn from_none(ip: Ip, then: Expression<'static>) -> Steps {
    let mut steps = ip.only().to_vec();
    steps.extend([ip.source(), equal(vec![0; usize::from(ip.words()) * 4]), then]);
    steps
}

/// Drops what this host reports of a packet that has options for every hop: the header of that packet is behind
/// the 8 bytes of the report.
fn report() -> Steps {
    ending(of_unknown_option(), DROP)
}

/// Matches that report.
pub(crate) fn of_unknown_option() -> Steps {
    let mut steps = of_icmpv6(PARAMETER_PROBLEM);
    steps.push(Expression::Transport { offset: 8 + 6, length: 1, into: R });
    steps.push(equal(vec![HOP_BY_HOP]));
    steps
}

/// What this host sends to addresses of the link of a fenced network.
fn to_the_link() -> Steps {
    let out = vec![Expression::Meta(Meta::OutputName, R), Expression::In(FENCED.name, R)];
    ending([out, in_link(Ip::V6.destination())].concat(), jump("to_link"))
}

fn marking() -> Steps {
    let mut steps = in_set(&STRICT);
    steps.extend([
        Expression::Meta(Meta::Mark, R),
        equal(vec![0; 4]),
        Expression::Load(R, MARK.to_ne_bytes().to_vec().into()),
        Expression::SetMark(R),
    ]);
    steps
}

fn leaving() -> Vec<Steps> {
    let neighbours = |kind: u8| ending([between(&WITHIN), of_icmpv6(kind)].concat(), ACCEPT);
    let mut rules = vec![
        neighbours(SOLICITATION),
        neighbours(ADVERTISEMENT),
        ending([between(&WITHIN), of_the_link()].concat(), ACCEPT),
    ];
    rules.extend(of_link_or_unspecified(jump("forged")));
    rules.push(ending(between(&WITHIN), jump("within")));
    rules.extend(choosing("refused"));
    rules.extend([
        ending(of_state(ESTABLISHED), jump("answers")),
        by_bridge(Ip::V4, &ALLOWED),
        by_bridge(Ip::V6, &ALLOWED),
        by_source(Ip::V4, &OPENINGS),
        by_source(Ip::V6, &OPENINGS),
        vec![jump("refused")],
    ]);
    rules
}

/// Matches packets that may say by which way they go on (RFC 791 §3.1, RFC 8200 §4.4), to a chain.
fn choosing(chain: &'static str) -> Vec<Steps> {
    let mut has_options = Ip::V4.only().to_vec();
    has_options.extend([
        Expression::Network { offset: 0, length: 1, into: R },
        Expression::Mask(R, vec![0x0f].into()),
        Expression::Unequal(R, vec![WITHOUT_OPTIONS].into()),
        jump(chain),
    ]);
    let mut has_header = Ip::V6.only().to_vec();
    for transport in TRANSPORTS {
        has_header.push(Expression::Network { offset: 6, length: 1, into: R });
        has_header.push(Expression::Unequal(R, vec![transport].into()));
    }
    vec![has_options, ending(has_header, jump(chain))]
}

/// Of a container with rules of its own these hold, else the bridge's.
fn judged(own: &'static str, bridge: &'static str) -> Vec<Steps> {
    let of = |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &OWN), jump(own));
    vec![of(Ip::V4), of(Ip::V6), ending(in_set(&FENCED), jump(bridge))]
}

fn own_leaving() -> Vec<Steps> {
    let mut rules = vec![ending(between(&WITHIN), jump("within"))];
    rules.extend(choosing("denied"));
    rules.extend([
        ending(of_state(ESTABLISHED), jump("answers")),
        by_source(Ip::V4, &OWN_ALLOWED),
        by_source(Ip::V6, &OWN_ALLOWED),
        by_source(Ip::V4, &OPENINGS),
        by_source(Ip::V6, &OPENINGS),
        vec![jump("own_refused")],
    ]);
    rules
}

fn own_to_host() -> Vec<Steps> {
    let mut rules = DISCOVERY.map(|kind| ending(of_icmpv6(kind), ACCEPT)).to_vec();
    rules.extend([
        to_others(),
        genuine_flow(),
        names(UDP),
        names(TCP),
        by_source(Ip::V4, &OWN_HOSTS),
        by_source(Ip::V6, &OWN_HOSTS),
        vec![jump("own_refused")],
    ]);
    rules
}

fn to_host() -> Vec<Steps> {
    let discovery = |kind: u8| ending(of_icmpv6(kind), ACCEPT);
    let mut rules = DISCOVERY.map(discovery).to_vec();
    rules.push(to_others());
    rules.extend(of_link_or_unspecified(jump("forged")));
    rules.extend([
        genuine_flow(),
        names(UDP),
        names(TCP),
        by_bridge(Ip::V4, &HOSTS),
        by_bridge(Ip::V6, &HOSTS),
        vec![jump("refused")],
    ]);
    rules
}

/// Matches queries for names, which were led here.
fn names(protocol: u8) -> Steps {
    let mut steps = translated(Expression::Meta(Meta::Protocol, R));
    steps.extend([
        equal(vec![protocol]),
        Expression::DestinationPort(R),
        equal(NAMES_PORT.to_be_bytes().to_vec()),
    ]);
    ending(steps, ACCEPT)
}

/// Drops what is for several hosts.
fn to_others() -> Steps {
    vec![Expression::Meta(Meta::PacketType, R), Expression::Unequal(R, vec![0].into()), DROP]
}

/// Matches what comes from an address of a link, `fe80::/10`.
fn of_the_link() -> Steps {
    in_link(Ip::V6.source())
}

pub(super) fn in_link(address: Expression<'static>) -> Steps {
    let (mut mask, mut prefix) = (vec![0; 16], vec![0; 16]);
    mask.splice(..2, [0xff, 0xc0]);
    prefix.splice(..2, [0xfe, 0x80]);
    let mut steps = Ip::V6.only().to_vec();
    steps.extend([address, Expression::Mask(R, mask.into()), equal(prefix)]);
    steps
}

/// Matches ICMPv6 of a type.
fn of_icmpv6(kind: u8) -> Steps {
    vec![
        Expression::Meta(Meta::Protocol, R),
        equal(vec![ICMPV6]),
        Expression::Transport { offset: 0, length: 1, into: R },
        equal(vec![kind]),
    ]
}

fn genuine() -> Vec<Steps> {
    let not_unicast = vec![
        Expression::SourceType(R),
        Expression::Unequal(R, UNICAST.to_ne_bytes().to_vec().into()),
        jump("forged"),
    ];
    let own = |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &SOURCES), RETURN);
    vec![not_unicast, own(Ip::V4), own(Ip::V6), vec![jump("forged")]]
}

fn forged() -> Vec<Steps> {
    vec![log("forged", [20, 40]), vec![DROP]]
}

fn refused() -> Vec<Steps> {
    vec![ending(in_set(&LEARNING), jump("learned")), vec![jump("denied")]]
}

fn own_refused() -> Vec<Steps> {
    let learning =
        |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &OWN_LEARNING), jump("learned"));
    vec![learning(Ip::V4), learning(Ip::V6), vec![jump("denied")]]
}

/// Matches the bridge, destination, protocol and port.
fn by_bridge(ip: Ip, sets: &[Set<'static>; 2]) -> Steps {
    let mut steps = ip.only().to_vec();
    let address = R.behind(NAME_WORDS);
    steps.extend([Expression::Meta(Meta::InputName, R), into(ip.destination(), address)]);
    steps.extend(service(address.behind(ip.words())));
    ending(ending(steps, Expression::In(ip.of(sets), R)), ACCEPT)
}

/// Matches the bridge, source, destination, protocol and port.
fn by_source(ip: Ip, sets: &[Set<'static>; 2]) -> Steps {
    let mut steps = ip.only().to_vec();
    let source = R.behind(NAME_WORDS);
    let address = source.behind(ip.words());
    steps.push(Expression::Meta(Meta::InputName, R));
    steps.extend([into(ip.source(), source), into(ip.destination(), address)]);
    steps.extend(service(address.behind(ip.words())));
    ending(ending(steps, Expression::In(ip.of(sets), R)), ACCEPT)
}

fn service(at: Register) -> [Expression<'static>; 2] {
    [Expression::Meta(Meta::Protocol, at), Expression::DestinationPort(at.behind(1))]
}

fn into(loaded: Expression<'static>, into: Register) -> Expression<'static> {
    match loaded {
        Expression::Network { offset, length, .. } => Expression::Network { offset, length, into },
        other => other,
    }
}

fn log(prefix: &'static str, [per_second, burst]: [u32; 2]) -> Steps {
    vec![
        Expression::Limit { per_second, burst },
        Expression::Log { group: LOG_GROUP, prefix, length: LENGTH },
    ]
}

fn in_set(set: &Set<'static>) -> Steps {
    vec![Expression::Meta(Meta::InputName, R), Expression::In(set.name, R)]
}

pub(super) fn equal(value: Vec<u8>) -> Expression<'static> {
    Expression::Equal(R, value.into())
}

pub(super) fn jump(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(Verdict::Jump(chain))
}

#[cfg(test)]
mod tests {
    use model::WAY_MARK;

    use super::MARK;

    #[test]
    fn the_mark_keeps_out_of_the_bits_that_others_read() {
        assert_eq!(MARK & 0x8000_ff80, 0);
        assert_ne!(MARK & 0x00ff_0000, WAY_MARK);
    }
}
