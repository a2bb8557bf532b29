//! Endpoints of a plugin's network apart from sandboxes: its calls are those of libnetwork's API, one by one.

use tests::remote_driver::Manners;

use crate::bed::Bed;

#[test]
fn each_step_is_the_call_of_its_name() {
    let bed = Bed::with_network(Manners::default(), "");
    let made = bed.spoke("endpoint create -p 8080:80 --label tier=db net web");
    assert_eq!(bed.order(), "RequestAddress CreateEndpoint");
    let address = made.split_whitespace().nth(1).unwrap().to_owned();
    let mac = |bed: &Bed| {
        let shown = bed.spoke("endpoint inspect net web");
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown[0]["addresses"][0], address.as_str());
        shown[0]["mac"].clone()
    };
    let first = mac(&bed);
    for sandbox in ["one", "two"] {
        bed.spoke(&format!("endpoint join net web {sandbox}"));
        assert_eq!(bed.order(), "Join ProgramExternalConnectivity EndpointOperInfo");
        assert!(bed.ip(sandbox, "-o address").contains(&address));
        assert_eq!(mac(&bed), first);
        // Again: nothing is asked of the plugin but what it says of itself.
        bed.spoke(&format!("endpoint join net web {sandbox}"));
        assert_eq!(bed.order(), "EndpointOperInfo");
        bed.refused("endpoint rm net web", &["endpoint leave net web"]);
        bed.spoke("endpoint leave net web");
        assert_eq!(bed.order(), "RevokeExternalConnectivity Leave");
        assert!(!bed.ip(sandbox, "-o address").contains(&address));
    }
    bed.spoke("endpoint rm net web");
    assert_eq!(bed.order(), "DeleteEndpoint ReleaseAddress");
    // Both halves at once, and each apart afterwards.
    bed.spoke("network connect net one");
    assert_eq!(
        bed.order(),
        "RequestAddress CreateEndpoint Join ProgramExternalConnectivity EndpointOperInfo"
    );
    bed.spoke("endpoint leave net one");
    assert_eq!(bed.order(), "RevokeExternalConnectivity Leave");
    bed.spoke("endpoint join net one two");
    assert_eq!(bed.order(), "Join ProgramExternalConnectivity EndpointOperInfo");
    bed.spoke("endpoint rm --force net one");
    assert_eq!(bed.order(), "RevokeExternalConnectivity Leave DeleteEndpoint ReleaseAddress");
    bed.spoke("network rm net");
    bed.driver.take();
    bed.is_clean();
}

#[test]
fn a_reboot_makes_it_again_with_its_address() {
    let bed = Bed::with_network(Manners::default(), "");
    let made = bed.spoke("endpoint create net web");
    bed.spoke("network connect net one");
    bed.world.sh("cat /proc/sys/kernel/random/uuid >/world/boot_id
        mount --bind /world/boot_id /proc/sys/kernel/random/boot_id");
    bed.spoke("gc");
    let again = bed.spoke("endpoint ls --format '{{.Container}} {{join .Addresses \",\"}}'");
    assert_eq!(again, made);
    bed.spoke("endpoint join net web two");
    bed.spoke("endpoint rm --force net web");
    bed.spoke("gc");
    bed.spoke("network rm net");
    bed.driver.take();
    bed.is_clean();
}
