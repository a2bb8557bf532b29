//! Virtual functions of network cards (SR-IOV): their card gives them address and VLAN.

use std::fs;
use std::path::{Path, PathBuf};

use model::{DeviceAddress, Error, IfName, Mac, Result, VlanId};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Function, Socket};

/// Where the kernel lists what is on the PCI bus (sysfs(5)).
const DEVICES: &str = "/sys/bus/pci/devices";

/// A function of a card.
#[derive(Debug, PartialEq, Eq)]
struct Card {
    /// The card's own interface.
    own: IfName,
    /// The function's number, from zero.
    number: u32,
    /// The function's interface, where the host has it.
    interface: Option<IfName>,
}

/// Gives a function its address and VLAN. A card that is wholly the container's has both.
pub(super) fn give(slot: &DeviceAddress, mac: Mac, vlan: Option<VlanId>) -> Result<()> {
    let Some(card) = card(Path::new(DEVICES), slot)? else { return Ok(()) };
    let reported = Function { number: card.number, mac: Some(mac), vlan: Some(vlan) };
    let mut socket = Socket::route()?;
    let mut batch = Batch::new();
    batch.set_function(At::Name(&card.own), &reported);
    if let Some(interface) = &card.interface {
        batch.change_link(At::Name(interface), &[Change::Mac(mac)]);
    }
    // The function's own driver may learn of its address only when it is next set up.
    let outcome = socket.send(&mut batch)?;
    let refused = outcome.failures().iter().find(|failure| failure.index == 0).cloned();
    refused.map_or(Ok(()), |failure| {
        Err(failure.into_error().context(format!("virtual function {}", slot.as_str())))
    })
}

/// The function is in no VLAN, and may choose its address. One that is gone needs nothing.
pub(super) fn take_back(slot: &DeviceAddress) -> Result<()> {
    let Ok(Some(card)) = card(Path::new(DEVICES), slot) else { return Ok(()) };
    let number = card.number;
    let mut batch = Batch::new();
    batch.set_function(At::Name(&card.own), &Function { number, mac: None, vlan: Some(None) });
    let freed = Function { number, mac: Some(Mac::new([0; 6])), vlan: None };
    let freed = batch.set_function(At::Name(&card.own), &freed);
    let outcome = Socket::route()?.send(&mut batch)?.except(Errno::NODEV);
    // Some cards take no such address.
    let kept = outcome.except_at(freed, Errno::INVAL).except_at(freed, Errno::ADDRNOTAVAIL);
    kept.into_result()
}

/// Of which card the function is, and which; none where it is a card's own.
fn card(devices: &Path, slot: &DeviceAddress) -> Result<Option<Card>> {
    let device = devices.join(slot.as_str());
    if !device.exists() {
        return Err(Error::not_found(format!("there is no PCI device {}", slot.as_str())));
    }
    let card = device.join("physfn");
    if !card.exists() {
        return Ok(None);
    }
    let own = interface(&card).ok_or_else(|| {
        Error::not_found(format!("the card of PCI device {} has no interface", slot.as_str()))
    })?;
    let numbers = names(&card).into_iter().filter_map(|name| number(&card, &name, slot));
    let number = numbers.min().ok_or_else(|| {
        Error::not_found(format!("{own} does not have PCI device {} as a function", slot.as_str()))
    })?;
    Ok(Some(Card { own, number, interface: interface(&device) }))
}

/// The number of the function, if `virtfnN` links to it.
fn number(card: &Path, name: &str, slot: &DeviceAddress) -> Option<u32> {
    let number = name.strip_prefix("virtfn")?.parse().ok()?;
    let leads_to: PathBuf = fs::read_link(card.join(name)).ok()?;
    (leads_to.file_name()?.to_str()? == slot.as_str()).then_some(number)
}

fn interface(device: &Path) -> Option<IfName> {
    let mut names: Vec<String> = names(&device.join("net"));
    names.sort();
    names.first()?.parse().ok()
}

fn names(directory: &Path) -> Vec<String> {
    let listed = fs::read_dir(directory).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_bus_says_which_function_of_which_card_it_is() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let slot = |text: &str| DeviceAddress::try_from(text.to_owned()).unwrap();
        fs::create_dir_all(at("0000:05:00.0/net/ens5f0")).unwrap();
        for (number, function) in ["0000:05:10.0", "0000:05:10.2"].into_iter().enumerate() {
            fs::create_dir_all(at(function).join(format!("net/ens5f0v{number}"))).unwrap();
            symlink("../0000:05:00.0", at(function).join("physfn")).unwrap();
            let named = at("0000:05:00.0").join(format!("virtfn{number}"));
            symlink(format!("../{function}"), named).unwrap();
        }
        let found = card(root.path(), &slot("0000:05:10.2")).unwrap().unwrap();
        let own: IfName = "ens5f0".parse().unwrap();
        assert_eq!((&found.own, found.number), (&own, 1));
        assert_eq!(found.interface.unwrap().as_str(), "ens5f0v1");
        fs::remove_dir_all(at("0000:05:10.2/net")).unwrap();
        let away = card(root.path(), &slot("0000:05:10.2")).unwrap().unwrap();
        assert_eq!(away.interface, None);
        assert_eq!(card(root.path(), &slot("0000:05:00.0")).unwrap(), None);
        let missing = card(root.path(), &slot("0000:05:11.0")).unwrap_err();
        assert_eq!(missing.kind(), model::Kind::NotFound);
        fs::remove_file(at("0000:05:00.0/virtfn0")).unwrap();
        assert_eq!(
            card(root.path(), &slot("0000:05:10.0")).unwrap_err().kind(),
            model::Kind::NotFound
        );
        take_back(&slot("ffff:ff:1f.7")).unwrap();
    }
}
