//! Ours: an image that was fetched since a plugin was started, and how it reaches that.

use serde_json::{Value, json};
use tests::kurma::Kurma;
use tests::{Cni, PluginImage, Plugins};

use crate::U;

/// Makes another image at this path, and fetches it.
#[track_caller]
fn update(kurma: &Kurma, image: PluginImage, path: &str, version: &str) -> String {
    let file = format!("rootfs/version-{version}");
    image.file(&file, version).write(&kurma.world, path);
    kurma.json(&format!("pull file://{path}"))["id"].as_str().unwrap().to_owned()
}

fn doctor(kurma: &Kurma) -> String {
    kurma.world.try_sh(&format!("{}/spoke doctor", Plugins::MOUNT)).stdout
}

#[test]
fn an_updated_image_is_reported_and_reaches_a_plugin_by_a_restart() {
    let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({"default": true}))]));
    kurma.kurma(&format!("provision {U} one"));
    let before = kurma.plugin("one");
    assert_eq!(before["pulled"], Value::Null, "{before}");
    let pulled = update(&kurma, PluginImage::spy(), "/images/spy.aci", "2");
    let now = kurma.plugin("one");
    assert_eq!((&now["id"], &now["pid"]), (&before["id"], &before["pid"]));
    assert_eq!(now["pulled"], json!(pulled), "{now}");
    let short = |id: &Value| id.as_str().unwrap().chars().take(19).collect::<String>();
    let reported = format!("running {}, pulled {}", short(&now["id"]), short(&now["pulled"]));
    let table = kurma.kurma("status");
    assert!(table.contains(&reported), "{table}");
    let said = doctor(&kurma);
    assert!(said.contains(&reported) && said.contains("spoke kurma restart one"), "{said}");
    kurma.kurma("restart one");
    let after = kurma.plugin("one");
    assert_eq!((&after["id"], &after["pulled"]), (&json!(pulled), &Value::Null), "{after}");
    assert_ne!(after["pid"], before["pid"]);
    kurma.world.sh(&format!("test -e /proc/{}/root/version-2", after["pid"]));
    assert!(!doctor(&kurma).contains("does not run the image"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// One that cannot be started again is not ended; what is no plugin is reported.
#[test]
fn a_restart_that_cannot_be_done_ends_nothing() {
    let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({}))]));
    kurma.kurma("up one");
    let before = kurma.plugin("one");
    kurma.world.sh("echo broken >/images/spy.aci");
    kurma.refused("restart one", &["spy.aci"]);
    assert_eq!(kurma.plugin("one")["pid"], before["pid"]);
    kurma.refused("restart two", &["two"]);
    kurma.refused("restart image.0a", &["image.0a", "spoke kurma status"]);
    kurma.refused("restart image.../one", &["image.../one"]);
}

/// The container of `spoke-image`, by the name that `status` has for it; its image stays for as long as a
/// file of CNI names it.
#[test]
fn a_container_of_cni_is_named_and_its_image_kept() {
    let path = "/images/cni.aci";
    let kurma = Kurma::with(&json!([]), "");
    PluginImage::cni().write(&kurma.world, path);
    let list = json!({"cniVersion": "1.0.0", "name": "out-of-image", "plugins": [{
        "type": "spoke-image", "image": format!("file://{path}"), "privileged": true,
        "plugin": {"type": "bridge", "bridge": "image0", "ipam": {"type": "host-local",
            "ranges": [[{"subnet": "10.63.0.0/24"}]]}}}]});
    let mut container = Cni::container(&kurma.world, "restarted");
    let answers = container.add(&list);
    assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
    let pulled = update(&kurma, PluginImage::cni(), path, "2");
    let status = kurma.json("status");
    let [plugin] = status.as_array().unwrap().as_slice() else { panic!("{status}") };
    assert_eq!(plugin["pulled"], json!(pulled), "{plugin}");
    let name = plugin["name"].as_str().unwrap();
    assert!(name.starts_with("image."), "{plugin}");
    assert!(doctor(&kurma).contains(&format!("spoke kurma restart {name}")));
    let directory = "/etc/cni/net.d/default";
    kurma.world.sh(&format!("mkdir -p {directory}"));
    std::fs::write(kurma.world.path(&format!("{directory}/1.conflist")), list.to_string()).unwrap();
    assert!(!kurma.kurma("gc").contains(&pulled), "a file of CNI names it");
    kurma.kurma(&format!("restart {name}"));
    assert_eq!(kurma.json("status"), json!([]));
    assert!(container.check(&list).iter().all(tests::Answer::ok));
    assert_eq!(kurma.plugin(name)["id"], json!(pulled));
    assert!(container.del(&list).iter().all(tests::Answer::ok));
    kurma.kurma(&format!("down {name}"));
    assert_eq!(kurma.json("status"), json!([]));
}

/// An image that a file of CNI pins by its digest is named as well, and so is its container.
#[test]
fn a_pinned_image_of_cni_is_kept() {
    let path = "/images/cni.aci";
    let kurma = Kurma::with(&json!([]), "");
    PluginImage::cni().write(&kurma.world, path);
    let digest = kurma.world.sh(&format!("gzip -dcf <{path} | sha512sum"));
    let digest = digest.split(' ').next().unwrap();
    let list = json!({"cniVersion": "1.0.0", "name": "out-of-image", "plugins": [{
        "type": "spoke-image", "image": format!("file://{path}"), "privileged": true,
        "digest": format!("sha512:{digest}"),
        "plugin": {"type": "bridge", "bridge": "image0", "ipam": {"type": "host-local",
            "ranges": [[{"subnet": "10.63.0.0/24"}]]}}}]});
    let container = Cni::container(&kurma.world, "pinned");
    kurma.kurma(&format!("pull file://{path}@sha512:{digest}"));
    let directory = "/etc/cni/net.d";
    kurma.world.sh(&format!("mkdir -p {directory}"));
    std::fs::write(kurma.world.path(&format!("{directory}/1.conflist")), list.to_string()).unwrap();
    assert_eq!(kurma.kurma("gc"), "", "a file of CNI names it");
    kurma.world.sh(&format!("mv {path} /images/away.aci"));
    drop(container);
    assert_eq!(kurma.json("images").as_array().unwrap().len(), 1);
}
