//! A segment outside of the host: a router in a namespace of its own, on a cable to the host's eth0.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::bed::Bed;

const CABLE: &str = "
ip netns add lan
ip link add eth0 type veth peer name lan0
ip link set lan0 netns lan
ip netns exec lan ip address add 192.0.2.1/24 dev lan0
ip netns exec lan ip link set lan0 up
ip netns exec lan ip link set lo up
ip address add 192.0.2.2/24 dev eth0
ip link set eth0 up
";

/// The host's address on the segment.
pub(crate) const HOST: &str = "192.0.2.2";
/// The router's.
pub(crate) const ROUTER: &str = "192.0.2.1";

/// Plugs the host of `bed` in.
#[track_caller]
pub(crate) fn plug(bed: &Bed) {
    bed.world().sh(CABLE);
}

/// Takes the segment away.
#[track_caller]
pub(crate) fn unplug(bed: &Bed) {
    bed.world().sh("ip link del eth0; ip netns del lan");
}

/// That the router reaches an address.
#[track_caller]
pub(crate) fn router_reaches(bed: &Bed, address: &str) {
    bed.world().sh(&format!("ip netns exec lan busybox ping -c 1 -W 3 {address}"));
}

/// That the host reaches an address.
#[track_caller]
pub(crate) fn host_reaches(bed: &Bed, address: &str) {
    bed.world().sh(&format!("busybox ping -c 1 -W 3 {address}"));
}

/// The router's DHCP server (dnsmasq of this host); ends with the value.
pub(crate) struct Server(Child);

impl Server {
    /// Hands out 192.0.2.100 to 192.0.2.150.
    #[track_caller]
    pub(crate) fn start(bed: &Bed) -> Self {
        let netns = bed.world().path("/run/netns/lan");
        let leases = bed.world().path("/run/leases");
        fs::write(&leases, "").expect("a file for leases");
        let child = Command::new("nsenter")
            .arg(format!("--net={}", netns.display()))
            .args(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0"])
            .args(["--interface=lan0", "--bind-interfaces", "--user=root", "--no-ping"])
            .args([
                "--dhcp-authoritative",
                "--log-facility=-",
                "--dhcp-option=3,192.0.2.1",
                "--pid-file=",
            ])
            .arg("--dhcp-range=192.0.2.100,192.0.2.150,255.255.255.0,1h")
            .arg(format!("--dhcp-leasefile={}", leases.display()))
            .stdin(Stdio::null())
            .spawn()
            .expect("dnsmasq starts (scripts/setup test)");
        Self(child)
    }

    /// What it has handed out.
    pub(crate) fn leases(bed: &Bed) -> String {
        fs::read_to_string(bed.world().path("/run/leases")).expect("the leases")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
