//! A segment outside of the host: a router in a namespace of its own, on a cable to the host's eth0.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::{Plugins, World};

const CABLE: &str = "
ip netns add lan
ip link add eth0 type veth peer name lan0 netns lan
ip -n lan address add 192.0.2.1/24 dev lan0
ip -n lan link set lan0 up
ip -n lan link set lo up
ip address add 192.0.2.2/24 dev eth0
ip link set eth0 up
";

/// The host's address on the segment.
pub(crate) const HOST: &str = "192.0.2.2";
/// The router's.
pub(crate) const ROUTER: &str = "192.0.2.1";

/// Plugs the host in.
#[track_caller]
pub(crate) fn plug(world: &World) {
    world.sh(CABLE);
}

/// Takes the segment away.
#[track_caller]
pub(crate) fn unplug(world: &World) {
    world.sh("ip link del eth0; ip netns del lan");
}

/// That the router reaches an address.
#[track_caller]
pub(crate) fn router_reaches(world: &World, address: &str) {
    world.sh(&format!("ip netns exec lan busybox ping -c 1 -W 3 {address}"));
}

/// Until it is so. Only a test that fails waits for long.
#[track_caller]
pub(crate) fn wait(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < deadline, "not in a minute: {what}");
        tests::glance();
    }
}

/// Starts the DHCP daemon alone.
#[track_caller]
pub(crate) fn start_daemon(world: &World) {
    let daemon = format!("{}/dhcp daemon -pidfile /run/dhcp.pid", Plugins::MOUNT);
    world.sh(&format!("{daemon} >/world/dhcp.log 2>&1 </dev/null &"));
    let socket = world.path("/run/cni/dhcp.sock");
    wait("the daemon listens", || UnixStream::connect(&socket).is_ok());
}

/// The router's DHCP server (dnsmasq of this host); ends with the value.
pub(crate) struct Server<'a> {
    world: &'a World,
    process: Child,
}

impl<'a> Server<'a> {
    /// Hands out 192.0.2.100 to 192.0.2.150.
    #[track_caller]
    pub(crate) fn start(world: &'a World) -> Self {
        fs::write(world.path("/run/leases"), "").expect("a file for leases");
        let process = Command::new("nsenter")
            .arg(format!("--net={}", world.path("/run/netns/lan").display()))
            .args(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0"])
            .args(["--interface=lan0", "--bind-interfaces", "--user=root", "--no-ping"])
            .args(["--dhcp-authoritative", "--log-facility=-", "--pid-file="])
            .arg(format!("--dhcp-option=3,{ROUTER}"))
            .arg("--dhcp-option=6,192.0.2.53")
            .arg("--dhcp-range=192.0.2.100,192.0.2.150,255.255.255.0,1h")
            .arg(format!("--dhcp-leasefile={}", world.path("/run/leases").display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dnsmasq starts (scripts/setup test)");
        Self { world, process }
    }

    /// What it has handed out.
    pub(crate) fn leases(&self) -> String {
        fs::read_to_string(self.world.path("/run/leases")).expect("the leases")
    }

    /// Until what it has handed out is like that: it hears of a release after the container has left.
    #[track_caller]
    pub(crate) fn wait(&self, is: impl Fn(&str) -> bool) {
        wait("an address is given back", || is(&self.leases()));
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(self.world.path("/run/leases"));
    }
}
