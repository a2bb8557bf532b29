//! A virtual machine's port of a bridge: a tap device in the host's namespace.

use model::{Attachment, Bridge};

use super::{Facts, Step, Tap, Veth};
use crate::identity::{GROUP, Identity};

/// Makes the device, unless that was done before, with what an end of a pair has from its beginning. `end`
/// says what the pair would be.
pub(super) fn steps(
    attachment: &Attachment,
    bridge: &Bridge,
    tap: &model::Tap,
    end: &Veth,
    facts: &Facts,
) -> Vec<Step> {
    if facts.connected.is_some() {
        return Vec::new();
    }
    let name = &end.host;
    let made = Step::Tap(Tap {
        name: name.clone(),
        mac: Identity::of(&attachment.id).host_mac(),
        mtu: end.mtu,
        group: GROUP,
        tap: model::Tap { bridge: Some(bridge.name.clone()), ..tap.clone() },
    });
    let hairpin = bridge.hairpin.then(|| Step::Hairpin(name.clone()));
    let rest = [Step::NoIpv6Addresses(name.clone()), Step::Up(name.clone())];
    [made].into_iter().chain(hairpin).chain(rest).collect()
}
