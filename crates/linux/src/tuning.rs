//! Tuning of a container's interface: kernel parameters and attributes of the link.
//!
//! The previous attributes are kept in a file, in the place and form of the reference plugin
//! `tuning`, so that either can undo what the other did. Kernel parameters end with their namespace
//! and are not restored, as there.

use std::path::Path;

use model::{Error, Fact, IfName, Mac, Mtu, Result, Tuning};
use netlink::{At, Change, Link, Netns, Socket};
use serde::{Deserialize, Serialize};

/// A larger backup is not one.
const LARGEST: u64 = 64 << 10;

/// The attributes of an interface before it was tuned; those that were not tuned are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mac: Option<Mac>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    promisc: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allmulti: Option<bool>,
    #[serde(default, rename = "txQLen", skip_serializing_if = "Option::is_none")]
    tx_queue: Option<u32>,
}

/// Tunes the interface, and keeps what it was before.
pub(crate) fn tune(tuning: &Tuning, ifname: &IfName, sandbox: &Netns) -> Result<()> {
    sandbox.enter(|| {
        for sysctl in &tuning.sysctls {
            netlink::sysctl::write(&sysctl.path, &sysctl.value)?;
        }
        let changes = changes(tuning);
        if changes.is_empty() {
            return Ok(());
        }
        let mut socket = Socket::route()?;
        let link = existing(&mut socket, ifname)?;
        if let Some(backup) = &tuning.backup {
            keep(backup, &before(tuning, &link))?;
        }
        change(&mut socket, &link, &changes)
    })?
}

/// Gives the interface its previous attributes, as far as they are known and possible, and removes
/// the file. As with the reference plugin no failure here blocks a detach: the interface mostly
/// goes with its container.
pub(crate) fn untune(tuning: &Tuning, ifname: &IfName, sandbox: Option<&Netns>) -> Result<()> {
    let Some(backup) = &tuning.backup else { return Ok(()) };
    if let (Some(before), Some(sandbox)) = (kept(backup), sandbox) {
        // A failure must not block a detach: the interface goes with its container.
        let _ = sandbox.enter(|| restore(&before, ifname));
    }
    // Mostly there is none.
    let _ = std::fs::remove_file(backup);
    Ok(())
}

/// Each attribute by itself: one that the kernel refuses does not take the others with it.
fn restore(before: &Before, ifname: &IfName) -> Result<()> {
    let mut socket = Socket::route()?;
    let Some(link) = socket.link(At::Name(ifname))? else { return Ok(()) };
    for attribute in before.changes() {
        // The other attributes are tried all the same.
        let _ = change(&mut socket, &link, &[attribute]);
    }
    Ok(())
}

/// Compares the interface with what it was tuned to.
pub(crate) fn check(tuning: &Tuning, ifname: &IfName, sandbox: &Netns) -> Result<()> {
    sandbox.enter(|| {
        for sysctl in &tuning.sysctls {
            let value = netlink::sysctl::read(&sysctl.path)?;
            if value != sysctl.value.trim() {
                return Err(Error::not_found(format!(
                    "Error: Tuning configured value of /proc/sys/{} is {}, current value is {value}",
                    sysctl.path.display(),
                    sysctl.value.trim()
                )));
            }
        }
        let link = existing(&mut Socket::route()?, ifname)?;
        difference(tuning, &link, ifname).map_or(Ok(()), |what| {
            Err(Error::not_found(format!("Error: Tuning {what}")))
        })
    })?
}

/// In the reference plugin's words; it prints the length of a queue and all-multicast mode as
/// addresses in its memory.
fn difference(tuning: &Tuning, link: &Link, ifname: &IfName) -> Option<String> {
    let flags = link.flags;
    let mac = tuning.mac.filter(|mac| link.mac != Some(*mac)).map(|mac| {
        let is = link.mac.map(|is| is.to_string()).unwrap_or_default();
        format!("configured Ethernet of {ifname} is {mac}, current value is {is}")
    });
    let promisc = tuning.promiscuous.filter(|on| flags.is_promiscuous() != *on).map(|on| {
        let is = u8::from(flags.is_promiscuous());
        format!("link {ifname} configured promisc is {on}, current value is {is}")
    });
    let mtu = tuning
        .mtu
        .filter(|mtu| link.mtu != mtu.bytes())
        .map(|mtu| format!("configured MTU of {ifname} is {mtu}, current value is {}", link.mtu));
    let multicast = tuning.all_multicast.filter(|on| flags.is_all_multicast() != *on).map(|on| {
        format!("configured all-multicast mode of {ifname} is {on}, current value is {}", !on)
    });
    let queue = tuning.tx_queue.filter(|length| link.tx_queue != *length).map(|length| {
        let is = link.tx_queue;
        format!("configured Transmit Queue Length of {ifname} is {length}, current value is {is}")
    });
    mac.or(promisc).or(mtu).or(multicast).or(queue)
}

