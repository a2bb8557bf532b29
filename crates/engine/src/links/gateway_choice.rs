//! Chooses which of a sandbox's attachments is its default gateway (libnetwork's gateway endpoint).

use std::cmp::Reverse;

use model::{Attachment, AttachmentId, Family, GatewayRole, Phase};

/// The name of the gateway network: a bridge whose containers do not reach one another, with IPv4
/// only, for sandboxes without another default gateway. An existing network of this name is used as
/// it is; otherwise it is made on first use.
pub const GATEWAY_NETWORK: &str = "gwbridge";

/// The properties of an attachment that the choice depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: AttachmentId,
    pub(crate) priority: i32,
    /// Whether its network is a gateway network.
    pub(crate) is_gateway_endpoint: bool,
    /// Whether its network is internal.
    pub(crate) is_internal: bool,
    /// Whether its driver wants no other default route because of it.
    pub(crate) keeps_in: bool,
    /// Of which families it has a default route.
    pub(crate) default_families: Vec<Family>,
    /// The families for which it is the default gateway now, as far as its record knows.
    pub(crate) gateway_families: Vec<Family>,
}

impl Candidate {
    /// The candidate for a complete attachment.
    pub(crate) fn of(attachment: &Attachment) -> Option<Self> {
        let Phase::Attached(attached) = &attachment.phase else { return None };
        let GatewayRole { priority, families, .. } = attachment.gateway_role.as_ref()?;
        let defaults = attached.routes.iter().filter(|route| route.is_default());
        let mut default_families: Vec<Family> =
            defaults.map(|route| Family::of(&route.dst)).collect();
        default_families.sort_unstable();
        default_families.dedup();
        Some(Self {
            id: attachment.id.clone(),
            priority: *priority,
            is_gateway_endpoint: attachment.id.network.as_str() == GATEWAY_NETWORK,
            is_internal: attachment.wiring.is_internal(),
            keeps_in: attached.keeps_in,
            default_families,
            gateway_families: families.clone(),
        })
    }

    /// Smaller: rather this one.
    fn rank(&self) -> impl Ord + use<'_> {
        let default_families = match self.default_families.as_slice() {
            [_, _, ..] => 0,
            [Family::V6] => 1,
            [Family::V4] => 2,
            [] => 3,
        };
        let name = (self.id.network.as_str(), self.id.ifname.as_str());
        (Reverse(self.priority), self.is_gateway_endpoint, self.is_internal, default_families, name)
    }
}

/// The families for which each of them becomes the default gateway: for each family the first that
/// has a default route.
pub(crate) fn choose(candidates: &[Candidate]) -> Vec<Vec<Family>> {
    let first = |family: Family| {
        let able =
            candidates.iter().enumerate().filter(|(_, it)| it.default_families.contains(&family));
        able.min_by_key(|(_, it)| it.rank()).map(|(place, _)| place)
    };
    let gateways = [Family::V4, Family::V6].map(|family| (family, first(family)));
    let of = |place: usize| {
        let its = gateways.iter().filter(|(_, leader)| *leader == Some(place));
        its.map(|(family, _)| *family).collect()
    };
    (0..candidates.len()).map(of).collect()
}

