use super::*;
use serde_json::{Value, json};

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn image(os: &str, architecture: &str, variant: Option<&str>, digit: char) -> Value {
    let mut platform = json!({"os": os, "architecture": architecture});
    if let Some(variant) = variant {
        platform["variant"] = json!(variant);
    }
    json!({"mediaType": OCI_MANIFEST, "digest": digest(digit), "size": 1, "platform": platform})
}

fn read(value: &Value, kind: Option<&str>) -> Result<Document> {
    Document::read(value.to_string().as_bytes(), kind)
}

fn manifest() -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": DOCKER_MANIFEST,
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                   "digest": digest('1'), "size": 7},
        "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                    "digest": digest('2'), "size": 9}],
    })
}

#[test]
fn reads_both_kinds() {
    let kind = format!("{DOCKER_MANIFEST}; charset=utf-8");
    let Document::Manifest(read) = read(&manifest(), Some(&kind)).unwrap() else { panic!() };
    assert_eq!(read.layers.len(), 1);
    assert_eq!(read.config.size, 7);
    let index = json!({"schemaVersion": 2, "manifests": [image("linux", "amd64", None, 'a')]});
    let read = Document::read(index.to_string().as_bytes(), Some("application/json"));
    assert!(matches!(read.unwrap(), Document::Index(images) if images.len() == 1));
}

#[test]
fn refuses_what_is_neither_or_both() {
    let mut both = manifest();
    both["manifests"] = json!([image("linux", "amd64", None, 'a')]);
    assert_eq!(read(&both, None).unwrap_err().kind(), model::Kind::Invalid);
    assert_eq!(read(&manifest(), Some(OCI_MANIFEST)).unwrap_err().kind(), model::Kind::Invalid);
    assert_eq!(read(&manifest(), Some(DOCKER_INDEX)).unwrap_err().kind(), model::Kind::Invalid);
    let index = json!({"schemaVersion": 2, "manifests": []});
    assert!(read(&index, Some(OCI_MANIFEST)).is_err());
    for bad in [json!(null), json!({}), json!({"schemaVersion": 2}), json!([])] {
        assert!(read(&bad, None).is_err(), "{bad}");
    }
    let mut foreign = manifest();
    foreign["layers"][0]["urls"] = json!(["http://169.254.169.254/"]);
    assert_eq!(read(&foreign, None).unwrap_err().kind(), model::Kind::Unsupported);
    let first = json!({"schemaVersion": 1, "fsLayers": [{"blobSum": digest('1')}]});
    assert_eq!(read(&first, None).unwrap_err().kind(), model::Kind::Unsupported);
    let mut bad = manifest();
    bad["layers"][0]["digest"] = json!("sha256:../../x");
    assert!(read(&bad, None).is_err());
    bad["layers"] = json!(vec![manifest()["config"].clone(); 129]);
    assert!(read(&bad, None).is_err());
}

fn chosen(images: &[Value], platform: &Platform) -> Option<String> {
    let index = json!({"schemaVersion": 2, "manifests": images});
    let Document::Index(images) = read(&index, None).unwrap() else { panic!() };
    choose(&images, platform).ok().map(|image| image.digest.to_string())
}

fn platform(architecture: &str, variant: Option<&str>) -> Platform {
    let variant = variant.map(ToOwned::to_owned);
    Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant }
}

#[test]
fn chooses_what_runs_best() {
    let images = [
        image("unknown", "unknown", None, '0'),
        image("windows", "amd64", None, '1'),
        image("linux", "arm", Some("v5"), '2'),
        image("linux", "arm", Some("v6"), '3'),
        image("linux", "arm64", Some("v8"), '4'),
        image("linux", "amd64", Some("v3"), '5'),
        image("linux", "amd64", None, '6'),
        image("linux", "s390x", None, '7'),
    ];
    assert_eq!(chosen(&images, &platform("amd64", None)), Some(digest('6')));
    assert_eq!(chosen(&images, &platform("arm64", Some("v8"))), Some(digest('4')));
    assert_eq!(chosen(&images, &platform("arm64", None)), Some(digest('4')));
    assert_eq!(chosen(&images, &platform("arm", Some("v7"))), Some(digest('3')));
    assert_eq!(chosen(&images, &platform("arm", Some("v5"))), Some(digest('2')));
    assert_eq!(chosen(&images, &platform("s390x", None)), Some(digest('7')));
    assert_eq!(chosen(&images, &platform("riscv64", None)), None);
    let plain = [image("linux", "arm64", None, '8'), image("linux", "arm64", Some("v9"), '9')];
    assert_eq!(chosen(&plain, &platform("arm64", Some("v8"))), Some(digest('8')));
}

#[test]
fn takes_the_only_one_that_says_nothing() {
    let mut only = image("linux", "amd64", None, '1');
    only.as_object_mut().unwrap().remove("platform");
    assert_eq!(chosen(std::slice::from_ref(&only), &Platform::host()), Some(digest('1')));
    assert_eq!(chosen(&[only.clone(), only], &Platform::host()), None);
}
