//! I4: images that a real client has pushed to a registry.

use std::path::PathBuf;

use serde_json::json;
use tests::kurma::Kurma;
use tests::registry::{Fault, Login, Registry};
use tests::{PluginImage, Podman};

use crate::U;

/// A host with a registry at its port 5000, to which Podman has pushed the spy, as `user/spy:1` and
/// `user/spy:latest`.
#[track_caller]
fn pushed() -> (Kurma, Registry) {
    let kurma = Kurma::new(&json!([]));
    let netns = PathBuf::from(format!("/proc/{}/ns/net", kurma.world.pid()));
    let registry = Registry::inside(&netns, 5000, None);
    let rootfs = "tar -cf $target -C rootfs .";
    PluginImage::spy().write_as(&kurma.world, "/images/spy.tar", rootfs);
    Podman::set_up(&kurma.world);
    let entry = "-c 'ENTRYPOINT [\"/main\"]' -c 'ENV SPY=of the image'";
    Podman::run(&kurma.world, &format!("import -q {entry} /images/spy.tar localhost/spy:1"));
    for tag in ["1", "latest"] {
        let to = format!("docker://127.0.0.1:5000/user/spy:{tag}");
        Podman::run(&kurma.world, &format!("push -q --tls-verify=false localhost/spy:1 {to}"));
    }
    registry.take();
    (kurma, registry)
}

#[test]
fn i04_both_ways_to_write_it() {
    let (kurma, registry) = pushed();
    let first = kurma.json("pull docker://127.0.0.1:5000/user/spy:1");
    assert!(!registry.take().is_empty());
    for same in ["docker:///127.0.0.1:5000/user/spy:1", "docker://127.0.0.1:5000/user/spy"] {
        assert_eq!(kurma.json(&format!("pull {same}"))["id"], first["id"], "{same}");
    }
    kurma.refused("pull docker://127.0.0.1:5000/user/nosuch", &["user/nosuch"]);
}

/// A pod on it, and once it is there the registry is not asked again.
#[test]
fn i04_a_pod_on_an_image_of_a_registry() {
    let (kurma, registry) = pushed();
    let locator = "docker:///127.0.0.1:5000/user/spy:1";
    kurma.networks(&json!([Kurma::spy("one", &json!({"aci": locator}))]));
    kurma.kurma(&format!("provision {U} one"));
    let [main] = &kurma.mains()[..] else { panic!("one start") };
    assert!(main.env.contains(&"SPY=of the image".to_owned()), "{main:?}");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma("down");
    drop(registry);
    kurma.kurma(&format!("provision {U} one"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// Layers that a real client has compressed with zstd, also in the form that can be fetched in parts.
#[test]
fn i04_layers_of_zstd() {
    let (kurma, _registry) = pushed();
    for way in ["zstd", "zstd:chunked"] {
        let name = way.replace(':', "-");
        // Podman does not compress again what the registry has in another way.
        let rootfs = format!("echo {way} >rootfs/way; tar -cf $target -C rootfs .");
        PluginImage::spy().write_as(&kurma.world, "/images/way.tar", &rootfs);
        let entry = "-c 'ENTRYPOINT [\"/main\"]'";
        Podman::run(&kurma.world, &format!("import -q {entry} /images/way.tar localhost/{name}:1"));
        let at = format!("127.0.0.1:5000/user/{name}:1");
        let how = format!("-q --tls-verify=false --compression-format {way}");
        Podman::run(&kurma.world, &format!("push {how} localhost/{name}:1 docker://{at}"));
        let manifest = format!("http://127.0.0.1:5000/v2/user/{name}/manifests/1");
        let kinds = "Accept: application/vnd.oci.image.manifest.v1+json";
        let manifest =
            kurma.world.sh(&format!("busybox wget -q -O - --header '{kinds}' {manifest}"));
        assert!(manifest.contains("layer.v1.tar+zstd"), "{way}: {manifest}");
        let locator = format!("docker://{at}");
        kurma.networks(&json!([Kurma::spy("one", &json!({"aci": locator}))]));
        kurma.instruct("one", "add", "cat /way >&2; exit 1");
        kurma.refused(&format!("provision {U} one"), &[way]);
        kurma.forget("one", "add");
        kurma.kurma(&format!("provision {U} one"));
        kurma.kurma(&format!("deprovision {U}"));
        kurma.kurma("down");
    }
}

/// Neither other bytes nor fewer are taken for what was asked for.
#[test]
fn i04_what_goes_wrong_on_the_way() {
    for fault in [Fault::Body(b"other bytes".to_vec()), Fault::Truncate(100), Fault::Cut] {
        let (kurma, registry) = pushed();
        registry.fail("/v2/user/spy/blobs/", usize::MAX, fault);
        kurma.refused("pull docker://127.0.0.1:5000/user/spy:1", &["user/spy"]);
        assert_eq!(kurma.json("images"), json!([]));
    }
}

#[test]
fn i04_who_may_ask() {
    let (kurma, registry) = pushed();
    registry.require(Login::Bearer(Some(("me".into(), "secret".into()))));
    let pull = "pull docker://127.0.0.1:5000/user/spy:1";
    kurma.refused(pull, &["127.0.0.1:5000"]);
    let auth = json!({"auths": {"127.0.0.1:5000": {"auth": "bWU6c2VjcmV0"}}});
    kurma.world.sh(&format!("echo '{auth}' >/etc/kurma/auth.json"));
    kurma.configure("auth = \"/etc/kurma/auth.json\"");
    let said = kurma.try_kurma(pull);
    assert_eq!(said.status, 0, "{said:?}");
    assert!(!said.stdout.contains("secret") && !said.stderr.contains("secret"));
}