/// Whether the sandbox is to get a default route (libnetwork's `needDefaultGW`): it is on a network
/// that could have one and has none. Networks that have none by their nature, and those whose
/// driver wants none, do not count either way.
pub(crate) fn needs_gateway_endpoint(candidates: &[Candidate]) -> bool {
    let counts = |it: &&Candidate| !it.is_gateway_endpoint && !it.is_internal && !it.keeps_in;
    let mut counting = candidates.iter().filter(counts).peekable();
    counting.peek().is_some() && counting.all(|it| it.default_families.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(network: &str, priority: i32, default_families: &[Family]) -> Candidate {
        Candidate {
            id: AttachmentId {
                network: network.parse().unwrap(),
                container: "c".parse().unwrap(),
                ifname: "eth0".parse().unwrap(),
            },
            priority,
            is_gateway_endpoint: network == GATEWAY_NETWORK,
            is_internal: network.starts_with("internal"),
            keeps_in: false,
            default_families: default_families.to_vec(),
            gateway_families: Vec::new(),
        }
    }

    /// The names of the networks that lead IPv4 and IPv6 out.
    fn gateways(candidates: &[Candidate]) -> [Option<&str>; 2] {
        let chosen = choose(candidates);
        [Family::V4, Family::V6].map(|family| {
            let place = chosen.iter().position(|families| families.contains(&family))?;
            Some(candidates[place].id.network.as_str())
        })
    }

    const BOTH: &[Family] = &[Family::V4, Family::V6];
    const V4: &[Family] = &[Family::V4];
    const V6: &[Family] = &[Family::V6];

    #[test]
    fn each_rule_comes_after_the_one_before() {
        let last = candidate(GATEWAY_NETWORK, 0, V4);
        let inner = candidate("internal", 0, BOTH);
        let four = candidate("b", 0, V4);
        let six = candidate("c", 0, V6);
        let dual = candidate("z", 0, BOTH);
        let of = |all: &[&Candidate]| {
            let all: Vec<Candidate> = all.iter().copied().cloned().collect();
            gateways(&all).map(|name| name.map(str::to_owned))
        };
        let some = |v4: &str, v6: &str| [Some(v4.to_owned()), Some(v6.to_owned())];
        assert_eq!(of(&[]), [None, None]);
        assert_eq!(of(&[&last]), [Some(GATEWAY_NETWORK.to_owned()), None]);
        assert_eq!(of(&[&last, &inner]), some("internal", "internal"));
        assert_eq!(of(&[&last, &inner, &four]), some("b", "internal"));
        assert_eq!(of(&[&four, &six]), some("b", "c"));
        assert_eq!(of(&[&four, &six, &dual]), some("z", "z"));
        let raised = candidate("b", 1, V4);
        assert_eq!(of(&[&raised, &six, &dual]), some("b", "z"));
        let other = candidate("a", 0, V4);
        assert_eq!(of(&[&four, &other]), [Some("a".to_owned()), None]);
    }

    #[test]
    fn a_way_out_is_needed_where_one_could_be_and_none_is() {
        let out = candidate("a", 0, V4);
        let mute = candidate("b", 0, &[]);
        let kept = Candidate { keeps_in: true, ..mute.clone() };
        let inner = candidate("internal", 0, &[]);
        let led = candidate("internal", 0, V4);
        let last = candidate(GATEWAY_NETWORK, 0, V4);
        for (all, needed) in [
            (vec![], false),
            (vec![&mute], true),
            (vec![&mute, &last], true),
            (vec![&last], false),
            (vec![&kept], false),
            (vec![&inner], false),
            (vec![&inner, &kept], false),
            (vec![&inner, &mute], true),
            (vec![&kept, &mute], true),
            (vec![&led, &mute], true),
            (vec![&out, &mute], false),
            (vec![&candidate("c", 0, V6), &mute], false),
        ] {
            let all: Vec<Candidate> = all.into_iter().cloned().collect();
            assert_eq!(needs_gateway_endpoint(&all), needed, "{all:?}");
        }
    }

    fn any_candidate() -> impl Strategy<Value = Candidate> {
        let name = prop_oneof![
            Just(GATEWAY_NETWORK.to_owned()),
            "[a-c]{1,2}",
            "internal[a-b]".prop_map(|name| name),
        ];
        let default_families =
            prop_oneof![Just(vec![]), Just(V4.to_vec()), Just(V6.to_vec()), Just(BOTH.to_vec())];
        (name, -1i32..=1, default_families).prop_map(|(name, priority, default_families)| {
            candidate(&name, priority, &default_families)
        })
    }

    /// One comparison after the other, as libnetwork's endpoints say which of two is less.
    fn is_less(a: &Candidate, b: &Candidate) -> bool {
        if a.priority != b.priority {
            return a.priority > b.priority;
        }
        if a.is_gateway_endpoint != b.is_gateway_endpoint {
            return b.is_gateway_endpoint;
        }
        if a.is_internal != b.is_internal {
            return b.is_internal;
        }
        let has = |it: &Candidate, family| it.default_families.contains(&family);
        let both = |it: &Candidate| has(it, Family::V4) && has(it, Family::V6);
        if both(a) != both(b) {
            return both(a);
        }
        if has(a, Family::V6) != has(b, Family::V6) {
            return has(a, Family::V6);
        }
        if has(a, Family::V4) != has(b, Family::V4) {
            return has(a, Family::V4);
        }
        a.id.network.as_str() < b.id.network.as_str()
    }

    proptest! {
        #[test]
        fn the_choice_is_that_of_a_naive_sort(
            mut all in prop::collection::vec(any_candidate(), 0..8),
            seed in any::<u64>(),
        ) {
            all.sort_by(|a, b| a.id.cmp(&b.id));
            all.dedup_by(|a, b| a.id == b.id);
            let mut sorted = all.clone();
            for _ in 0..sorted.len() {
                for place in 1..sorted.len() {
                    if is_less(&sorted[place], &sorted[place - 1]) {
                        sorted.swap(place, place - 1);
                    }
                }
            }
            let expected = BOTH.iter().map(|family| {
                let mut able = sorted.iter().filter(|it| it.default_families.contains(family));
                able.next().map(|it| it.id.network.as_str())
            });
            let expected: Vec<Option<&str>> = expected.collect();
            let turned = if all.is_empty() { 0 } else { seed as usize % all.len() };
            all.rotate_left(turned);
            prop_assert_eq!(gateways(&all).to_vec(), expected);
        }
    }
}
