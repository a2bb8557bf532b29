//! The rights of an app ("Isolators", and Kurma's own).

use model::{Error, Result};
use serde_json::Value;

use crate::{CapabilityChange, HostNamespaces, Isolators};

/// Reads the isolators that matter here; the others are none of our business.
pub(super) fn read<'a>(list: impl Iterator<Item = (&'a str, &'a Value)>) -> Result<Isolators> {
    let mut isolators = Isolators::default();
    for (name, value) in list {
        let wrong = || Error::invalid(format!("isolator {name:?} cannot be {value}"));
        let flag = || value.as_bool().ok_or_else(wrong);
        match name {
            "os/linux/privileged" | "host/privileged" => isolators.privileged |= flag()?,
            "host/api-access" => isolators.api_access |= flag()?,
            "os/linux/no-new-privileges" => isolators.no_new_privileges = Some(flag()?),
            "os/linux/namespaces" => isolators.namespaces = namespaces(value).ok_or_else(wrong)?,
            "os/linux/capabilities-retain-set" | "os/linux/capabilities-remove-set" => {
                if isolators.capabilities.is_some() {
                    return Err(Error::invalid(
                        "only one of os/linux/capabilities-retain-set and \
                         os/linux/capabilities-remove-set can be given, and once",
                    ));
                }
                let set = capabilities(value).ok_or_else(wrong)?;
                isolators.capabilities = Some(match name.ends_with("retain-set") {
                    true => CapabilityChange::Retain(set),
                    false => CapabilityChange::Remove(set),
                });
            }
            _ => {}
        }
    }
    Ok(isolators)
}

/// `{"net": "host", …}`.
fn namespaces(value: &Value) -> Option<HostNamespaces> {
    let mut namespaces = HostNamespaces::default();
    for (name, value) in value.as_object()? {
        let is_host = value.as_str()? == "host";
        match name.as_str() {
            "ipc" => namespaces.ipc = is_host,
            "net" => namespaces.net = is_host,
            "pid" => namespaces.pid = is_host,
            "user" => namespaces.user = is_host,
            "uts" => namespaces.uts = is_host,
            _ => {}
        }
    }
    Some(namespaces)
}

/// `{"set": ["CAP_NET_ADMIN", …]}`.
fn capabilities(value: &Value) -> Option<Vec<String>> {
    let named = |value: &Value| {
        let name = value.as_str()?.to_ascii_uppercase();
        let rest = name.strip_prefix("CAP_")?;
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        (!rest.is_empty() && rest.len() < 32 && rest.bytes().all(known)).then_some(name)
    };
    value.get("set")?.as_array()?.iter().map(named).collect()
}
