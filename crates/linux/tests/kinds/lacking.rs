//! Kinds that not every kernel has.

use engine::port::{Driver, Presence};
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

/// Whether this kernel has such links; says so aloud where it has not, and refuses to where it must.
fn has(driver: &str, options: &str) -> bool {
    let script =
        format!("ip link add {options} name probe0 type {driver} && ip link delete probe0");
    let made = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    if !made.status.success() {
        let must = std::env::var_os("SPOKE_KERNEL_IS_COMPLETE").is_some();
        assert!(!must, "this kernel should have {driver}: {said}");
        tests::skipped(driver, &format!("this kernel has none (make test-vm has): {said}"));
    }
    made.status.success()
}

/// Attaches, looks, detaches and removes the network.
fn lives_and_goes(kind: &LinkKind) {
    let linux = Linux::new(Life::Long);
    let one = Container::new();
    let front = network(kind.clone());
    linux.up(&front).unwrap();
    let first = bare("one", kind.clone(), "10.77.0.2/24", &one.sandbox);
    let became = linux.attach(&first).unwrap();
    linux.check(&first, &became).unwrap();
    assert_eq!(linux.presence(&first), Presence::Alive);
    assert!(one.run("ip -br address show eth0").contains("10.77.0.2/24"));
    for _ in 0..2 {
        linux.detach(&first).unwrap();
    }
    assert!(!one.run("ip -br link").contains("eth0"));
    linux.remove(&front).unwrap();
}

#[test]
fn an_ipvlan_of_each_mode() {
    isolated(|| {
        let _other = lan();
        if !has("ipvlan", "link lan0") {
            return;
        }
        for mode in [IpvlanMode::L2, IpvlanMode::L3, IpvlanMode::L3s] {
            lives_and_goes(&LinkKind::Ipvlan(Ipvlan { parent: parent("lan0"), mode }));
        }
    });
}

#[test]
fn a_dummy_leads_nowhere() {
    isolated(|| {
        if has("dummy", "") {
            lives_and_goes(&LinkKind::Dummy);
        }
    });
}

#[test]
fn a_vlan_for_one_container_and_one_for_all() {
    isolated(|| {
        let _other = lan();
        if !has("vlan id 9", "link lan0") {
            return;
        }
        let id = |id| VlanId::new(id).unwrap();
        lives_and_goes(&LinkKind::Vlan(Vlan { parent: parent("lan0"), id: id(7).into() }));
        let on_vlan = || Parent { vlan: Some(id(8)), ..parent("lan0") };
        let shared = LinkKind::Macvlan(macvlan(on_vlan()));
        lives_and_goes(&shared);
        assert!(!run("ip -br link").contains("lan0.8"));

        // The last network that uses it takes it along; another program's stays.
        let linux = Linux::new(Life::Long);
        let (front, mut back) = (network(shared.clone()), network(shared.clone()));
        back.name = "back".parse().unwrap();
        linux.up(&front).unwrap();
        linux.up(&back).unwrap();
        linux.remove(&front).unwrap();
        assert!(run("ip -br link").contains("lan0.8"));
        linux.remove(&back).unwrap();
        assert!(!run("ip -br link").contains("lan0.8"));
        run("ip link add link lan0 name lan0.8 up type vlan id 8");
        lives_and_goes(&shared);
        assert!(run("ip -br link").contains("lan0.8"));
    });
}
