//! X3: unmodified runtimes whose CNI plugin comes out of an image, or which join what was
//! provisioned.

use serde_json::{Value, json};
use tests::kurma::Kurma;
use tests::{Cgroup, Cni, PluginImage, Podman};

use crate::U;
use crate::seed::{network, ours};

/// A network for any CNI runtime, whose plugin is the reference's in an image.
pub(crate) fn list(image: &str, masquerade: bool) -> Value {
    json!({"cniVersion": "1.0.0", "name": "out-of-image", "plugins": [{
        "type": "spoke-image", "image": image, "privileged": true,
        "plugin": {"type": "bridge", "bridge": "image0", "isGateway": true,
            "ipMasq": masquerade, "ipam": {"type": "host-local",
            "ranges": [[{"subnet": "10.63.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}}]})
}

/// A host with both images, the reference's and ours.
#[track_caller]
pub(crate) fn host() -> Kurma {
    let kurma = ours(&json!([network("net", 10)]));
    PluginImage::cni().write(&kurma.world, "/images/cni-netplugin.aci");
    kurma
}

pub(crate) fn images() -> [&'static str; 2] {
    ["file:///images/cni-netplugin.aci", "file:///images/spoke.aci"]
}

/// The image cannot be had: ADD fails, and the DEL that a runtime makes then must not fail for ever.
#[test]
fn x3_del_after_an_add_that_never_had_its_image() {
    let kurma = Kurma::new(&json!([]));
    PluginImage::cni().write(&kurma.world, "/images/cni-netplugin.aci");
    let list = list("file:///images/nosuch.aci", false);
    let mut pod = Cni::container(&kurma.world, "one");
    let added = pod.add(&list);
    assert!(!added.iter().any(tests::Answer::ok), "{added:?}");
    assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    for _ in 0..2 {
        let answers = pod.del(&list);
        assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
    }
    assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    // What a plugin did is not undone without it.
    let image = "/images/cni-netplugin.aci";
    let list = self::list(&format!("file://{image}"), false);
    assert!(pod.add(&list).iter().all(tests::Answer::ok));
    kurma.world.sh(&format!("mv {image} /images/away.aci; rm -r /var/lib/spoke/images"));
    kurma.kurma("down");
    let answers = pod.del(&list);
    assert!(!answers.iter().any(tests::Answer::ok), "{answers:?}");
    // Nor where the list names an image meanwhile that never ran, or the record is damaged.
    let changed = self::list("file:///images/nosuch.aci", false);
    kurma.world.sh("for it in /run/spoke/kurma/plugins/*/state.json; do echo '{' >$it; done");
    for list in [&changed, &list] {
        let answers = pod.del(list);
        assert!(!answers.iter().any(tests::Answer::ok), "{answers:?}");
        assert_ne!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    }
    kurma.world.sh(&format!("mv /images/away.aci {image}"));
    let answers = pod.del(&list);
    assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
    assert_eq!(kurma.world.sh("ip -o link show type veth"), "");
}

/// As the protocol says it, with the plugin of each image.
#[test]
fn x3_cni_out_of_an_image() {
    for image in images() {
        let kurma = host();
        let list = list(image, false);
        let mut pods = ["one", "two"].map(|name| Cni::container(&kurma.world, name));
        for pod in &mut pods {
            let answers = pod.add(&list);
            assert!(answers.iter().all(tests::Answer::ok), "{image}: {answers:?}");
        }
        let result = pods[0].result.clone().unwrap();
        assert_eq!(result["ips"][0]["address"], "10.63.0.2/24", "{result}");
        let inner = result["interfaces"].as_array().unwrap().iter();
        let inner: Vec<_> = inner.filter(|it| it["sandbox"].is_string()).collect();
        assert_eq!(inner[0]["sandbox"], "/run/netns/one", "the caller's own name: {result}");
        kurma.world.sh("ip netns exec one busybox ping -c 1 -W 3 10.63.0.3");
        for pod in &pods {
            assert!(pod.check(&list).iter().all(tests::Answer::ok), "{image}");
            let answers = pod.del(&list);
            assert!(answers.iter().all(tests::Answer::ok), "{image}: {answers:?}");
            // A second time is no failure.
            assert!(pod.del(&list).iter().all(tests::Answer::ok), "{image}");
        }
        assert_eq!(kurma.world.sh("ip -o link show type veth"), "");
        assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    }
}

/// A namespace that is gone is no reason to keep anything.
#[test]
fn x3_cni_without_its_namespace() {
    for image in images() {
        let kurma = host();
        let list = list(image, false);
        let mut pod = Cni::new(&kurma.world);
        assert!(pod.add(&list).iter().all(tests::Answer::ok));
        kurma.world.sh("ip netns del c1");
        let answers = pod.del(&list);
        assert!(answers.iter().all(tests::Answer::ok), "{image}: {answers:?}");
        assert_eq!(kurma.world.sh("ip -o link show type veth"), "", "{image}");
        assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    }
}

/// What the plugin says of a mistake is what the runtime hears, as the protocol has it.
#[test]
fn x3_cni_refusals_are_the_plugins_own() {
    let kurma = host();
    let mut list = list(images()[0], false);
    list["plugins"][0]["plugin"]["ipam"]["ranges"] = json!([[{"subnet": "nonsense"}]]);
    let answers = Cni::new(&kurma.world).add(&list);
    let said = answers[0].json().unwrap_or_default();
    assert!(!answers[0].ok() && said["code"].is_number(), "{answers:?}");
    assert!(said["msg"].as_str().unwrap_or_default().contains("nonsense"), "{said}");
    list["plugins"][0]["plugin"] = json!({"type": "../../bin/sh"});
    let answers = Cni::container(&kurma.world, "c2").add(&list);
    assert!(!answers[0].ok(), "{answers:?}");
    list["plugins"][0]["plugin"] = json!({"type": "nosuch"});
    let answers = Cni::container(&kurma.world, "c3").add(&list);
    assert!(answers[0].output.stdout.contains("nosuch"), "{answers:?}");
}

/// X3: Podman 4.3.1, which knows nothing of images of plugins.
#[test]
fn x3_podman_with_a_plugin_out_of_an_image() {
    for image in images() {
        let kurma = host();
        Podman::set_up(&kurma.world);
        let cgroup = Cgroup::new();
        let list = list(image, false);
        let world = &kurma.world;
        world.sh(&format!("cat >/run/stage/net.d/net.conflist <<'CNI'\n{list}\nCNI"));
        let options = format!("--cgroup-parent /{} --network out-of-image", cgroup.name());
        let image = Podman::IMAGE;
        Podman::run(world, &format!("run -d --name server {options} {image} httpd -f -h /www"));
        let fetch = "busybox wget -q -O - http://10.63.0.2/";
        let page = Podman::run(world, &format!("run --rm {options} {image} {}", in_image(fetch)));
        assert_eq!(page.trim(), "a page");
        Podman::run(world, "rm -f -t 0 server");
        assert_eq!(world.sh("ip -o link show type veth"), "");
        assert_eq!(world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    }
}

/// The image of containers has busybox at a place that is in no `PATH`.
fn in_image(command: &str) -> String {
    format!("/bin/{command}")
}

/// What was provisioned is any runtime's: Podman joins it by its path.
#[test]
fn podman_joins_a_provisioned_namespace() {
    let kurma = ours(&json!([network("net", 10)]));
    Podman::set_up(&kurma.world);
    let cgroup = Cgroup::new();
    let netns = kurma.kurma(&format!("provision {U}"));
    let netns = netns.lines().next().unwrap();
    let options = format!("--cgroup-parent /{} --network ns:{netns}", cgroup.name());
    let server = format!("run -d --name server {options} {} httpd -f -h /www", Podman::IMAGE);
    Podman::run(&kurma.world, &server);
    let page = kurma.world.sh("busybox wget -q -O - http://10.10.0.2/");
    assert_eq!(page.trim(), "a page");
    Podman::run(&kurma.world, "rm -f -t 0 server");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}
