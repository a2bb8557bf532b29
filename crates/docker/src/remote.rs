//! Back end: remote drivers of libnetwork's, plugins of somebody else that speak the protocol of
//! [`crate::wire`].

pub mod calls;
