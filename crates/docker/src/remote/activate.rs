//! What a plugin says about itself, once in its life.

use std::sync::Arc;

use model::DriverName;

use super::calls::{Failed, Fate, Life};
use super::client::Reply;
use super::exchange::{Replied, Request};
use super::verdict::told;
use crate::wire::{
    AddressSpaces, IpamCapabilities, Manifest, Method, NetworkCapabilities, Profile,
};

/// A plugin that was asked.
#[derive(Debug)]
pub(super) struct Activated {
    /// In which life.
    pub(super) life: Life,
    pub(super) profile: Arc<Profile>,
}

impl Activated {
    /// Asks a plugin what it is, and then what it can do as that.
    pub(super) fn ask(
        name: &DriverName,
        mut send: impl FnMut(&Request<'_>) -> Result<Replied, Failed>,
    ) -> Result<Self, Failed> {
        let mut ask = |method| send(&Request { method, body: &[], is_repeatable: true });
        let Replied { reply, life, .. } = ask(Method::Activate)?;
        let manifest = told(name, Method::Activate, &reply, Manifest::decode)?;
        let mut profile = Profile { network: None, ipam: None, spaces: None };
        if manifest.network {
            let method = Method::NetworkCapabilities;
            let reply = ask(method)?.reply;
            profile.network = Some(told(name, method, &reply, NetworkCapabilities::decode)?);
        }
        if manifest.ipam {
            let method = Method::IpamCapabilities;
            let reply = ask(method)?.reply;
            let told = told(name, method, &reply, IpamCapabilities::decode);
            profile.ipam = Some(told.unwrap_or(NONE));
            profile.spaces = spaces(name, &ask(Method::AddressSpaces)?.reply)?;
        }
        Ok(Self { life, profile: Arc::new(profile) })
    }
}

/// Drivers from before there were capabilities do not know the question; libnetwork takes whatever
/// they say to it for this.
const NONE: IpamCapabilities = IpamCapabilities { requires_mac: false, requires_replay: false };

/// Only who wants a pool of no named space needs them: that is refused then, and not the driver.
fn spaces(name: &DriverName, reply: &Reply) -> Result<Option<AddressSpaces>, Failed> {
    match told(name, Method::AddressSpaces, reply, AddressSpaces::decode) {
        Ok(spaces) => Ok(spaces),
        Err(failed) if matches!(failed.fate, Fate::Refused | Fate::Done) => Ok(None),
        Err(failed) => Err(failed),
    }
}
