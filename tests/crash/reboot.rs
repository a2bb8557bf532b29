//! The whole host dies and comes back: its namespaces and links are gone, its disk is not.

use tests::Cni;

use crate::bed::{Bed, chain, ok, whole, world};

/// Two addresses for containers: a leak of one is felt.
const SMALL: &str = "10.93.0.0/29";

/// Another boot id, everything of the kernel's gone, files of before.
const REBOOT: &str = "
    cat /proc/sys/kernel/random/uuid >/world/boot_id
    mount --bind /world/boot_id /proc/sys/kernel/random/boot_id
    for space in /run/netns/*; do ip netns del ${space##*/}; done
    ip link del crash0
    nft flush ruleset
    find /var/lib/cni -type f -exec touch -d @1000000000 {} +";

#[test]
fn addresses_of_an_earlier_boot_are_free() {
    for mut list in [chain(), whole()] {
        list["plugins"][0]["ipam"] =
            serde_json::json!({"type": "host-local", "subnet": SMALL, "rangeEnd": "10.93.0.2"});
        let world = world();
        let bed = Bed::new(&world, list.clone());
        bed.add(bed.len());
        let mut second = Cni::container(&world, "c2");
        let refused = second.add(&list);
        assert_eq!(refused[0].json().unwrap()["code"], 102, "{refused:?}");
        // A runtime that does not retry calls DEL all the same.
        ok(&second.del(&list));

        world.sh(REBOOT);
        let mut third = Cni::container(&world, "c3");
        ok(&third.add(&list));
        let result = third.result.clone().expect("a result");
        assert_eq!(result["ips"][0]["address"], "10.93.0.2/29", "{result}");
        let shown = world.sh("/opt/cni/bin/spoke ps -o json");
        assert!(!shown.contains("\"c1\""), "a container of another boot: {shown}");
        // DEL of a container of before takes nothing from the one of now.
        bed.del(bed.len(), "a reboot");
        assert_eq!(bed.held(), ["10.93.0.2"], "what is alive is held");
        ok(&third.del(&list));
        assert_eq!(bed.held(), Vec::<String>::new());
    }
}
