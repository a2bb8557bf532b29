//! The links between this host and the others, the packet filters before them, and which hosts are kept apart.

pub(super) mod closed;
pub(super) mod guard;
pub(super) mod isolate;
pub(super) mod near;
pub(super) mod overlay;
pub(super) mod tunnel;
