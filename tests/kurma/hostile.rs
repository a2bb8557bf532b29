//! Images that ask for more than a network plugin needs, and images that were changed. All ours.

use std::fs;

use serde_json::{Value, json};
use tests::PluginImage;
use tests::kurma::Kurma;

use crate::U;

const ACI: &str = "file:///images/hostile.aci";

/// An OCI image without files whose labels ask for something.
const LAYOUT: &str = r#"mkdir -p /images/layout/blobs/sha256 /images/empty && cd /images/layout
blob() { digest=$(sha256sum <$1 | cut -d' ' -f1) size=$(stat -c %s $1); mv $1 blobs/sha256/$digest; }
tar -cf layer -C /images/empty . && blob layer
layer="{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:$digest\",\"size\":$size}"
cat >config <<END
{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["sha256:$digest"]},
"config":{"Entrypoint":["/main"],"Labels":{"io.spoke.privileged":"true",
"io.spoke.mounts":"spoke-state:/var/lib/spoke"}}}
END
blob config
config="{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size}"
echo "{\"schemaVersion\":2,\"config\":$config,\"layers\":[$layer]}" >manifest && blob manifest
echo '{"imageLayoutVersion":"1.0.0"}' >oci-layout
cat >index.json <<END
{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",
"digest":"sha256:$digest","size":$size}]}
END
"#;

/// The spy with these fields in its `app`.
fn spy(fields: &Value) -> PluginImage {
    let mut app = json!({"exec": ["/main"], "user": "0", "group": "0"});
    for (key, value) in fields.as_object().unwrap() {
        app[key] = value.clone();
    }
    PluginImage::spy().named("krm.test/hostile").with("app", app)
}

fn isolator(name: &str, value: &Value) -> Value {
    json!({"isolators": [{"name": name, "value": value}]})
}

fn mount(name: &str, path: &str) -> Value {
    json!({"mountPoints": [{"name": name, "path": path}]})
}

/// What an image asks for is no right of its own, and the refusal names it.
#[test]
fn an_image_grants_itself_nothing() {
    let modules =
        json!({"set": ["CAP_NET_ADMIN", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_PTRACE"]});
    let retain = "os/linux/capabilities-retain-set";
    let ways = [
        (isolator("os/linux/privileged", &json!(true)), "privileged", "\"privileged\": true"),
        (isolator("host/privileged", &json!(true)), "privileged", "\"privileged\": true"),
        (
            isolator(retain, &modules),
            "CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE",
            "\"grant\": [\"CAP_SYS_MODULE\", \"CAP_SYS_RAWIO\", \"CAP_SYS_PTRACE\"]",
        ),
        (mount("spoke-state", "/srv"), "spoke-state", "\"grant\": [\"spoke-state\"]"),
        (mount("spoke-runtime", "/srv"), "spoke-runtime", "\"grant\": [\"spoke-runtime\"]"),
        (mount("spoke-config", "/srv"), "spoke-config", "\"grant\": [\"spoke-config\"]"),
    ];
    let network = Kurma::spy("n1", &json!({"aci": ACI, "privileged": false}));
    let kurma = Kurma::with(&json!([network]), "");
    for (fields, asked, remedy) in ways {
        spy(&fields).write(&kurma.world, "/images/hostile.aci");
        let asked = format!("image krm.test/hostile asks for {asked},");
        kurma.refused(&format!("provision {U} n1"), &["network \"n1\"", &asked, remedy]);
        assert_eq!(kurma.mains(), [], "{asked} it did not run");
    }
    kurma.world.sh(LAYOUT);
    kurma.networks(&json!([{"name": "n1", "aci": "oci:/images/layout"}]));
    let asked = "asks for privileged, spoke-state,";
    kurma.refused(&format!("provision {U} n1"), &[asked, "\"privileged\": true"]);
    kurma.is_clean();
}

/// Item by item, and not what decides which programs run.
#[test]
fn what_is_granted_is_had_but_no_image_and_no_container() {
    let asked = json!({
        "isolators": [{"name": "os/linux/capabilities-retain-set",
            "value": {"set": ["CAP_SYS_ADMIN", "CAP_SYS_MODULE"]}}],
        "mountPoints": [{"name": "spoke-state", "path": "/srv"}, {"name": "spoke-runtime", "path": "/run/spoke"}],
    });
    let granted = json!({"aci": ACI, "grant": ["spoke-state", "spoke-runtime", "CAP_SYS_MODULE"]});
    let kurma = Kurma::with(&json!([Kurma::spy("n1", &granted)]), "");
    spy(&asked).write(&kurma.world, "/images/hostile.aci");
    let look = "echo ours >/srv/seen; echo evil >/srv/images/evil; echo evil >/run/spoke/kurma/evil
        echo images: $(ls /srv/images /var/lib/spoke/images /run/spoke/kurma); exit 1";
    kurma.instruct("n1", "add", look);
    let seen = "images: /run/spoke/kurma: evil /srv/images: evil /var/lib/spoke/images:";
    kurma.refused(&format!("provision {U} n1"), &[seen]);
    let main = &kurma.mains()[0];
    assert_eq!(u64::from_str_radix(main.field("CapBnd"), 16).unwrap(), 1 << 21 | 1 << 16);
    kurma.world.sh("test $(cat /var/lib/spoke/seen) = ours");
    kurma.world.sh("test ! -e /var/lib/spoke/images/evil && test ! -e /run/spoke/kurma/evil");
    // Nor by a mount that the operator's file names.
    let whole = json!({"host": "/var/lib", "container": "/host"});
    let inner = json!({"host": "/var/lib/spoke/images/layers", "container": "/host"});
    let network = |mount: Value| {
        let spy = Kurma::spy("n1", &granted);
        let mounts = json!([spy["mounts"][0], mount]);
        Kurma::spy("n1", &json!({"aci": ACI, "grant": granted["grant"], "mounts": mounts}))
    };
    kurma.networks(&json!([network(whole)]));
    kurma.instruct(
        "n1",
        "add",
        "echo images: $(ls /host/spoke/images) $(cat /host/spoke/seen); exit 1",
    );
    kurma.refused(&format!("provision {U} n1"), &["images: ours"]);
    kurma.networks(&json!([network(inner)]));
    kurma
        .refused(&format!("provision {U} n1"), &["/var/lib/spoke/images/layers cannot be mounted"]);
}

/// A pinned image stays what was pinned.
#[test]
fn a_changed_image_does_not_run() {
    let kurma = Kurma::new(&json!([Kurma::spy("n1", &json!({}))]));
    kurma.kurma(&format!("provision {U} n1"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma("down");
    let layers = kurma.world.path("/var/lib/spoke/images/layers");
    let layer = fs::read_dir(&layers).unwrap().next().unwrap().unwrap().path();
    let program = layer.join("opt/network/add");
    let before = fs::read(&program).unwrap();
    fs::write(&program, "#!/bin/sh\necho evil >&2; exit 7\n").unwrap();
    kurma.refused(
        &format!("provision {U} n1"),
        &["was changed after it was unpacked", "spoke kurma pull file:///images/spy.aci"],
    );
    kurma.kurma("pull file:///images/spy.aci");
    assert_eq!(fs::read(&program).unwrap(), before);
    kurma.kurma(&format!("provision {U} n1"));
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order(), ["add n1", "del n1", "add n1", "del n1"]);
    kurma.is_clean();
}
