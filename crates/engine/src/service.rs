//! What each service of the engine is made of.

use crate::port::{Driver, Host, Ipam, Store};

/// What the engine asks everything else for, as the binary wired it.
pub(crate) struct Ports<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) driver: &'a dyn Driver,
    pub(crate) ipam: &'a dyn Ipam,
    pub(crate) host: &'a dyn Host,
}

/// A service: its type with the ports that it asks, over the services before it that it calls. There are no others
/// that it could call.
macro_rules! service {
    (
        $(#[$doc:meta])*
        pub struct $name:ident<$life:lifetime> { $($port:ident: $trait:ident),* }
        over { $($before:ident: $service:ident),* }
    ) => {
        $(#[$doc])*
        pub struct $name<$life> {
            $($port: &$life dyn $trait,)*
            $($before: $service<$life>,)*
        }

        impl<$life> $name<$life> {
            pub(crate) fn new(ports: &$crate::service::Ports<$life>) -> Self {
                Self {
                    $($port: ports.$port,)*
                    $($before: $service::new(ports),)*
                }
            }
        }
    };
}
pub(crate) use service;
