//! Docker's names of Spoke's address spaces and subnets.

use model::{Error, IpNet, Result, Space, SubnetId};

use libnetwork::{PoolKey, SpaceName};

/// The address space of this host, which CNI and Podman share.
pub(crate) const LOCAL: &str = "spoke-local";
/// The address space of a cluster, in which only swarm's managers ask.
pub(crate) const GLOBAL: &str = "spoke-global";

/// What is before the name of a tenant's space within a pool's key.
const TENANT: &str = "space:";
/// A space's name within a pool's key.
const LOCAL_KEY: &str = "local";
const GLOBAL_KEY: &str = "global";

/// The space of this name, if it is Spoke's.
pub(crate) fn space_of(name: &SpaceName) -> Option<Space> {
    match name.as_str() {
        LOCAL => Some(Space::Host),
        GLOBAL => Some(Space::Global),
        _ => None,
    }
}

/// The pool's key: `local/10.1.0.0/16`, or `local/10.1.0.0/16/10.1.4.0/24` for a part of it.
pub(crate) fn key_of(id: &SubnetId) -> Result<PoolKey> {
    let space = match &id.space {
        Space::Host => LOCAL_KEY.to_owned(),
        Space::Global => GLOBAL_KEY.to_owned(),
        Space::Named(name) => format!("{TENANT}{name}"),
        Space::Network(network) => {
            return Err(Error::unsupported(format!(
                "subnet {id} belongs to network {network} alone, which this host does not route; \
                 Docker cannot share it"
            )));
        }
    };
    let text = match &id.part {
        Some(part) => format!("{space}/{}/{part}", id.net),
        None => format!("{space}/{}", id.net),
    };
    text.parse().map_err(|why| Error::bug(format!("pool {text} {why}")))
}

/// The subnet that a pool's key names.
pub(crate) fn subnet_of(key: &PoolKey) -> Result<SubnetId> {
    let parts: Vec<&str> = key.as_str().split('/').collect();
    let subnet = match parts.as_slice() {
        [space, net, length] => named(space).zip(prefix(net, length)).map(|of| (of, None)),
        [space, net, length, part, part_length] => {
            let of = named(space).zip(prefix(net, length));
            of.zip(prefix(part, part_length)).map(|(of, part)| (of, Some(part)))
        }
        _ => None,
    };
    match subnet {
        Some(((space, net), part)) => Ok(SubnetId { space, net, part }),
        None => Err(Error::invalid(format!(
            "pool {:?} is none of Spoke's: those are called {LOCAL_KEY}/SUBNET, \
             {GLOBAL_KEY}/SUBNET or {TENANT}NAME/SUBNET",
            key.as_str()
        ))),
    }
}

fn named(space: &str) -> Option<Space> {
    match space {
        LOCAL_KEY => Some(Space::Host),
        GLOBAL_KEY => Some(Space::Global),
        other => other.strip_prefix(TENANT)?.parse().ok().map(Space::Named),
    }
}

fn prefix(address: &str, length: &str) -> Option<IpNet> {
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_name_subnets_and_parts() {
        for text in [
            "local/10.1.0.0/16",
            "local/10.1.0.0/16/10.1.4.0/24",
            "global/10.1.0.0/16",
            "space:red/10.1.0.0/16/10.1.4.0/24",
            "local/fd00::/64",
            "global/fd00::/64/fd00::100/120",
        ] {
            let key: PoolKey = text.parse().unwrap();
            assert_eq!(key_of(&subnet_of(&key).unwrap()).unwrap(), key);
        }
        for text in ["", "local", "10.1.0.0/16", "LocalDefault/10.1.0.0/16", "local/10.1.0.0/33"] {
            assert!(text.parse::<PoolKey>().is_err() || subnet_of(&text.parse().unwrap()).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_key_is_read_or_refused(text in ".{1,80}") {
            if let Ok(key) = text.parse::<PoolKey>() {
                let _ = subnet_of(&key);
            }
        }
    }
}
