//! Devices of the host that containers get.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::as_text;
use crate::{Error, IfName, Mac, Result};

/// A device of the host that one container has exclusively while it is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Which.
    pub choice: DeviceChoice,
}

/// How a device of the host is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceChoice {
    /// By its interface.
    Name(IfName),
    /// By its interface's hardware address.
    Mac(Mac),
    /// By its place below `/sys/devices`; never with `..`.
    Path(PathBuf),
    /// By its address on the PCI or auxiliary bus.
    Bus(DeviceAddress),
}

/// The address of a device on a bus, such as `0000:00:1f.6` or `mlx5_core.sf.4`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceAddress(String);

impl DeviceAddress {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DeviceAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match first && text.len() <= 64 && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid(format!(
                "device address {text:?} is not like 0000:00:1f.6 or mlx5_core.sf.4"
            ))),
        }
    }
}

as_text!(DeviceAddress);
