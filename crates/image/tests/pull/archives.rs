use std::fs;
use std::process::Command;

use image::build;
use model::Kind;

use super::support::{Bench, check};

#[test]
fn what_is_built_is_read() {
    let bench = Bench::new();
    let (aci, layout, archive) = (bench.path("a.aci"), bench.path("l"), bench.path("a.tar"));
    let id = build::aci(&bench.recipe(), &aci).unwrap();
    let image = bench.get(&format!("file://{}", aci.display())).unwrap();
    check(&image);
    assert_eq!(image.id, id);
    assert_eq!(image.name, "krm.test/spoke");
    assert_eq!(image.labels["version"], "1.0");
    let id = build::layout(&bench.recipe(), &layout).unwrap();
    assert_eq!(build::archive(&bench.recipe(), &archive).unwrap(), id);
    for locator in [
        format!("oci:{}", layout.display()),
        format!("oci:{}:1.0", layout.display()),
        format!("oci-archive:{}", archive.display()),
        format!("docker-archive:{}:krm.test/spoke:1.0", archive.display()),
        format!("oci:{}@{}", layout.display(), id.digest()),
    ] {
        let image = bench.get(&locator).unwrap_or_else(|error| panic!("{locator}: {error}"));
        check(&image);
        assert_eq!(image.id, id);
    }
    for locator in
        [format!("oci:{}:2.0", layout.display()), format!("oci-archive:{}:2.0", archive.display())]
    {
        assert_eq!(bench.get(&locator).unwrap_err().kind(), Kind::NotFound, "{locator}");
    }
    let pin = format!("oci:{}@sha256:{}", layout.display(), "0".repeat(64));
    assert_eq!(bench.get(&pin).unwrap_err().kind(), Kind::Denied);
}

/// What Docker wrote before it wrote layouts, too: without an index, and maybe compressed.
#[test]
fn older_archives_are_read() {
    let bench = Bench::new();
    let archive = bench.path("a.tar");
    build::archive(&bench.recipe(), &archive).unwrap();
    let sh = |script: &str| {
        let mut shell = Command::new("sh");
        let ran = shell.args(["-ec", script]).current_dir(bench.directory.path()).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    sh("mkdir x; tar -C x -xf a.tar; rm x/index.json x/oci-layout; \
        config=$(sed 's/.*\"Config\":\"\\([^\"]*\\)\".*/\\1/' x/manifest.json); \
        layer=$(sed 's/.*\"Layers\":.\"\\([^\"]*\\)\".*/\\1/' x/manifest.json); \
        mkdir x/one x/two; gunzip < x/$layer > x/one/layer.tar; ln -s ../one/layer.tar x/two/layer.tar; \
        mv x/$config x/config.json; rm -r x/blobs; \
        echo '[{\"Config\":\"config.json\",\"RepoTags\":[\"a/b:1\"],\"Layers\":[\"two/layer.tar\"]}]' \
        > x/manifest.json; tar -C x -cf old.tar .; gzip -k old.tar; \
        printf x >> x/one/layer.tar; tar -C x -cf bad.tar .");
    for name in ["old.tar", "old.tar.gz"] {
        let path = bench.path(name);
        check(&bench.get(&format!("docker-archive:{}", path.display())).unwrap());
        check(&bench.get(&format!("docker-archive:{}:a/b:1", path.display())).unwrap());
    }
    fs::remove_dir_all(bench.path("cache")).unwrap();
    let path = bench.path("bad.tar");
    let error = bench.get(&format!("docker-archive:{}", path.display())).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn damage_is_found() {
    let bench = Bench::new();
    let (layout, archive) = (bench.path("l"), bench.path("a.tar"));
    build::layout(&bench.recipe(), &layout).unwrap();
    for entry in fs::read_dir(layout.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        for bad in [&damaged[..], &whole[..middle], &[whole.as_slice(), b" "].concat()] {
            fs::write(&path, bad).unwrap();
            let error = bench.get(&format!("oci:{}", layout.display())).unwrap_err();
            assert!(
                matches!(error.kind(), Kind::Invalid),
                "{} with {} bytes: {error}",
                path.display(),
                bad.len()
            );
        }
        fs::remove_file(&path).unwrap();
        assert!(bench.get(&format!("oci:{}", layout.display())).is_err());
        fs::write(&path, &whole).unwrap();
    }
    build::archive(&bench.recipe(), &archive).unwrap();
    let whole = fs::read(&archive).unwrap();
    for length in (0..whole.len()).step_by(7001) {
        fs::write(&archive, &whole[..length]).unwrap();
        assert!(bench.get(&format!("oci-archive:{}", archive.display())).is_err(), "{length}");
    }
}
