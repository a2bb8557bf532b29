//! Endpoints apart from sandboxes: the port stays as long as the endpoint does.

use serde_json::Value;
use tests::neutron::id;

use crate::held::{Shared, bare, spoke};

#[test]
fn the_port_is_the_endpoints() {
    let shared = Shared::new("10.193.0.0/24", "");
    let calls = &shared.calls;
    let run = |arguments: &str| calls.world.sh(&spoke(arguments));
    calls.world.sh("ip netns add one; ip netns add two");
    let made = run("endpoint create mine web");
    let address = bare(made.split_whitespace().nth(1).unwrap());
    calls.named();
    let port = shared.port(&address);
    let shown: Value = serde_json::from_str(&run("endpoint inspect mine web")).unwrap();
    assert_eq!(shown[0]["mac"], port["mac_address"]);
    assert!(calls.host.switch.ports().is_empty(), "nothing is plugged yet");
    // An endpoint without a sandbox is not taken for lost.
    run("gc");
    for sandbox in ["one", "two"] {
        run(&format!("endpoint join mine web {sandbox}"));
        assert_eq!(shared.address_in(sandbox, "eth0"), address);
        assert_eq!(calls.host.switch.ports().len(), 1);
        run("endpoint leave mine web");
        assert!(calls.host.switch.ports().is_empty());
        calls.named();
        assert_eq!(id(&shared.port(&address)), id(&port), "the port stays");
    }
    // After a reboot too, and with the same port or at least its address and hardware address.
    calls.world.sh("cat /proc/sys/kernel/random/uuid >/world/boot_id
        mount --bind /world/boot_id /proc/sys/kernel/random/boot_id");
    run("gc");
    calls.named();
    let again = shared.port(&address);
    assert_eq!(again["mac_address"], port["mac_address"]);
    run("endpoint join mine web one");
    assert_eq!(shared.address_in("one", "eth0"), address);
    run("endpoint rm --force mine web");
    let query = format!("fixed_ips=ip_address%3D{address}");
    assert!(calls.host.project.list("ports", &query).is_empty());
    calls.world.sh("ip netns delete one; ip netns delete two");
}
