//! The layers of one attachment as one row.

use model::{Attachment, InterfaceNamespace, Phase};

/// The hardware address of the container's end.
pub(super) fn mac(layers: &[&Attachment]) -> Option<String> {
    let made = layers.iter().find_map(|layer| match &layer.phase {
        Phase::Attached(attached) => {
            let inside =
                |interface: &&model::Interface| interface.place == InterfaceNamespace::Sandbox;
            attached.interfaces.iter().filter(inside).find_map(|interface| interface.mac)
        }
        Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => None,
    });
    let tuned = layers.iter().find_map(|layer| layer.wiring.tuning.as_ref()?.mac);
    // Where the runtime completes the interface, it was asked for this one.
    let asked = layers.iter().find_map(|layer| layer.wiring.link.as_ref()?.mac);
    tuned.or(made).or(asked).map(|mac| mac.to_string())
}

/// How far it is.
pub(super) fn state(layers: &[&Attachment]) -> &'static str {
    let in_phase = |wanted: fn(&Phase) -> bool| layers.iter().any(|layer| wanted(&layer.phase));
    if in_phase(|phase| matches!(phase, Phase::Detaching { .. })) {
        "detaching"
    } else if in_phase(|phase| matches!(phase, Phase::Attaching { .. })) {
        "attaching"
    } else if in_phase(|phase| matches!(phase, Phase::Reserved)) {
        "reserved"
    } else {
        "attached"
    }
}
