//! The kernel's wire: the only crate that talks to it, and the only one with unsafe code.
