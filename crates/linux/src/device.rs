//! Devices of the host that containers have for themselves: finding them, and taking them back.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use model::{
    Attachment, Device, DeviceAddress, DeviceChoice, Error, Fact, IfName, LinkKind, Result,
};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Link, Links, Netns, Socket};

use crate::plan::{self, DeviceFacts};

/// Drivers that leave a device to a program (DPDK): the kernel has no interface of it.
const PROGRAMS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Where devices are found by their place in the machine.
const DEVICES: &str = "/sys/devices";
/// Where the buses list theirs.
const BUSES: &str = "/sys/bus";

/// The device that is meant: in the host, or in the container already.
pub(crate) fn find(
    device: &Device,
    attachment: &Attachment,
    sandbox: Option<&Netns>,
    socket: &mut Socket,
) -> Result<Option<DeviceFacts>> {
    if let DeviceChoice::Bus(address) = &device.choice
        && is_driven_by_program(Path::new(BUSES), address)
    {
        return Ok(Some(DeviceFacts::Program));
    }
    let inside = match sandbox {
        Some(sandbox) => {
            let name = plan::device(attachment);
            sandbox.enter(|| Socket::route()?.link(At::Name(name)))??
        }
        None => None,
    };
    match (in_host(&device.choice, socket)?, inside) {
        (Some(_), Some(inside)) => {
            let what = format!("the container has an interface {} already", inside.name);
            Err(Error::conflict(what).about(Fact::NameTaken(None)))
        }
        (Some(link), None) => {
            refuse_loopback(&link)?;
            Ok(Some(DeviceFacts::Host { name: link.name, mac: link.mac }))
        }
        (None, inside) => {
            let moved = inside.filter(|link| former(link, attachment).is_some());
            Ok(moved.map(|link| DeviceFacts::There { mac: link.mac }))
        }
    }
}

/// Whether the host has the device, so that a container could get it now.
pub(crate) fn is_there(device: &Device, socket: &mut Socket) -> Result<()> {
    let given_away = match &device.choice {
        DeviceChoice::Bus(address) => is_driven_by_program(Path::new(BUSES), address),
        DeviceChoice::Name(_) | DeviceChoice::Mac(_) | DeviceChoice::Path(_) => false,
    };
    match given_away || in_host(&device.choice, socket)?.is_some() {
        true => Ok(()),
        false => Err(Error::not_found("failed to find host device: it is not in the host")),
    }
}

fn refuse_loopback(link: &Link) -> Result<()> {
    match link.flags.is_loopback() {
        true => Err(Error::invalid("a loopback device stays in its namespace")
            .about(Fact::StaysHere(link.name.clone()))),
        false => Ok(()),
    }
}

fn in_host(choice: &DeviceChoice, socket: &mut Socket) -> Result<Option<Link>> {
    match choice {
        DeviceChoice::Name(name) => socket.link(At::Name(name)),
        DeviceChoice::Mac(mac) => {
            let links = socket.links(Links::default())?;
            Ok(links.into_iter().find(|link| link.mac == Some(*mac)))
        }
        DeviceChoice::Path(path) => {
            if !path.starts_with(DEVICES) {
                return Err(Error::invalid(format!(
                    "kernel device path {} must be absolute and begin with {DEVICES}/",
                    path.display()
                )));
            }
            named(interfaces(path), socket)
        }
        DeviceChoice::Bus(address) => named(on_bus(Path::new(BUSES), address), socket),
    }
}

/// The first of the names that an interface of this namespace has.
fn named(names: Vec<IfName>, socket: &mut Socket) -> Result<Option<Link>> {
    for name in names {
        if let Some(link) = socket.link(At::Name(&name))? {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

/// The interfaces of a device, as sysfs(5) names them below it.
fn interfaces(device: &Path) -> Vec<IfName> {
    entries(&device.join("net"))
}

fn entries(directory: &Path) -> Vec<IfName> {
    let listed = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<IfName> =
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    names.sort();
    names
}

/// The interfaces of a device of the PCI or auxiliary bus; of a virtio device they are one step
/// further down.
fn on_bus(buses: &Path, address: &DeviceAddress) -> Vec<IfName> {
    let device = place(buses, address);
    let mut names = interfaces(&device);
    if names.is_empty() {
        let below = fs::read_dir(&device).into_iter().flatten().flatten();
        let is_virtio = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("virtio"))
        };
        let below = below.map(|entry| entry.path()).filter(is_virtio);
        names = below.flat_map(|path| interfaces(&path)).collect();
    }
    names
}

fn place(buses: &Path, address: &DeviceAddress) -> PathBuf {
    let on = |bus: &str| buses.join(bus).join("devices").join(address.as_str());
    let auxiliary = on("auxiliary");
    if auxiliary.exists() { auxiliary } else { on("pci") }
}

fn is_driven_by_program(buses: &Path, address: &DeviceAddress) -> bool {
    let driver = fs::read_link(place(buses, address).join("driver"));
    let name = driver.ok().and_then(|driver| Some(driver.file_name()?.to_str()?.to_owned()));
    name.is_some_and(|name| PROGRAMS.contains(&name.as_str()))
}

/// A device's former name in the host, if it was moved here. It is in the alias, as with the
/// reference plugin.
fn former(link: &Link, attachment: &Attachment) -> Option<IfName> {
    let kept: Option<IfName> = link.alias.as_deref().and_then(|alias| alias.parse().ok());
    let chosen = match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Device(Device { choice: DeviceChoice::Name(name) })) => Some(name),
        _ => None,
    };
    // Another one's alias says nothing of a move.
    kept.filter(|kept| chosen.is_none_or(|chosen| chosen == kept))
}

