//! The owner of a reserved address, as errors name it.

use model::{Error, OwnerName, Reservation};

/// How the owner of an address is called that is an endpoint's. No runtime has a container of such a name.
pub const ENDPOINT: &str = "@endpoint";

/// How the owner of an address is called that this host has outside its blocks.
pub(crate) const PINNED: &str = "@pinned";

/// What the owner of an address begins with that another host has in a block of this one.
pub(crate) const ELSEWHERE: &str = "@host/";

/// The owner of a requested gateway's reservation. No runtime has a container of such a name.
pub const GATEWAY: &str = "@gateway";

/// The owner of a requested auxiliary address's reservation.
pub const AUXILIARY: &str = "@auxiliary";

/// That an address is another host's, or that this host has it from the others, where that is so.
pub(crate) fn shared_address(reservation: &Reservation) -> Option<Error> {
    let owner = reservation.owner.as_ref()?.as_str();
    let address = reservation.address;
    let network = reservation.network.as_ref().map_or_else(String::new, ToString::to_string);
    match owner.strip_prefix(ELSEWHERE) {
        Some(host) => Some(Error::conflict(format!(
            "address {address} of network {network} is in use on host {host}"
        ))),
        None if owner == PINNED => Some(Error::conflict(format!(
            "address {address} of network {network} is pinned to this host while a container has it, or a name keeps it"
        ))),
        None => None,
    }
}

pub(crate) fn reserved_for(reservation: &Reservation) -> Error {
    if let Some(error) = kept_address(reservation) {
        return error;
    }
    let address = reservation.address;
    let whose = match reservation.owner.as_ref().map(OwnerName::as_str) {
        Some(GATEWAY) => "requested as a gateway".to_owned(),
        Some(AUXILIARY) => "requested as an auxiliary address".to_owned(),
        Some(owner) => format!("reserved for {owner}"),
        None => "reserved".to_owned(),
    };
    let of = reservation.network.as_ref();
    let of = of.map(|network| format!(" of network {network}")).unwrap_or_default();
    Error::conflict(format!(
        "address {address} is {whose}{of}; `spoke ipam release {address}` ends that"
    ))
}

/// That the address is an endpoint's or another host's, where it is one's.
pub(crate) fn kept_address(reservation: &Reservation) -> Option<Error> {
    if let Some(error) = shared_address(reservation) {
        return Some(error);
    }
    let owner = reservation.owner.as_ref()?.as_str().strip_prefix(ENDPOINT)?;
    let network = reservation.network.as_ref().map_or_else(String::new, ToString::to_string);
    Some(Error::conflict(format!(
        "address {} is that of endpoint {} of network {network}; `spoke endpoint rm` gives it back",
        reservation.address,
        owner.trim_start_matches('/'),
    )))
}
