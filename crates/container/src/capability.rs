//! Capabilities (capabilities(7)).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use model::Error;

/// In the order of their numbers (`linux/capability.h`).
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The capabilities of an unprivileged network plugin: it changes links, addresses and filters,
/// enters namespaces, and is root among its own files.
const NETWORK_PLUGIN: [&str; 13] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_ADMIN",
    "SYS_CHROOT",
];

/// One capability. Its text is `CAP_NET_ADMIN`; `NET_ADMIN` and small letters are read, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(u8);

impl Capability {
    /// The kernel's number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Those that a mask holds.
    pub(crate) fn all_of(mask: u64) -> impl Iterator<Item = Self> {
        (0..41).map(Self).filter(move |one| mask & one.mask() != 0)
    }

    fn mask(self) -> u64 {
        1 << self.0
    }
}

impl FromStr for Capability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
        let number = NAMES.iter().position(|known| *known == name);
        number
            .and_then(|number| u8::try_from(number).ok())
            .map(Self)
            .ok_or_else(|| Error::invalid(format!("there is no capability {text:?}")))
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAP_{}", NAMES.get(usize::from(self.0)).copied().unwrap_or("UNKNOWN"))
    }
}

/// The capabilities of a container's processes: their bounding, permitted, effective, inheritable
/// and ambient set are this, exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capabilities {
    /// These.
    Set(BTreeSet<Capability>),
    /// All that the caller has.
    All,
}

impl Capabilities {
    /// The capabilities of an unprivileged network plugin.
    pub fn of_network_plugin() -> Self {
        Self::Set(NETWORK_PLUGIN.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// As the kernel writes sets; `None` for all.
    pub(crate) fn mask(&self) -> Option<u64> {
        match self {
            Self::Set(set) => Some(set.iter().fold(0, |mask, one| mask | one.mask())),
            Self::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel() {
        for (text, number) in [("CAP_NET_ADMIN", 12), ("sys_admin", 21), ("CAP_BPF", 39)] {
            let capability: Capability = text.parse().unwrap();
            assert_eq!(capability.number(), number);
            assert_eq!(capability.to_string().parse::<Capability>().unwrap(), capability);
        }
        assert!("CAP_".parse::<Capability>().is_err());
        assert!("CAP_CAP_BPF".parse::<Capability>().is_err());
    }

    #[test]
    fn every_default_exists() {
        let Capabilities::Set(set) = Capabilities::of_network_plugin() else { panic!("a set") };
        assert_eq!(set.len(), NETWORK_PLUGIN.len());
        assert_eq!(Capabilities::Set(set).mask(), Some(0x2435fb));
        assert_eq!(Capabilities::All.mask(), None);
    }
}