/// Takes the device back from the container, under its old name, down. One that the container's
/// namespace released at its end has only to be renamed.
pub(crate) fn take_back(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
    let Some(sandbox) = sandbox else { return rename_returned(attachment) };
    let origin_alias = Netns::current()?;
    let outcome = sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let there = socket.link(At::Name(plan::device(attachment)))?;
        let known = there.and_then(|link| Some((link.index, former(&link, attachment)?)));
        if let Some((index, former)) = &known {
            // The kernel moves first and names then: it would be left in the host under another name.
            refuse_taken(former, &origin_alias)?;
            let mut batch = Batch::new();
            batch.move_link(*index, origin_alias.as_fd(), former);
            socket.send(&mut batch)?.into_result()?;
        }
        Ok::<_, Error>(known.map(|(_, former)| former))
    })??;
    match outcome {
        Some(former) => forget_alias(&former),
        None => rename_returned(attachment),
    }
}

/// A device whose name another device has in the host stays where it is.
fn refuse_taken(former: &IfName, origin_alias: &Netns) -> Result<()> {
    match origin_alias.enter(|| Socket::route()?.link(At::Name(former)))?? {
        None => Ok(()),
        Some(_) => Err(Error::conflict(format!(
            "the host has another interface {former}: rename it, then the device can be taken back"
        ))
        .about(Fact::Whole(format!("failed to move \"{former}\" to hostNS: file exists")))),
    }
}

/// It has its name again, and need not keep it in mind.
fn forget_alias(former: &IfName) -> Result<()> {
    let mut batch = Batch::new();
    batch.change_link(At::Name(former), &[Change::Alias(String::new())]);
    Socket::route()?.send(&mut batch)?.except(Errno::NODEV).into_result()
}

/// The kernel gives hardware back to the host when a namespace ends, under whatever name.
fn rename_returned(attachment: &Attachment) -> Result<()> {
    let Some(LinkKind::Device(device)) = attachment.wiring.link.as_ref().map(|link| &link.kind)
    else {
        return Ok(());
    };
    let mut socket = Socket::route()?;
    let links = socket.links(Links::default())?;
    for link in &links {
        let Some(former) = former(link, attachment) else { continue };
        let is_taken = links.iter().any(|other| other.name == former);
        if is_taken || !is_chosen(&device.choice, link) {
            continue;
        }
        let mut batch = Batch::new();
        batch.change_link(At::Index(link.index), &[Change::Up(false)]);
        batch.change_link(At::Index(link.index), &[Change::Name(former)]);
        batch.change_link(At::Index(link.index), &[Change::Alias(String::new())]);
        socket.send(&mut batch)?.into_result()?;
    }
    Ok(())
}

fn is_chosen(choice: &DeviceChoice, link: &Link) -> bool {
    match choice {
        // Its alias says so.
        DeviceChoice::Name(_) => true,
        DeviceChoice::Mac(mac) => link.mac == Some(*mac),
        DeviceChoice::Path(path) => interfaces(path).contains(&link.name),
        DeviceChoice::Bus(address) => on_bus(Path::new(BUSES), address).contains(&link.name),
    }
}

/// Whether the device is back in the host.
pub(crate) fn is_back(device: &Device) -> Result<bool> {
    Ok(in_host(&device.choice, &mut Socket::route()?)?.is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(names: &[IfName]) -> Vec<&str> {
        names.iter().map(IfName::as_str).collect()
    }

    #[test]
    fn a_bus_says_which_interfaces_a_device_has() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| fs::create_dir_all(root.path().join(path)).unwrap();
        let address = |text: &str| DeviceAddress::try_from(text.to_owned()).unwrap();
        make("pci/devices/0000:00:01.0/net/ens1");
        make("pci/devices/0000:00:02.0/virtio7/net/ens2");
        make("pci/devices/0000:00:03.0");
        make("pci/drivers/vfio-pci");
        make("pci/drivers/e1000");
        make("auxiliary/devices/mlx5_core.sf.4/net/p0sf4");
        symlink("../../drivers/vfio-pci", root.path().join("pci/devices/0000:00:03.0/driver"))
            .unwrap();
        symlink("../../drivers/e1000", root.path().join("pci/devices/0000:00:01.0/driver"))
            .unwrap();
        let on = |text: &str| on_bus(root.path(), &address(text));
        assert_eq!(names(&on("0000:00:01.0")), ["ens1"]);
        assert_eq!(names(&on("0000:00:02.0")), ["ens2"]);
        assert_eq!(names(&on("mlx5_core.sf.4")), ["p0sf4"]);
        assert!(on("0000:00:03.0").is_empty() && on("0000:00:09.0").is_empty());
        assert!(is_driven_by_program(root.path(), &address("0000:00:03.0")));
        assert!(!is_driven_by_program(root.path(), &address("0000:00:01.0")));
        assert!(!is_driven_by_program(root.path(), &address("0000:00:09.0")));
    }
}
