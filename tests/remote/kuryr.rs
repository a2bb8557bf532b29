//! kuryr-libnetwork in front of a real Neutron, called by Spoke as Docker calls it.

use std::fs;
use std::path::PathBuf;

use tests::fault_proxy::FaultProxy;
use tests::neutron::Project;
use tests::neutron_lab::ApiLab;
use tests::neutron_switch::Switch;
use tests::remote_driver::Kuryr;
use tests::{Plugins, World};

const PORT: u16 = 9696;

struct Host {
    // Before the world, in which they are.
    kuryr: Kuryr,
    switch: Switch,
    _proxy: FaultProxy,
    world: World,
    project: Project,
}

impl Host {
    #[track_caller]
    fn new() -> Self {
        let project = ApiLab::shared().project();
        let world = World::new(&Plugins::subject());
        let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
        let proxy = FaultProxy::inside(&netns, PORT, ApiLab::shared().upstream(&project));
        let switch = Switch::start(&world);
        let host = format!("ovs-{}", &project.id()[..8]);
        let kuryr = Kuryr::start(&world, &format!("http://127.0.0.1:{PORT}"), &host);
        fs::create_dir_all(world.path("/etc/spoke")).unwrap();
        Self { kuryr, switch, _proxy: proxy, world, project }
    }
}

#[test]
fn sanity() {
    let host = Host::new();
    println!("{}", host.world.sh("exec 3<>/dev/tcp/127.0.0.1/23750; printf 'POST /Plugin.Activate HTTP/1.0\r\n\r\n' >&3; cat <&3"));
    println!("{}", host.world.sh("exec 3<>/dev/tcp/127.0.0.1/23750; printf 'POST /IpamDriver.GetDefaultAddressSpaces HTTP/1.0\r\n\r\n' >&3; cat <&3"));
    println!("{}", host.world.sh(r#"exec 3<>/dev/tcp/127.0.0.1/23750; B='{"AddressSpace":"no_address_space","Pool":"10.9.0.0/24","SubPool":"","Options":{},"V6":false}'; printf "POST /IpamDriver.RequestPool HTTP/1.0\r\nContent-Length: ${#B}\r\n\r\n$B" >&3; cat <&3"#));
    println!("{}", host.kuryr.log());
    panic!();
}
