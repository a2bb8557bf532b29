//! What becomes of a packet in the packet filter: the base chains of one hook, in their order.

mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod xt;

use model::Result;
use netlink::nft::AnyChain;

use crate::packet::Packet;
use crate::port::{Kernel, Space};
use crate::rules::{Filter, Point, RuleLocation, Ruling, Translation};
use crate::tri::Tri;
use run::{ChainEnd, Run};

/// Addresses are translated at one place, whatever the chain's own priority is (`NF_IP_PRI_NAT_*`).
fn order(chain: &AnyChain) -> (i32, i32) {
    let Some(hook) = &chain.hook else { return (0, 0) };
    match (hook.kind.as_str(), hook.number) {
        ("nat", 0 | 3) => (-100, hook.priority),
        ("nat", _) => (100, hook.priority),
        _ => (hook.priority, 0),
    }
}

/// What becomes of `packet` at `point`. Marks that rules set, and that it is not tracked, it keeps; its
/// addresses are the caller's to change.
///
/// # Errors
/// As [`Kernel::rules`].
pub fn judge(
    kernel: &mut dyn Kernel,
    space: Space,
    point: Point,
    packet: &mut Packet,
) -> Result<Ruling> {
    let [one, other] = CALLERS.map(Some);
    let mut supposed = Packet { caller: other, ..packet.clone() };
    let second = judge_one(kernel, space, point, &mut supposed)?;
    packet.caller = one;
    let first = judge_one(kernel, space, point, packet)?;
    packet.caller = None;
    Ok(match (&first, &second) {
        (Ruling::Unknown(_), _) | (Ruling::Dropped(_), Ruling::Dropped(_)) => first,
        (one, other) if one == other => first,
        (Ruling::Dropped(place), _) | (_, Ruling::Dropped(place) | Ruling::Unknown(place)) => {
            let unclear = Some("the port of the one who asks".to_owned());
            Ruling::Unknown(RuleLocation { unclear, ..place.clone() })
        }
        _ => first,
    })
}

/// The port of the one who asks may be any. Rules must do the same with two that nothing but chance
/// brings together.
const CALLERS: [u16; 2] = [40_961, 57_003];

fn judge_one(
    kernel: &mut dyn Kernel,
    space: Space,
    point: Point,
    packet: &mut Packet,
) -> Result<Ruling> {
    let rules = kernel.rules(space)?;
    let mut chains: Vec<&(Filter, AnyChain)> =
        rules.chains.iter().filter(|(_, chain)| point.has(chain, packet)).collect();
    // Of equal priorities the kernel comes first to the one that was registered last (`nf_hook_entries_grow`).
    chains.reverse();
    chains.sort_by_key(|(_, chain)| order(chain));
    let mut now = packet.clone();
    let (mut destination, mut source) = (None, None);
    for (filter, chain) in chains {
        let is_nat = chain.hook.as_ref().is_some_and(|hook| hook.kind == "nat");
        let translated = destination.is_some() || source.is_some();
        if is_nat && (now.is_reply || now.is_untracked == Tri::Yes || translated) {
            continue;
        }
        let is_sure = !is_nat || now.is_untracked == Tri::No;
        match Run::new(&rules, *filter, chain, &mut now, (kernel, space)).end() {
            ChainEnd::Accept => {}
            ChainEnd::Drop(place) => return Ok(Ruling::Dropped(place)),
            ChainEnd::Unknown(place) => return Ok(Ruling::Unknown(place)),
            ChainEnd::Destination(Translation { place, .. })
            | ChainEnd::Source(Translation { place, .. })
                if !is_sure =>
            {
                let unclear = Some("whether its connection is tracked".to_owned());
                return Ok(Ruling::Unknown(RuleLocation { unclear, ..place }));
            }
            ChainEnd::Destination(translation) => {
                now.translate(&translation);
                destination = Some(translation);
            }
            ChainEnd::Source(translation) => source = Some(translation),
        }
    }
    (packet.mark, packet.is_untracked) = (now.mark, now.is_untracked);
    Ok(match &rules.unread {
        Some(why) => Ruling::Unknown(unread(why)),
        None => Ruling::Passes { destination, source },
    })
}

fn unread(why: &str) -> RuleLocation {
    RuleLocation {
        filter: Filter::Legacy,
        family: 0,
        table: String::new(),
        chain: String::new(),
        path: Vec::new(),
        rule: None,
        comment: None,
        rejects: false,
        unclear: Some(why.to_owned()),
    }
}
