//! X2: a third party's image in the original's manner: shell, jq and the reference plugins.

use serde_json::json;
use tests::PluginImage;
use tests::kurma::Kurma;

use crate::seed::{address, network};
use crate::{U, uuid};

/// The seed's example on that image; iptables is not in it.
#[track_caller]
fn host() -> Kurma {
    let mut network = network("mynet", 10);
    network["aci"] = "file:///images/cni-netplugin.aci".into();
    network["ipMasq"] = false.into();
    let kurma = Kurma::with(&json!([network]), "");
    PluginImage::cni().write(&kurma.world, "/images/cni-netplugin.aci");
    kurma
}

#[test]
fn x2_a_pod_on_the_originals_plugin() {
    let kurma = host();
    let first = kurma.json(&format!("provision {U}"));
    let second = kurma.json(&format!("provision {}", uuid(2)));
    assert_eq!(address(&first, 0), "10.10.0.2", "{first}");
    assert_eq!(address(&second, 0), "10.10.0.3", "{second}");
    kurma.inside(U, "ping -c 1 -W 3 10.10.0.3");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma(&format!("deprovision {}", uuid(2)));
    kurma.is_clean();
}

/// Ours: the plugin's own database of addresses outlives the plugin.
#[test]
fn x2_no_address_twice_after_a_restart() {
    let kurma = host();
    kurma.kurma(&format!("provision {U}"));
    kurma.kurma("down");
    let second = kurma.json(&format!("provision {}", uuid(2)));
    assert_eq!(address(&second, 0), "10.10.0.3", "{second}");
}

/// Its own words reach the user.
#[test]
fn x2_what_it_refuses() {
    let kurma = host();
    let mut network = network("mynet", 10);
    network["aci"] = "file:///images/cni-netplugin.aci".into();
    network["ipMasq"] = false.into();
    network["type"] = "".into();
    kurma.networks(&json!([network]));
    kurma.refused(&format!("provision {U}"), &["mynet", "No CNI plugin specified"]);
    // It refuses its own del, too.
    assert_eq!(kurma.json("pods")[0]["pending"], json!(["mynet"]));
}
