//! Devices whose packets a program sends and receives (`linux/if_tun.h`).

use std::fs::{File, OpenOptions};

use model::{Error, IfName, Result};
use rustix::io::Errno;

use crate::outcome::refused;
use crate::sys;

/// Where the driver is asked.
const DRIVER: &str = "/dev/net/tun";
/// Length of `struct ifreq`.
const REQUEST: usize = 40;
/// Length of a name in it, with its terminating zero.
const NAME: usize = 16;

/// A new device.
#[derive(Clone, Copy, Debug)]
pub struct NewTap<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// Whether it has several queues; a program that opens it must agree.
    pub multi_queue: bool,
    /// Which user may open it, besides root.
    pub owner: Option<u32>,
    /// Which group may open it.
    pub group: Option<u32>,
}

/// A device that is deleted with this value, unless [`Tap::stay`] is called.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: IfName,
}

impl Tap {
    /// Makes a device in the calling thread's namespace, down. Its packets have no header but
    /// Ethernet's.
    ///
    /// # Errors
    /// [`model::Kind::Unsupported`] where the host lacks the driver, [`model::Kind::Conflict`] if
    /// there is a link of its name, [`model::Kind::Denied`].
    pub fn make(new: &NewTap<'_>) -> Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).open(DRIVER).map_err(|error| match error
                .kind()
            {
                std::io::ErrorKind::NotFound => Error::unsupported(format!(
                    "making tap {}: the host has no {DRIVER}; load the module tun",
                    new.name
                )),
                _ => Error::os(format!("opening {DRIVER}"), error),
            })?;
        let tap = Self { file, name: new.name.clone() };
        let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        if new.multi_queue {
            flags |= libc::IFF_MULTI_QUEUE;
        }
        tap.result(sys::tun_set_interface(&tap.file, &request(new.name, flags)))?;
        if let Some(owner) = new.owner {
            tap.result(sys::tun_set(&tap.file, sys::TunSetting::Owner, owner))?;
        }
        if let Some(group) = new.group {
            tap.result(sys::tun_set(&tap.file, sys::TunSetting::Group, group))?;
        }
        Ok(tap)
    }

    /// Lets the device stay while no program has it open.
    ///
    /// # Errors
    /// A refusal.
    pub fn stay(self) -> Result<()> {
        self.result(sys::tun_set(&self.file, sys::TunSetting::Persist, 1))
    }

    fn result(&self, done: std::result::Result<(), Errno>) -> Result<()> {
        done.map_err(|errno| match errno {
            Errno::BUSY | Errno::INVAL => Error::conflict(format!(
                "making tap {}: there is an interface of that name",
                self.name
            )),
            errno => refused(format!("making tap {}", self.name), errno),
        })
    }
}

/// `struct ifreq` with `ifr_name` and `ifr_flags`.
fn request(name: &IfName, flags: libc::c_int) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    for (to, from) in request.iter_mut().zip(name.as_str().bytes().take(NAME - 1)) {
        *to = from;
    }
    // Of an int, the kernel has the lower half in a short.
    let flags = u16::try_from(flags & 0xffff).unwrap_or_default().to_ne_bytes();
    request[NAME..NAME + 2].copy_from_slice(&flags);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_name_and_flags() {
        let request = request(&"tap0".parse().unwrap(), libc::IFF_TAP | libc::IFF_TUN_EXCL);
        assert_eq!(&request[..5], b"tap0\0");
        assert_eq!(request[16..18], 0x8002u16.to_ne_bytes());
        assert!(request[18..].iter().all(|byte| *byte == 0));
    }
}
