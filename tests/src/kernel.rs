//! What the kernel that the tests run on can do.
//!
//! The convention for a test that needs a kind of link, or anything else, that a kernel may lack:
//! its name says the kind (`vlan`, `ipvlan`, `dummy`, `vrf`, …), and its first line is
//!
//! ```ignore
//! if Feature::Ipvlan.is_missing() { return }
//! ```
//!
//! which says aloud that nothing was tested. `make test-vm` finds such tests by their names and
//! runs them in a guest whose kernel has all of it; there nothing may be missing
//! ([`COMPLETE`]), so that no test passes everywhere without having run anywhere.

use std::process::{Command, Stdio};

use crate::skipped;

/// Environment variable: on this kernel every [`Feature`] must be there.
pub const COMPLETE: &str = "SPOKE_KERNEL_IS_COMPLETE";

/// What a kernel may have been built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// VLAN devices (802.1Q).
    Vlan,
    /// ipvlan devices.
    Ipvlan,
    /// Dummy devices.
    Dummy,
    /// VRF devices.
    Vrf,
    /// Bridges that filter by VLAN.
    BridgeVlan,
    /// The queueing discipline `fq_codel`.
    FqCodel,
    /// The traffic classifier `matchall`, with the action `police`.
    Police,
    /// WireGuard devices.
    WireGuard,
    /// Open vSwitch's datapath in the kernel.
    OpenVswitch,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 9] = [
        Self::Vlan,
        Self::Ipvlan,
        Self::Dummy,
        Self::Vrf,
        Self::BridgeVlan,
        Self::FqCodel,
        Self::Police,
        Self::WireGuard,
        Self::OpenVswitch,
    ];

    /// Whether this kernel lacks it, which is said on standard error: the test has to end then.
    ///
    /// # Panics
    /// When it is missing where [`COMPLETE`] says that it must not.
    #[must_use]
    #[track_caller]
    pub fn is_missing(self) -> bool {
        let (what, script) = self.parts();
        let Err(said) = tried(script) else { return false };
        let complete = std::env::var_os(COMPLETE).is_some();
        assert!(!complete, "this kernel should have {what}: {said}");
        // What the tools say has a time in it, and every skip for one reason is to be one line of the list.
        skipped(what, "this kernel has none (make test-vm has)");
        true
    }

    /// What it is called, and what fails without it in an empty network namespace.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Vlan => (
                "VLAN devices",
                "ip link add p type veth peer q; ip link add link p v type vlan id 7",
            ),
            Self::Ipvlan => (
                "ipvlan devices",
                "ip link add p type veth peer q; ip link add link p v type ipvlan mode l2",
            ),
            Self::Dummy => ("dummy devices", "ip link add v type dummy"),
            Self::Vrf => ("VRF devices", "ip link add v type vrf table 7"),
            Self::BridgeVlan => {
                ("bridges that filter by VLAN", "ip link add v type bridge vlan_filtering 1")
            }
            Self::FqCodel => {
                ("fq_codel", "ip link add p type veth peer q; tc qdisc add dev p root fq_codel")
            }
            Self::WireGuard => ("WireGuard", "ip link add v type wireguard"),
            Self::OpenVswitch => ("Open vSwitch's datapath", "ovs-dpctl add-dp v"),
            Self::Police => (
                "matchall with police",
                "ip link add p type veth peer q; tc qdisc add dev p clsact; tc filter add dev p \
                 egress matchall action police rate 1mbit burst 10k",
            ),
        }
    }
}

/// Runs a script in a network namespace that ends with it.
fn tried(script: &str) -> Result<(), String> {
    let done = Command::new("unshare")
        .args(["--net", "bash", "-euc", script])
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts (scripts/setup test)");
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(said.trim().replace('\n', "; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_kernel_has_is_tried_and_what_none_has_is_reported() {
        assert_eq!(tried("ip link add p type veth peer q"), Ok(()));
        assert!(tried("ip link add p type nothing").is_err_and(|said| !said.is_empty()));
    }

    /// Named after all of them, so that the guest of `make test-vm` runs it.
    #[test]
    fn vlan_ipvlan_dummy_and_vrf_are_there_or_said_to_be_missing() {
        for feature in Feature::ALL {
            let _ = feature.is_missing();
        }
    }
}
