//! I1 to I12: where images come from, and what is refused of them.

use serde_json::json;
use tests::PluginImage;
use tests::kurma::Kurma;

use crate::U;

/// A host without networks and with more in its section `[kurma]`.
#[track_caller]
fn host(more: &str) -> Kurma {
    Kurma::with(&json!([]), more)
}

/// A host whose port 80 serves the folder `/www`, also as `krm.test`.
#[track_caller]
fn served(more: &str) -> Kurma {
    let kurma = host(more);
    kurma.world.sh("mkdir -p /www && busybox httpd -p 80 -h /www
        cp /etc/hosts /run/hosts && rm /etc/hosts && cp /run/hosts /etc/hosts
        echo '127.0.0.1 krm.test' >>/etc/hosts");
    kurma
}

#[test]
fn i01_files() {
    let kurma = host("");
    let image = PluginImage::spy();
    image.write(&kurma.world, "/images/spy.aci");
    let id = kurma.json("pull file:///images/spy.aci");
    assert_eq!(id["name"], "krm.test/spy");
    assert_eq!(id["locator"], "file:///images/spy.aci");
    assert!(id["id"].as_str().unwrap().starts_with("sha512-"), "{id}");
    assert_eq!(kurma.json("pull file:/images/spy.aci")["id"], id["id"]);
    // M4: relative to where the program is.
    let said = kurma.world.sh("cd /images && /opt/cni/bin/spoke kurma pull file://spy.aci");
    assert!(said.contains(id["id"].as_str().unwrap()), "{said}");
    kurma.refused("pull file:///images/nosuch.aci", &["/images/nosuch.aci"]);
    let images = kurma.json("images");
    assert_eq!(
        images.as_array().map(Vec::len),
        Some(1),
        "one image, however it is called: {images}"
    );
}

#[test]
fn i02_http() {
    let kurma = served("");
    PluginImage::spy().write(&kurma.world, "/www/spy.aci");
    assert_eq!(kurma.json("pull http://127.0.0.1/spy.aci")["name"], "krm.test/spy");
    kurma.refused("pull http://127.0.0.1/nosuch.aci", &["404", "http://127.0.0.1/nosuch.aci"]);
    kurma.refused("pull http://127.0.0.1:1/spy.aci", &["127.0.0.1:1"]);
}

/// What has been pulled is there without the network.
#[test]
fn i02_once_is_enough() {
    let network = Kurma::spy("one", &json!({"aci": "http://127.0.0.1/spy.aci"}));
    let kurma = served("");
    kurma.networks(&json!([network]));
    PluginImage::spy().write(&kurma.world, "/www/spy.aci");
    kurma.kurma("pull http://127.0.0.1/spy.aci");
    kurma.world.sh("ip link set lo down");
    kurma.kurma(&format!("provision {U} one"));
    assert_eq!(kurma.order(), ["add one"]);
}

/// The parents are asked, and the template is filled.
#[test]
fn i03_discovery() {
    let kurma = served("insecure = [\"krm.test\"]");
    let meta = "<html><head><meta name=\"ac-discovery\" content=\"krm.test \
                http://krm.test/d/{name}-{version}-{os}-{arch}.{ext}\"></head></html>";
    // A web server has no file for `/sub/spy`: that is a 404, and its parent is asked.
    kurma.world.sh(&format!("echo '{meta}' >/www/index.html"));
    let spy = PluginImage::spy().named("krm.test/sub/spy");
    spy.write(&kurma.world, "/www/d/krm.test/sub/spy-latest-linux-amd64.aci");
    let pulled = kurma.json("pull krm.test/sub/spy");
    assert_eq!(pulled["name"], "krm.test/sub/spy");
    let labels = json!([{"name": "os", "value": "linux"}, {"name": "arch", "value": "amd64"},
        {"name": "version", "value": "2.0"}]);
    let second = "/www/d/krm.test/sub/spy-2.0-linux-amd64.aci";
    // One that says another version is not it, either.
    spy.write(&kurma.world, second);
    kurma.refused("pull krm.test/sub/spy:2.0", &["2.0", "1.0.0"]);
    spy.with("labels", labels).write(&kurma.world, second);
    let second = kurma.json("pull krm.test/sub/spy:2.0");
    assert_ne!(second["id"], pulled["id"]);
    // M10: an image of another name is not what was asked for.
    PluginImage::spy()
        .named("evil.test/spy")
        .write(&kurma.world, "/www/d/krm.test/other-latest-linux-amd64.aci");
    kurma.refused("pull krm.test/other", &["krm.test/other", "evil.test/spy"]);
}

#[test]
fn i05_what_is_no_locator() {
    let kurma = host("");
    kurma.refused("pull gopher://krm.test/x", &["gopher", "not supported"]);
    kurma.refused("pull /tmp/x.aci", &["/tmp/x.aci"]);
    kurma.refused("pull ''", &[]);
    assert_eq!(kurma.json("images"), json!([]));
}

#[test]
fn i06_compressions_and_both_ways_to_write_names() {
    let kurma = host("");
    let spy = PluginImage::spy();
    let ways = [
        ("plain", "tar -cf $target manifest rootfs"),
        ("gz", "tar --gzip -cf $target manifest rootfs"),
        ("xz", "tar --xz -cf $target manifest rootfs"),
        ("dotted", "tar -cf $target ./manifest ./rootfs"),
        ("old", "tar --format=v7 -cf $target manifest rootfs"),
        ("ustar", "tar --format=ustar -cf $target manifest rootfs"),
        ("pax", "tar --format=pax -cf $target manifest rootfs"),
    ];
    for (name, way) in ways {
        spy.write_as(&kurma.world, &format!("/images/{name}"), way);
        let pulled = kurma.json(&format!("pull file:///images/{name}"));
        assert_eq!(pulled["name"], "krm.test/spy", "{name}");
    }
}

/// Another network plugin can be put into our image, if it can run there.
#[test]
fn what_is_put_into_our_image_must_run_there() {
    let kurma = host("");
    // Debian's plugins need the C library.
    kurma.world.sh("cp /usr/bin/true /images/dynamic; cp /bin/busybox /images/static
        printf '#!/bin/sh\\n' >/images/script; chmod +x /images/script");
    let build = "build-image --layout /images/made --with";
    kurma.refused(
        &format!("{build} /images/dynamic"),
        &["/images/dynamic", "static", "CGO_ENABLED=0"],
    );
    kurma.refused(&format!("{build} /images/script"), &["/images/script", "/bin/sh"]);
    assert_eq!(kurma.world.sh("ls -d /images/made* || true"), "");
    kurma.kurma(&format!("{build} /images/static"));
}

/// A byte order mark is passed over where Kurma did, and named where Go's programs refuse it.
#[test]
fn byte_order_marks() {
    let kurma = Kurma::new(&json!([]));
    let networks = json!({"pod_networks": [Kurma::spy("one", &json!({}))]});
    kurma.networks_text(&format!("\u{feff}{networks}"));
    kurma.kurma(&format!("provision {U} one"));
    kurma.kurma(&format!("deprovision {U}"));
    let mark = "printf '\\357\\273\\277'";
    PluginImage::spy().write_as(
        &kurma.world,
        "/images/marked",
        &format!("({mark}; cat manifest) >m; mv m manifest; tar -cf $target manifest rootfs"),
    );
    kurma.refused("pull file:///images/marked", &["byte order mark"]);
    let list = r#"{"cniVersion":"1.0.0","name":"m","plugins":[{"type":"loopback"}]}"#;
    let said = kurma.world.try_sh(&format!(
        "mkdir -p /etc/cni/net.d; ({mark}; echo '{list}') >/etc/cni/net.d/m.conflist
         /opt/cni/bin/spoke cni add m /proc/self/ns/net"
    ));
    assert!(said.status != 0 && said.stderr.contains("byte order mark"), "{said:?}");
    let said = kurma.world.try_sh(&format!(
        "({mark}; echo '{{\"cniVersion\":\"1.0.0\",\"name\":\"m\",\"type\":\"loopback\"}}') | \
         CNI_COMMAND=ADD CNI_CONTAINERID=x CNI_NETNS=/proc/self/ns/net CNI_IFNAME=lo CNI_PATH=/opt/cni/bin \
         /opt/cni/bin/loopback"
    ));
    assert!(said.status != 0 && said.stdout.contains("invalid character 'ï'"), "{said:?}");
}

#[test]
fn i07_broken_images_are_refused_and_leave_nothing() {
    let kurma = host("");
    let spy = PluginImage::spy();
    let ways = [
        ("stray", "touch stray; tar -cf $target manifest rootfs stray"),
        ("no-manifest", "tar -cf $target rootfs"),
        ("no-rootfs", "tar -cf $target manifest"),
        ("twice", "tar -cf $target manifest rootfs; tar -rf $target manifest"),
        (
            "up",
            "touch x; tar -P --transform='s,^x$,rootfs/../../../escaped,' -cf $target manifest rootfs x",
        ),
        ("absolute", "touch x; tar -P --transform='s,^x$,/escaped,' -cf $target manifest rootfs x"),
        (
            "through-link",
            "ln -s / rootfs/out; tar -cf $target manifest rootfs; rm rootfs/out; \
            mkdir rootfs/out; touch rootfs/out/escaped; tar -rf $target rootfs/out/escaped",
        ),
        (
            "hard-link",
            "touch rootfs/a; ln rootfs/a rootfs/b; \
             tar -P --transform='s,^rootfs/[ab]$,/etc/passwd,hRS' -cf $target manifest rootfs",
        ),
        ("device", "mknod rootfs/escaped b 8 0; tar -cf $target manifest rootfs"),
        ("cut", "tar --gzip -cf x manifest rootfs; head -c 20000 x >$target"),
        ("not-json", "echo '{' >manifest; tar -cf $target manifest rootfs"),
        (
            "kind",
            "echo '{\"acKind\": \"PodManifest\", \"acVersion\": \"0.7.4\", \"name\": \"x\"}' \
            >manifest; tar -cf $target manifest rootfs",
        ),
        ("empty", ": >$target"),
        ("noise", "head -c 100000 /dev/urandom >$target"),
    ];
    for (name, way) in ways {
        spy.write_as(&kurma.world, &format!("/images/{name}"), way);
        let done = kurma.try_kurma(&format!("pull file:///images/{name}"));
        assert_ne!(done.status, 0, "{name}: {done:?}");
        assert!(done.stderr.contains(name), "{name}: {done:?}");
    }
    let escaped = "ls -d /escaped* 2>/dev/null; find /var/lib/spoke /etc /images -name 'escaped*'";
    assert_eq!(kurma.world.try_sh(escaped).stdout, "");
    assert_eq!(kurma.json("images"), json!([]));
    assert_eq!(kurma.world.sh("find /var/lib/spoke/images -name rootfs 2>/dev/null || true"), "");
}

/// I8: dependencies come with the image.
#[test]
fn i08_dependencies_are_fetched() {
    let kurma = served("insecure = [\"krm.test\"]");
    let meta = "<meta name=\"ac-discovery\" content=\"krm.test \
                http://krm.test/d/{name}-{version}-{os}-{arch}.{ext}\">";
    kurma.world.sh(&format!("echo '{meta}' >/www/index.html"));
    let base =
        PluginImage::busybox("krm.test/base").and("echo base >rootfs/who; echo base >rootfs/base");
    base.write(&kurma.world, "/www/d/krm.test/base-latest-linux-amd64.aci");
    PluginImage::spy()
        .with("dependencies", json!([{"imageName": "krm.test/base"}]))
        .and("rm -r rootfs/bin; echo spy >rootfs/who")
        .write(&kurma.world, "/images/spy.aci");
    kurma.networks(&json!([Kurma::spy("one", &json!({}))]));
    kurma.instruct("one", "add", "cat /who /base >&2; exit 1");
    kurma.refused(&format!("provision {U} one"), &["spy base"]);
}

/// I8: 1 needs 2 and 6, 2 needs 3 and 4, and both of these need 5. Everyone lies over what it needs,
/// and who is named first over who is named later, whatever else needs them: 1, 2, 3, 5, 4, 6.
#[test]
fn i08_the_order_of_nested_dependencies() {
    let kurma = served("insecure = [\"krm.test\"]");
    let meta = "<meta name=\"ac-discovery\" content=\"krm.test \
                http://krm.test/d/{name}-{version}-{os}-{arch}.{ext}\">";
    kurma.world.sh(&format!("echo '{meta}' >/www/index.html"));
    // Each two have a file that only they have: whose it is tells who lies over whom.
    let between = |one: &'static str, other: &'static str| {
        let pair = if one < other { [one, other] } else { [other, one] };
        pair.join("-")
    };
    let images: [(&str, &[&str]); 6] = [
        ("1", &["2", "6"]),
        ("2", &["3", "4"]),
        ("3", &["5"]),
        ("4", &["5"]),
        ("5", &[]),
        ("6", &[]),
    ];
    for (name, below) in images {
        let others = images.iter().filter(|(other, _)| *other != name);
        let write =
            others.map(|(other, _)| format!("echo {name} >rootfs/files/{}", between(name, other)));
        let write = write.collect::<Vec<_>>().join("\n");
        // The programs are of the lowest alone.
        let programs = if name == "6" { "" } else { "rm -r rootfs/bin" };
        let needs = below.iter().map(|name| json!({"imageName": format!("krm.test/n{name}")}));
        let (image, place) = match name {
            "1" => (PluginImage::spy(), "/images/spy.aci".to_owned()),
            _ => (
                PluginImage::busybox(&format!("krm.test/n{name}")),
                format!("/www/d/krm.test/n{name}-latest-linux-amd64.aci"),
            ),
        };
        image
            .with("dependencies", needs.collect())
            .and(&format!("mkdir rootfs/files\n{write}\n{programs}"))
            .write(&kurma.world, &place);
    }
    kurma.networks(&json!([Kurma::spy("one", &json!({}))]));
    let order = ["1", "2", "3", "5", "4", "6"];
    let pairs =
        (0..order.len()).flat_map(|at| order[at + 1..].iter().map(move |low| (order[at], *low)));
    let pairs: Vec<_> = pairs.collect();
    let files: Vec<_> = pairs.iter().map(|(high, low)| between(high, low)).collect();
    let highest: Vec<_> = pairs.iter().map(|(high, _)| *high).collect();
    kurma.instruct("one", "add", &format!("cd /files && cat {} >&2; exit 1", files.join(" ")));
    kurma.refused(&format!("provision {U} one"), &[&highest.join(" ")]);
}

/// I9: signed by a key that the host trusts for the name, or not at all.
#[test]
fn i09_signatures() {
    let kurma = host("keys = [{prefix = \"krm.test/\", files = [\"/etc/kurma/key.asc\"]}]");
    kurma.world.sh("export GNUPGHOME=/world/gpg; mkdir -m 700 $GNUPGHOME
        gpg='gpg --batch --quiet --pinentry-mode loopback --passphrase= '
        for user in good bad; do $gpg --quick-generate-key $user@krm.test rsa2048 sign never; done
        gpg --armor --export good@krm.test >/etc/kurma/key.asc");
    let sign = |user: &str, file: &str| {
        kurma.world.sh(&format!(
            "export GNUPGHOME=/world/gpg; rm -f {file}.asc; gpg --batch --quiet --pinentry-mode \
             loopback --passphrase= --armor --local-user {user}@krm.test --detach-sign {file}"
        ));
    };
    for name in ["none", "bad", "changed", "good"] {
        PluginImage::spy().write(&kurma.world, &format!("/images/{name}.aci"));
    }
    sign("bad", "/images/bad.aci");
    sign("good", "/images/good.aci");
    sign("good", "/images/changed.aci");
    PluginImage::spy().and("touch rootfs/x").write(&kurma.world, "/images/changed.aci");
    for name in ["none", "bad", "changed"] {
        kurma.refused(&format!("pull file:///images/{name}.aci"), &[name]);
    }
    assert_eq!(kurma.json("images"), json!([]));
    kurma.kurma("pull file:///images/good.aci");
    // No key is for another name.
    PluginImage::spy().named("other.test/spy").write(&kurma.world, "/images/other.aci");
    kurma.kurma("pull file:///images/other.aci");
}

/// The id is of the archive without its compression.
#[test]
fn i10_the_id() {
    let kurma = host("");
    PluginImage::spy().write(&kurma.world, "/images/spy.aci");
    let sum = kurma.world.sh("zcat /images/spy.aci | sha512sum | cut -d ' ' -f 1");
    let pulled = kurma.json("pull file:///images/spy.aci");
    let id = pulled["id"].as_str().unwrap().strip_prefix("sha512-").unwrap();
    assert!(sum.starts_with(id) && id.len() >= 32, "{id} {sum}");
    // A pinned one is what it is said to be, or refused.
    kurma.kurma(&format!("pull file:///images/spy.aci@sha512:{}", sum.trim()));
    let other = "0".repeat(128);
    kurma.refused(&format!("pull file:///images/spy.aci@sha512:{other}"), &["sha512"]);
}

/// I11 and I12, ours: what is wrong with one network is no other's business.
#[test]
fn i11_i12_one_bad_network_is_one_bad_network() {
    let default = json!({"default": true});
    let kurma = Kurma::new(&json!([
        Kurma::spy("good", &default),
        Kurma::spy("Bad_Name", &json!({})),
        Kurma::spy("a.b", &json!({})),
        Kurma::spy("", &json!({})),
        {"name": "no-image"},
        Kurma::spy("no-app", &json!({"aci": "file:///images/no-app.aci"})),
        Kurma::spy("missing", &json!({"aci": "file:///images/nosuch.aci"})),
        Kurma::spy("good", &json!({"second": true})),
        "no object",
    ]));
    PluginImage::busybox("krm.test/no-app").write(&kurma.world, "/images/no-app.aci");
    kurma.try_kurma("up");
    kurma.kurma(&format!("provision {U}"));
    assert_eq!(kurma.order(), ["add good"]);
    for name in ["no-app", "missing"] {
        kurma.refused(&format!("provision {} {name}", crate::uuid(1)), &[name]);
    }
    let validated = kurma.try_kurma("validate");
    assert_eq!(validated.status, 2, "{validated:?}");
    for name in ["Bad_Name", "a.b", "network \"no-image\": pod_networks[4] has no aci", "good"] {
        assert!(validated.stdout.contains(name), "{name}: {validated:?}");
    }
    let status = kurma.json("status").to_string();
    assert!(status.contains("refused") && status.contains("Bad_Name"), "{status}");
    assert_eq!(kurma.plugin("good")["state"], "running");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// M1: all names of the list, in both languages.
#[test]
fn m01_all_names_of_the_list() {
    let kurma = Kurma::new(&json!([]));
    for key in ["pod_networks", "podNetworks", "container_networks"] {
        kurma.networks_text(&json!({key: [Kurma::spy("one", &json!({}))]}).to_string());
        kurma.kurma("validate");
        assert_eq!(kurma.json("status")[0]["name"], "one", "{key}");
        kurma.networks_text(&format!("{key}:\n  - name: one\n    aci: {}\n", Kurma::SPY));
        kurma.kurma("validate /etc/kurma/kurma.json");
        assert_eq!(kurma.json("status")[0]["name"], "one", "{key}");
    }
    kurma.networks_text("{");
    assert_eq!(kurma.try_kurma("validate").status, 2);
}
