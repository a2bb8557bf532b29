//! `host-device`: a device of the host, moved into the container.

use std::path::{Path, PathBuf};

use model::{Device, DeviceAddress, DeviceChoice, Error, LinkKind, Mac, Result, Space, Wiring};

use super::{Call, Plan, link};
use crate::source;
use crate::wire::{Command, Object};

/// Where the kernel shows the devices of all buses.
const BUSES: &str = "/sys/bus";

/// Drivers that hand a device to a program: it has no interface that could be moved.
const USERSPACE: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let buses = Path::new(BUSES);
    let addressed = addressed(call, buses)?;
    let choice = choice(&call.config.root(), addressed.as_ref())?;
    let of_userspace = match (&addressed, call.command) {
        (Some(address), Command::Add | Command::Check) => is_of_userspace(buses, address)?,
        // Whether there is such a device is the driver's to say.
        (Some(address), _) => is_of_userspace(buses, address).unwrap_or(false),
        (None, _) => false,
    };
    let template = match of_userspace {
        true => Wiring::default(),
        false => link::alone(LinkKind::Device(Device { choice }), None),
    };
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}

/// The device that the configuration names.
pub(super) fn device(call: &Call<'_>) -> Result<Device> {
    let addressed = addressed(call, Path::new(BUSES))?;
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
fn addressed(call: &Call<'_>, buses: &Path) -> Result<Option<DeviceAddress>> {
    let runtime = call.config.runtime()?;
    let by_runtime = match &runtime {
        Some(runtime) => address(runtime, "deviceID")?,
        None => None,
    };
    let now = matches!(call.command, Command::Add | Command::Check);
    match by_runtime {
        Some(id) if now && bus_of(buses, &id).is_none() => Err(Error::not_found(format!(
            "runtime config DeviceID {} not found or unsupported: it is neither on the PCI nor on \
             the auxiliary bus",
            id.as_str()
        ))),
        Some(id) => Ok(Some(id)),
        None => address(&call.config.root(), "pciBusID"),
    }
}

fn address(object: &Object<'_>, key: &str) -> Result<Option<DeviceAddress>> {
    object.text(key)?.map(|text| DeviceAddress::try_from(text.to_owned())).transpose()
}

/// The first that is given, in the order of the reference.
fn choice(root: &Object<'_>, addressed: Option<&DeviceAddress>) -> Result<DeviceChoice> {
    if let Some(name) = root.parse("device")? {
        return Ok(DeviceChoice::Name(name));
    }
    if let Some(text) = root.text("hwaddr")? {
        let mac: Mac = text.parse().map_err(|error: Error| {
            error.context(format!("failed to parse MAC address {text:?}, the \"hwaddr\""))
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
            "kernel device path {text:?} must be absolute and begin with /sys/devices/"
        ))),
    }
}

/// On which bus the device is.
fn bus_of(buses: &Path, address: &DeviceAddress) -> Option<PathBuf> {
    let at = |bus: &str| buses.join(bus).join("devices").join(address.as_str());
    ["pci", "auxiliary"].into_iter().map(at).find(|path| path.exists())
}

fn is_of_userspace(buses: &Path, address: &DeviceAddress) -> Result<bool> {
    let Some(device) = bus_of(buses, address) else {
        return Err(Error::not_found(format!(
            "error with host device: there is no device {} on the PCI or auxiliary bus",
            address.as_str()
        )));
    };
    // A device that no driver has taken has no such link.
    let driver = device.join("driver").canonicalize().ok();
    let name = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    Ok(name.is_some_and(|name| USERSPACE.contains(&name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn id(text: &str) -> DeviceAddress {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn a_program_may_have_the_device() {
        let root = tempfile::tempdir().unwrap();
        for (bus, device, driver) in [
            ("pci", "0000:00:01.0", "vfio-pci"),
            ("pci", "0000:00:02.0", "e1000"),
            ("auxiliary", "mlx5_core.sf.4", "mlx5_core"),
        ] {
            let drivers = root.path().join(bus).join("drivers").join(driver);
            let place = root.path().join(bus).join("devices").join(device);
            fs::create_dir_all(&drivers).unwrap();
            fs::create_dir_all(&place).unwrap();
            symlink(&drivers, place.join("driver")).unwrap();
        }
        fs::create_dir_all(root.path().join("pci/devices/0000:00:03.0")).unwrap();
        let of_userspace = |text: &str| is_of_userspace(root.path(), &id(text));
        assert!(of_userspace("0000:00:01.0").unwrap());
        assert!(!of_userspace("0000:00:02.0").unwrap());
        assert!(!of_userspace("mlx5_core.sf.4").unwrap());
        assert!(!of_userspace("0000:00:03.0").unwrap(), "nobody has it");
        let error = of_userspace("0000:00:09.0").unwrap_err().to_string();
        assert!(error.starts_with("error with host device: "), "{error}");
    }

    #[test]
    fn a_path_stays_below_the_devices() {
        assert!(kernel_path("/sys/devices/pci0000:00/0000:00:19.0").is_ok());
        for bad in ["/sys/devices", "/sys/devices/", "/sys/devices/../x", "sys/devices/x", "/dev/x"]
        {
            assert!(kernel_path(bad).is_err(), "{bad}");
        }
    }
}
