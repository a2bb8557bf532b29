//! A device of the host that the container has for itself.

use model::{Attachment, Device, Error, Fact, InterfaceNamespace, Result};

use super::single::Birth;
use super::{DeviceFacts, Facts, PeerPlacement, Step};

pub(super) fn birth(
    attachment: &Attachment,
    device: &Device,
    peer_placement: &PeerPlacement,
    facts: &Facts,
) -> Result<Birth> {
    if peer_placement.place == InterfaceNamespace::Host {
        return Err(Error::unsupported(format!(
            "{}: a device of the host is moved into its container at once",
            attachment.id
        )));
    }
    match &facts.device {
        None => {
            let what =
                format!("failed to find device {}: {}", peer_placement.name, reported(device));
            Err(Error::not_found(what).about(Fact::NoDevice(device.clone())))
        }
        Some(DeviceFacts::Program) => Ok(Birth { is_hidden: true, ..Birth::default() }),
        Some(DeviceFacts::There { mac }) => Ok(Birth { mac: *mac, ..Birth::default() }),
        Some(DeviceFacts::Host { name, mac }) => {
            let moved =
                Step::Move { from: name.clone(), to: peer_placement.name.clone(), remembers: true };
            Ok(Birth { host: vec![moved], mac: *mac, ..Birth::default() })
        }
    }
}

fn reported(device: &Device) -> String {
    use model::DeviceChoice::{Bus, Mac, Name, Path};
    match &device.choice {
        Name(name) => format!("the host has no interface {name}"),
        Mac(mac) => format!("the host has no interface with hardware address {mac}"),
        Path(path) => format!("{} has no interface", path.display()),
        Bus(address) => format!("the device at {} has no interface", address.as_str()),
    }
}
