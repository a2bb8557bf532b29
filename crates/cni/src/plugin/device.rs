//! `host-device`: a device of the host, moved into the container.

use std::path::{Path, PathBuf};

use model::{
    Device, DeviceAddress, DeviceChoice, Error, Fact, LinkKind, Mac, Result, Space, Wiring,
};

use super::{Plan, link};
use crate::call::Call;
use crate::capability;
use crate::source;
use crate::wire::{Command, Object};

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let template = match is_given_at_add(call)? {
        true => Wiring::default(),
        false => link::alone(LinkKind::Device(device(call)?), None),
    };
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}

/// Whether STATUS asks for a network whose device the runtime names with ADD (capability `deviceID`).
pub(super) fn is_given_at_add(call: &Call<'_>) -> Result<bool> {
    if call.command != Command::Status || !call.config.declares(capability::DEVICE_ID)? {
        return Ok(false);
    }
    let root = call.config.root();
    let mut named =
        [root.text("device")?, root.text("hwaddr")?, root.text("kernelpath")?].into_iter();
    Ok(named.all(|name| name.is_none()) && addressed(call)?.is_none())
}

/// The device that the configuration names: the first that is given, in the order of the
/// reference.
pub(super) fn device(call: &Call<'_>) -> Result<Device> {
    let addressed = addressed(call)?;
    choice(&call.config.root(), addressed.as_ref()).map(|choice| Device { choice })
}

/// Some device, which knows by itself what it was called in the host.
pub(super) fn remnant(call: &Call<'_>) -> Wiring {
    let choice = choice(&call.config.root(), None);
    let Some((_, ifname)) = &call.subject else { return Wiring::default() };
    let choice = choice.unwrap_or_else(|_| DeviceChoice::Name(ifname.clone()));
    link::alone(LinkKind::Device(Device { choice }), None)
}

/// The device's address on its bus: that of the capability `deviceID`, or else `pciBusID`.
fn addressed(call: &Call<'_>) -> Result<Option<DeviceAddress>> {
    let by_runtime = match call.config.runtime()? {
        Some(runtime) => address(&runtime, capability::DEVICE_ID)?,
        None => None,
    };
    match by_runtime {
        Some(id) => Ok(Some(id)),
        None => address(&call.config.root(), "pciBusID"),
    }
}

fn address(object: &Object<'_>, key: &str) -> Result<Option<DeviceAddress>> {
    object.text(key)?.map(|text| DeviceAddress::try_from(text.to_owned())).transpose()
}

fn choice(root: &Object<'_>, addressed: Option<&DeviceAddress>) -> Result<DeviceChoice> {
    if let Some(name) = root.parse("device")? {
        return Ok(DeviceChoice::Name(name));
    }
    if let Some(text) = root.text("hwaddr")? {
        let mac: Mac = text.parse().map_err(|error: Error| {
            let words = format!(
                "failed to find host device: failed to parse MAC address {text:?}: address {text}: \
                 invalid MAC address"
            );
            error.context(format!("\"hwaddr\" {text:?} is invalid")).about(Fact::Words(words))
        })?;
        return Ok(DeviceChoice::Mac(mac));
    }
    if let Some(text) = root.text("kernelpath")? {
        return kernel_path(text).map(DeviceChoice::Path);
    }
    addressed.cloned().map(DeviceChoice::Bus).ok_or_else(|| {
        Error::invalid(r#"specify either "device", "hwaddr", "kernelpath" or "pciBusID""#)
    })
}

fn kernel_path(text: &str) -> Result<PathBuf> {
    let path = Path::new(text);
    let climbs = path.components().any(|part| part.as_os_str() == "..");
    match path.starts_with("/sys/devices") && path != Path::new("/sys/devices") && !climbs {
        true => Ok(path.to_owned()),
        false => Err(Error::invalid(format!(
            "failed to find host device: kernel device path {text:?} must be absolute and begin with /sys/devices/"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_devices() {
        assert!(kernel_path("/sys/devices/pci0000:00/0000:00:19.0").is_ok());
        for bad in ["/sys/devices", "/sys/devices/", "/sys/devices/../x", "sys/devices/x", "/dev/x"]
        {
            assert!(kernel_path(bad).is_err(), "{bad}");
        }
    }
}