fn changes(tuning: &Tuning) -> Vec<Change> {
    let changes = [
        tuning.mac.map(Change::Mac),
        tuning.promiscuous.map(Change::Promiscuous),
        tuning.mtu.map(Change::Mtu),
        tuning.all_multicast.map(Change::AllMulticast),
        tuning.tx_queue.map(Change::TxQueue),
    ];
    changes.into_iter().flatten().collect()
}

impl Before {
    fn changes(&self) -> Vec<Change> {
        let changes = [
            self.mac.map(Change::Mac),
            self.promisc.map(Change::Promiscuous),
            self.mtu.and_then(Mtu::new).map(Change::Mtu),
            self.allmulti.map(Change::AllMulticast),
            self.tx_queue.map(Change::TxQueue),
        ];
        changes.into_iter().flatten().collect()
    }
}

fn before(tuning: &Tuning, link: &Link) -> Before {
    Before {
        mac: tuning.mac.and(link.mac),
        promisc: tuning.promiscuous.map(|_| link.flags.is_promiscuous()),
        mtu: tuning.mtu.map(|_| link.mtu),
        allmulti: tuning.all_multicast.map(|_| link.flags.is_all_multicast()),
        tx_queue: tuning.tx_queue.map(|_| link.tx_queue),
    }
}

fn existing(socket: &mut Socket, ifname: &IfName) -> Result<Link> {
    socket.link(At::Name(ifname))?.ok_or_else(|| {
        let what = format!("failed to find interface {:?}", ifname.as_str());
        Error::not_found(what).about(Fact::NoInterface(ifname.clone()))
    })
}

fn change(socket: &mut Socket, link: &Link, changes: &[Change]) -> Result<()> {
    let mut batch = netlink::wire::Batch::new();
    batch.change_link(At::Index(link.index), changes);
    socket.send(&mut batch)?.into_result()
}

/// An earlier backup stays: it is from before the first tuning.
fn keep(path: &Path, before: &Before) -> Result<()> {
    let doing = || format!("keeping what was before in {}", path.display());
    if path.exists() {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| Error::os(doing(), error))?;
    }
    let text = serde_json::to_vec(before).map_err(|error| Error::bug(doing()).because(error))?;
    let unfinished = path.with_extension("tmp");
    file::replace(path, &unfinished, &text).map_err(|error| Error::os(doing(), error))
}

/// A file that is not regular, too large or unreadable restores nothing.
fn kept(path: &Path) -> Option<Before> {
    serde_json::from_slice(&file::read(path, LARGEST).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_kept_once_in_the_reference_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/c_eth0.json");
        assert_eq!(kept(&path), None);
        let first = Before { mtu: Some(1500), tx_queue: Some(1000), ..Before::default() };
        keep(&path, &first).unwrap();
        keep(&path, &Before::default()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), r#"{"mtu":1500,"txQLen":1000}"#);
        assert_eq!(kept(&path), Some(first));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(kept(&path), None);
    }

    #[test]
    fn a_backup_that_restores_nothing_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c_eth0.json");
        let tuning = Tuning { backup: Some(path.clone()), ..Tuning::default() };
        let ifname = "eth0".parse().unwrap();
        let large = " ".repeat(usize::try_from(LARGEST).unwrap() + 1);
        for text in [r#"{"mac":"nonsense"}"#, "\0", large.as_str()] {
            std::fs::write(&path, text).unwrap();
            untune(&tuning, &ifname, None).unwrap();
            assert!(!path.exists());
        }
        // Nothing that can be read or removed as a file.
        std::fs::create_dir(&path).unwrap();
        untune(&tuning, &ifname, None).unwrap();
    }
}
