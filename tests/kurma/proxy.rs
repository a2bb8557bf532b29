//! Images through a proxy: the plugins' host reaches no server itself.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tests::kurma::Kurma;
use tests::proxy::Proxy;
use tests::registry::{Certificate, Registry};
use tests::{Output, PluginImage, Plugins};

use crate::U;

/// Names that only the proxy knows.
const REGISTRY: &str = "docker://registry.example.test/user/spy:1";
const PAGE: &str = "http://images.example.test/spy.aci";

/// A host, servers that it cannot reach, and the proxy at its port 3128 that can.
struct Outside {
    kurma: Kurma,
    proxy: Proxy,
    _servers: [Registry; 2],
}

impl Outside {
    #[track_caller]
    fn new(login: Option<(&str, &str)>) -> Self {
        let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({"aci": PAGE}))]));
        kurma.configure("insecure = [\"images.example.test\"]");
        let certificate = Certificate::of(&["registry.example.test"]);
        certificate.write(&kurma.world.path("/etc/outside.pem"));
        let servers = [Registry::secure(&certificate), Registry::start()];
        push(&kurma, &servers[0]);
        let image = fs::read(kurma.world.path("/images/spy.aci")).unwrap();
        servers[1].serve("/spy.aci", &image);
        let ways = [
            ("registry.example.test:443", servers[0].address()),
            ("images.example.test:80", servers[1].address()),
        ];
        let proxy = Proxy::inside(&netns(&kurma), 3128, &ways, login);
        Self { kurma, proxy, _servers: servers }
    }

    /// How `spoke kurma ARGUMENTS` ends with these variables in its environment.
    fn run(&self, variables: &str, arguments: &str) -> Output {
        let spoke = format!("{}/spoke kurma {arguments}", Plugins::MOUNT);
        self.kurma.world.try_sh(&format!("env SSL_CERT_FILE=/etc/outside.pem {variables} {spoke}"))
    }

    /// That an image comes, and for whom the proxy was asked.
    #[track_caller]
    fn comes(&self, variables: &str, image: &str) -> Vec<String> {
        let done = self.run(variables, &format!("pull {image}"));
        assert_eq!(done.status, 0, "{variables} {image}: {}", done.stderr);
        let mut asked = self.proxy.take();
        asked.dedup();
        asked
    }

    /// That none comes, and the proxy is not asked; what is said.
    #[track_caller]
    fn is_missing(&self, variables: &str, image: &str) -> String {
        let done = self.run(variables, &format!("pull {image}"));
        assert_ne!(done.status, 0, "{variables} {image}: {}", done.stdout);
        assert_eq!(self.proxy.take(), [""; 0], "{variables} {image}");
        done.stderr
    }
}

fn netns(kurma: &Kurma) -> PathBuf {
    PathBuf::from(format!("/proc/{}/ns/net", kurma.world.pid()))
}

/// The spy as an OCI image, `user/spy:1`.
#[track_caller]
fn push(kurma: &Kurma, registry: &Registry) {
    let rootfs = "tar -cf $target -C rootfs .";
    PluginImage::spy().write_as(&kurma.world, "/images/spy.tar", rootfs);
    let layer = fs::read(kurma.world.path("/images/spy.tar")).unwrap();
    let layer = (registry.add_blob(&layer), layer.len());
    let config = json!({"architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": ["/main"]},
        "rootfs": {"type": "layers", "diff_ids": [&layer.0]}})
    .to_string();
    let config = (registry.add_blob(config.as_bytes()), config.len());
    let part = |kind: &str, (digest, size): &(String, usize)| {
        json!({"mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": digest, "size": size})
    };
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind,
        "config": part("config.v1+json", &config), "layers": [part("layer.v1.tar", &layer)]});
    registry.add_manifest("user/spy", "1", kind, manifest.to_string().as_bytes());
}

/// Each scheme by its own variable, in either size of letters.
#[test]
fn i04_through_a_proxy() {
    let outside = Outside::new(None);
    let at = "http://127.0.0.1:3128";
    let said = outside.is_missing("", REGISTRY);
    assert!(said.contains("registry.example.test"), "{said}");
    outside.is_missing(&format!("http_proxy={at}"), REGISTRY);
    outside.is_missing(&format!("https_proxy={at}"), PAGE);
    let asked = outside.comes(&format!("HTTPS_PROXY={at}"), REGISTRY);
    assert_eq!(asked, ["registry.example.test:443"]);
    let asked = outside.comes(&format!("http_proxy={at}"), PAGE);
    assert_eq!(asked, ["images.example.test:80"]);
}

/// A pod on it, whose plugin does not get the proxy.
#[test]
fn i04_a_pod_through_a_proxy() {
    let outside = Outside::new(None);
    let kurma = &outside.kurma;
    let done = outside.run("all_proxy=http://127.0.0.1:3128", &format!("provision {U} one"));
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!outside.proxy.take().is_empty());
    for call in kurma.mains().iter().chain(&kurma.calls()) {
        assert!(!call.env.iter().any(|one| one.contains("proxy")), "{call:?}");
    }
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// What cannot be meant is not taken for no proxy at all: the server of the same host is not asked.
#[test]
fn i04_a_proxy_of_another_kind() {
    let outside = Outside::new(None);
    let near = Registry::inside(&netns(&outside.kurma), 5000, None);
    push(&outside.kurma, &near);
    let image = "docker://127.0.0.1:5000/user/spy:1";
    for (proxy, word) in [("socks5://127.0.0.1:3128", "SOCKS5"), ("http://[", "no URL")] {
        let said = outside.is_missing(&format!("all_proxy={proxy}"), image);
        assert!(said.contains(word), "{said}");
    }
    assert!(near.take().is_empty());
}

/// Who is excepted is asked directly.
#[test]
fn i04_past_a_proxy() {
    let outside = Outside::new(None);
    let proxy = "all_proxy=http://127.0.0.1:3128";
    for except in ["images.example.test", ".example.test", "*", "127.0.0.1,example.test"] {
        outside.is_missing(&format!("{proxy} no_proxy='{except}'"), PAGE);
    }
    let near = Registry::inside(&netns(&outside.kurma), 5000, None);
    push(&outside.kurma, &near);
    let image = "docker://127.0.0.1:5000/user/spy:1";
    let asked = outside.comes(&format!("{proxy} NO_PROXY=localhost,127.0.0.0/8"), image);
    assert_eq!(asked, [""; 0]);
    assert!(!near.take().is_empty());
}

/// The password stands in the variable, and in no message.
#[test]
fn i04_a_proxy_with_a_password() {
    let outside = Outside::new(Some(("me", "secret")));
    let with = |word: &str| format!("https_proxy=http://me:{word}@127.0.0.1:3128 SPOKE_LOG=trace");
    let done = outside.run(&with("wrongword"), &format!("pull {REGISTRY}"));
    assert_ne!(done.status, 0);
    assert!(!done.stderr.contains("wrongword"), "{}", done.stderr);
    assert!(done.stderr.contains("through the proxy 127.0.0.1:3128"), "{}", done.stderr);
    outside.proxy.take();
    assert_eq!(outside.comes(&with("secret"), REGISTRY), ["registry.example.test:443"]);
}
