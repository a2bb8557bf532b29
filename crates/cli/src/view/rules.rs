//! Egress rules as they are written.

use model::Fence;

/// The rules, in their order.
pub(crate) fn texts(fence: &Fence) -> Vec<String> {
    fence.rules.iter().map(ToString::to_string).collect()
}
