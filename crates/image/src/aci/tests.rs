use std::fs;

use tempfile::TempDir;

use super::*;
use crate::tests::{Item, aci, manifest, tar};
use crate::{CapabilityChange, HostNamespaces};

fn unpack_all(bytes: &[u8]) -> (TempDir, Result<Unpacked>) {
    let directory = TempDir::new().unwrap();
    let mut reader = bytes;
    let result = unpack(&mut reader, directory.path(), &Limits::default(), None);
    (directory, result)
}

const DIRECTORY: Item<'static> = ("rootfs", b'5', b"", "");

#[test]
fn both_ways_to_write_names_are_read() {
    let text = manifest("a.b/c", "");
    let text = text.as_bytes();
    for items in [
        &[("manifest", b'0', text, ""), DIRECTORY, ("rootfs/x", b'0', b"x", "")][..],
        &[("./", b'5', b"", ""), ("./rootfs/x", b'0', b"x", ""), ("./manifest", b'0', text, "")],
        &[
            ("rootfs/y", b'0', b"x", ""),
            ("rootfs/x", b'1', b"", "rootfs/y"),
            ("manifest", b'0', text, ""),
        ],
    ] {
        let (directory, result) = unpack_all(&tar(items));
        assert_eq!(result.unwrap().manifest.name, "a.b/c");
        assert_eq!(fs::read(directory.path().join("x")).unwrap(), b"x");
    }
}

#[test]
fn what_is_no_image_is_refused() {
    let text = manifest("a.b/c", "");
    let own: Item<'_> = ("manifest", b'0', text.as_bytes(), "");
    let cases: [(&[Item<'_>], &str); 14] = [
        (&[own], "no rootfs"),
        (&[DIRECTORY], "no manifest"),
        (&[own, DIRECTORY, ("stray", b'0', b"", "")], "stray"),
        (&[own, DIRECTORY, ("manifest/x", b'0', b"", "")], "manifest/x"),
        (&[own, own, DIRECTORY], "manifest twice"),
        (&[own, DIRECTORY, DIRECTORY], "rootfs twice"),
        (&[own, ("rootfs/a", b'0', b"", ""), ("rootfs/a", b'0', b"", "")], "twice"),
        (&[own, ("rootfs/a", b'5', b"", ""), ("./rootfs//a", b'5', b"", "")], "twice"),
        (&[own, ("rootfs", b'2', b"", "/")], "no directory"),
        (&[own, ("rootfs/../../a", b'0', b"", "")], "leads out"),
        (&[own, ("/rootfs/a", b'0', b"", "")], "absolute"),
        (&[own, ("rootfs/l", b'2', b"", "/tmp"), ("rootfs/l/a", b'0', b"", "")], "through a link"),
        (&[own, ("rootfs/h", b'1', b"", "manifest")], "not in the rootfs"),
        (&[own, ("rootfs/dev/sda", b'4', b"", "")], "device"),
    ];
    for (items, why) in cases {
        let error = unpack_all(&tar(items)).1.unwrap_err().to_string();
        assert!(error.contains(why), "{items:?}: {error}");
    }
}

#[test]
fn compressed_images_are_read() {
    let xz = include_bytes!("../../tests/keys/image.xz");
    let (_directory, result) = unpack_all(xz);
    let unpacked = result.unwrap();
    let tar = aci("krm.test/signed", super::super::tests::APP);
    assert_eq!(unpacked.digest, Digest::of(Algorithm::Sha512, &tar));
    for cut in [10, 100, xz.len() - 1] {
        assert!(unpack_all(&xz[..cut]).1.is_err(), "{cut}");
    }
}

fn parse(more: &str) -> Result<Manifest> {
    Manifest::parse(manifest("a.b/c", more).as_bytes())
}

#[test]
fn a_manifest_is_read_whole() {
    let text = r#","labels":[{"name":"os","value":"linux"}],"pathWhitelist":["/a"],
        "dependencies":[{"imageName":"d.e/f","labels":[{"name":"version","value":"1"}]}],
        "app":{"exec":["/b","c"],"user":"u","group":"100","workingDirectory":"/w",
        "supplementaryGIDs":[1,2],"environment":[{"name":"A","value":"b"}],
        "mountPoints":[{"name":"m","path":"/m","readOnly":true}],
        "isolators":[{"name":"os/linux/privileged","value":true},{"name":"else","value":[1]},
        {"name":"os/linux/namespaces","value":{"net":"host","ipc":"own"}},
        {"name":"os/linux/capabilities-retain-set","value":{"set":["CAP_NET_ADMIN"]}}]}"#;
    let manifest = parse(text).unwrap();
    let app = manifest.app.unwrap();
    assert_eq!((app.exec.len(), app.user.as_str(), app.group.as_str()), (2, "u", "100"));
    assert_eq!(app.environment, [("A".to_owned(), "b".to_owned())]);
    assert_eq!(app.working_directory.unwrap(), Path::new("/w"));
    assert!(app.mount_points[0].read_only && app.isolators.privileged);
    let only_net = HostNamespaces { net: true, ..HostNamespaces::default() };
    assert_eq!(app.isolators.namespaces, only_net);
    let set = CapabilityChange::Retain(vec!["CAP_NET_ADMIN".to_owned()]);
    assert_eq!(app.isolators.capabilities, Some(set));
    assert_eq!(manifest.dependencies[0].name.version(), Some("1"));
    assert_eq!(manifest.whitelist, ["/a"]);
    assert!(parse(r#","app":null,"labels":null"#).unwrap().app.is_none());
}

#[test]
fn mistakes_in_manifests_are_named() {
    for (more, why) in [
        (r#","app":{"exec":"x"}"#, "no image manifest"),
        (r#","app":{"workingDirectory":"x"}"#, "absolute"),
        (r#","app":{"mountPoints":[{"name":"m","path":"/a/../b"}]}"#, "absolute"),
        (r#","app":{"mountPoints":[{"name":"m","path":"/"}]}"#, "hide"),
        (r#","app":{"environment":[{"name":"A=","value":"b"}]}"#, "no name"),
        (r#","app":{"isolators":[{"name":"os/linux/privileged","value":1}]}"#, "isolator"),
        (
            r#","app":{"isolators":[{"name":"os/linux/capabilities-remove-set","value":{"set":["x"]}}]}"#,
            "isolator",
        ),
        (r#","labels":[{"name":"a","value":"1"},{"name":"a","value":"2"}]"#, "twice"),
        (r#","dependencies":[{"imageName":"X"}]"#, "dependency"),
        (r#","dependencies":[{"imageName":"x","imageID":"sha512-0"}]"#, "dependency"),
    ] {
        let error = parse(more).unwrap_err().to_string();
        assert!(error.contains(why), "{more}: {error}");
    }
    for text in [r#"{"acKind":"PodManifest","acVersion":"0.8.1","name":"a"}"#, "[]", "{"] {
        assert!(Manifest::parse(text.as_bytes()).is_err());
    }
}
