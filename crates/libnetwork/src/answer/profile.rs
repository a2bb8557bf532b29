//! The profiles of third-party plugins.

use model::Error;
use serde_json::Value;

use super::read::{Unusable, answer, unknown, value};
use super::{
    AddressSpaces, IPAM_DRIVER, IpamCapabilities, NETWORK_DRIVER, NetworkCapabilities, Scope,
};
use crate::object::Object;
use crate::{Refusal, SpaceName};

/// More interfaces are no plugin's.
const MOST_INTERFACES: usize = 64;

/// Which of the protocol's interfaces a plugin has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// It is a network driver.
    pub network: bool,
    /// It is an IPAM driver.
    pub ipam: bool,
}

impl Manifest {
    /// Plugin.Activate's answer. Plugins have other interfaces as well, of volumes and so on.
    pub fn decode(body: &[u8]) -> Result<Self, Unusable> {
        let value = value(body)?;
        let implements = answer(&value)?.list("Implements", MOST_INTERFACES)?;
        let has = |name: &str| implements.iter().any(|value| value.as_str() == Some(name));
        if let Some(other) = implements.iter().find(|value| !value.is_string()) {
            let kind = if other.is_null() { "null" } else { "no text" };
            return Err(Refusal::Syntax(format!("Implements holds {kind}")).into());
        }
        Ok(Self { network: has(NETWORK_DRIVER), ipam: has(IPAM_DRIVER) })
    }
}

impl NetworkCapabilities {
    /// NetworkDriver.GetCapabilities' answer. The scope must be there.
    pub fn decode(body: &[u8]) -> Result<Self, Unusable> {
        let value = value(body)?;
        let object = answer(&value)?;
        let missing = || Refusal::Value(Error::invalid("Scope is missing: it is local or global"));
        let scope = scope(&object, "Scope")?.ok_or_else(missing)?;
        Ok(Self {
            scope,
            connectivity: scope_or(&object, scope)?,
            checks_gateways: object.flag("GwAllocChecker")?.unwrap_or(false),
        })
    }
}

fn scope_or(object: &Object<'_>, other: Scope) -> Result<Scope, Unusable> {
    Ok(scope(object, "ConnectivityScope")?.unwrap_or(other))
}

fn scope(object: &Object<'_>, key: &str) -> Result<Option<Scope>, Unusable> {
    match object.text(key)? {
        None => Ok(None),
        Some("local") => Ok(Some(Scope::Local)),
        Some("global") => Ok(Some(Scope::Global)),
        Some(other) => Err(unknown(&object.place(key), other, "local nor global")),
    }
}

impl IpamCapabilities {
    /// IpamDriver.GetCapabilities' answer.
    pub fn decode(body: &[u8]) -> Result<Self, Unusable> {
        let value = value(body)?;
        let object = answer(&value)?;
        Ok(Self {
            requires_mac: object.flag("RequiresMACAddress")?.unwrap_or(false),
            requires_replay: object.flag("RequiresRequestReplay")?.unwrap_or(false),
        })
    }
}

impl AddressSpaces {
    /// IpamDriver.GetDefaultAddressSpaces' answer; none where it names no local one.
    pub fn decode(body: &[u8]) -> Result<Option<Self>, Unusable> {
        let value: Value = value(body)?;
        let object = answer(&value)?;
        let local: Option<SpaceName> = object.parsed("LocalDefaultAddressSpace")?;
        let global: Option<SpaceName> = object.parsed("GlobalDefaultAddressSpace")?;
        Ok(local.map(|local| Self { global: global.unwrap_or_else(|| local.clone()), local }))
    }
}
