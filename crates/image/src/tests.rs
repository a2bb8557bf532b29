//! Images that tests make, and what becomes of whole ones.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use model::Kind;
use tempfile::TempDir;

use crate::{Image, Images, KeyRule, Locator, Policy};

/// An entry of a tar archive: its path, its type, its content, and what it links to.
pub(crate) type Item<'a> = (&'a str, u8, &'a [u8], &'a str);

/// A tar archive in ustar format.
pub(crate) fn tar(items: &[Item<'_>]) -> Vec<u8> {
    let mut tar: Vec<u8> = items.iter().flat_map(entry).collect();
    tar.extend([0; 1024]);
    tar
}

pub(crate) fn entry((path, kind, content, link): &Item<'_>) -> Vec<u8> {
    let mut block = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, path.as_bytes());
    put(100, if *kind == b'5' { b"0000755\0" } else { b"0000644\0" });
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}\0", content.len()).as_bytes());
    put(136, b"00000000001\0");
    put(148, b"        ");
    put(156, &[*kind]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut entry = block.to_vec();
    entry.extend(*content);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

pub(crate) fn manifest(name: &str, more: &str) -> String {
    format!(r#"{{"acKind":"ImageManifest","acVersion":"0.8.1","name":"{name}"{more}}}"#)
}

/// A whole image with one file, whose content is the image's name.
pub(crate) fn aci(name: &str, more: &str) -> Vec<u8> {
    let manifest = manifest(name, more);
    let own = format!("rootfs/{}", name.replace('/', "-"));
    tar(&[
        ("manifest", b'0', manifest.as_bytes(), ""),
        ("rootfs", b'5', b"", ""),
        ("rootfs/common", b'0', name.as_bytes(), ""),
        (&own, b'0', name.as_bytes(), ""),
    ])
}

pub(crate) const APP: &str = r#","labels":[{"name":"version","value":"1.0"}],"app":{"exec":["/bin/x"],"user":"0","group":"0"}"#;

struct Scratch {
    directory: TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    fn images(&self, policy: Policy) -> Images {
        Images::new(&self.directory.path().join("cache"), policy).unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Locator {
        let path = self.directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        format!("file://{}", path.display()).parse().unwrap()
    }

    /// What is left where images are made.
    fn staged(&self) -> usize {
        fs::read_dir(self.directory.path().join("cache/staging")).unwrap().count()
    }
}

fn locator(text: &str) -> Locator {
    text.parse().unwrap()
}

#[test]
fn the_same_image_has_the_same_id_however_it_is_packed() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let tar = aci("krm.test/a", APP);
    let plain = images.get(&place.write("a.aci", &tar)).unwrap();
    let packed = images.get(&place.write("a.gz.aci", &gzip(&tar))).unwrap();
    let digest = crate::Digest::of(crate::Algorithm::Sha512, &tar);
    assert_eq!(plain.id.digest(), &digest);
    assert_eq!(plain, packed);
    assert_eq!(images.get(&place.write("a.zst.aci", &zstd(&tar))).unwrap(), plain);
    assert_eq!((plain.name.as_str(), plain.layers.len()), ("krm.test/a", 1));
    assert_eq!(plain.app.unwrap().exec, ["/bin/x"]);
    assert_eq!(fs::read(plain.layers[0].join("common")).unwrap(), b"krm.test/a");
    assert_eq!(images.list().unwrap().len(), 1);
    assert_eq!(place.staged(), 0);
}

#[test]
fn a_broken_image_leaves_nothing() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let whole = gzip(&aci("krm.test/a", APP));
    for (name, bytes) in [
        ("cut", &whole[..whole.len() / 2]),
        ("empty", &[][..]),
        ("manifest", &tar(&[("manifest", b'0', b"{", ""), ("rootfs", b'5', b"", "")])),
        ("bz2", b"BZh91AY"),
    ] {
        let error = images.get(&place.write(name, bytes)).unwrap_err();
        assert!(matches!(error.kind(), Kind::Invalid | Kind::Unsupported), "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
    let layers = fs::read_dir(place.directory.path().join("cache/layers")).unwrap();
    assert_eq!((place.staged(), layers.count(), images.list().unwrap().len()), (0, 0, 0));
    let missing = images.get(&locator("file:///nowhere/x.aci")).unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
}

#[test]
fn a_changed_file_is_read_again() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let locator = place.write("a.aci", &aci("krm.test/a", ""));
    let first = images.get(&locator).unwrap();
    assert_eq!(images.cached(&locator).unwrap().unwrap(), first);
    let _ = place.write("a.aci", &aci("krm.test/b", ""));
    assert!(images.cached(&locator).unwrap().is_none());
    assert_eq!(images.get(&locator).unwrap().name, "krm.test/b");
}

#[test]
fn what_was_changed_in_the_cache_does_not_run_until_it_is_fetched_again() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let locator = place.write("a.aci", &aci("krm.test/a", ""));
    let image = images.get(&locator).unwrap();
    let file = image.layers[0].join("common");
    // Another time of change, and the same content.
    let mode = fs::metadata(&file).unwrap().permissions();
    fs::hard_link(&file, place.directory.path().join("second")).unwrap();
    fs::set_permissions(&file, mode).unwrap();
    assert_eq!(images.get(&locator).unwrap(), image);
    fs::write(&file, "krm.evil/a").unwrap();
    let error = images.get(&locator).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains("was changed after it was unpacked"), "{error}");
    assert_eq!(images.pull(&locator).unwrap(), image);
    assert_eq!(fs::read(&file).unwrap(), b"krm.test/a");
    assert_eq!(images.get(&locator).unwrap(), image);
    assert_eq!(place.staged(), 0);
    // What was in it is unknown: it is fetched.
    fs::remove_dir_all(place.directory.path().join("cache/trees")).unwrap();
    let images = place.images(Policy::default());
    fs::write(&file, "krm.evil/a").unwrap();
    assert_eq!(images.get(&locator).unwrap(), image);
    assert_eq!(fs::read(&file).unwrap(), b"krm.test/a");
}

#[test]
fn a_pin_is_the_file_or_the_tar() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let tar = aci("krm.test/a", "");
    let file = gzip(&tar);
    let plain = place.write("a.aci", &file).to_string();
    for bytes in [&tar, &file] {
        for algorithm in [crate::Algorithm::Sha256, crate::Algorithm::Sha512] {
            let pin = crate::Digest::of(algorithm, bytes);
            images.get(&locator(&format!("{plain}@{pin}"))).unwrap();
        }
    }
    let wrong = format!("{plain}@{}", crate::Digest::of(crate::Algorithm::Sha256, b""));
    let error = images.get(&locator(&wrong)).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(images.cached(&locator(&wrong)).unwrap().is_none());
}

fn needs(names: &[&str]) -> String {
    let one = |name: &&str| format!(r#"{{"imageName":"krm.test/{name}"}}"#);
    let all: Vec<String> = names.iter().map(one).collect();
    format!(r#","dependencies":[{}]"#, all.join(","))
}

/// 1 needs 2, 2 needs 3 and 4, which both need 5.
fn diamond(place: &Scratch, images: &Images, more: &str) -> Image {
    let all: [(&str, &[&str]); 4] = [("5", &[]), ("4", &["5"]), ("3", &["5"]), ("2", &["3", "4"])];
    for (name, below) in all {
        let file = place.write(name, &aci(&format!("krm.test/{name}"), &needs(below)));
        images.pull_as(&file, &format!("krm.test/{name}").parse().unwrap()).unwrap();
    }
    let top = aci("krm.test/1", &format!("{}{more}", needs(&["2"])));
    images.get(&place.write("1", &top)).unwrap()
}

#[test]
fn an_image_lies_on_what_it_needs() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let image = diamond(&place, &images, "");
    let own = |layer: &PathBuf| fs::read_to_string(layer.join("common")).unwrap();
    let order: Vec<String> = image.layers.iter().rev().map(own).collect();
    assert_eq!(order, ["1", "2", "3", "5", "4"].map(|name| format!("krm.test/{name}")));
}

#[test]
fn only_paths_that_are_wanted_stay() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let image = diamond(&place, &images, r#","pathWhitelist":["/common","/krm.test-5","/no"]"#);
    assert_eq!(image.layers.len(), 1);
    let mut names: Vec<_> =
        fs::read_dir(&image.layers[0]).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["common", "krm.test-5"]);
    assert_eq!(fs::read(image.layers[0].join("common")).unwrap(), b"krm.test/1");
}

#[test]
fn an_image_cannot_lie_on_itself_nor_on_another_one_than_it_names() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let five = place.write("5", &aci("krm.test/5", ""));
    images.pull_as(&five, &"krm.test/5".parse().unwrap()).unwrap();
    let other = format!("sha512-{}", "0".repeat(128));
    let wrong = format!(r#","dependencies":[{{"imageName":"krm.test/5","imageID":"{other}"}}]"#);
    assert_eq!(
        images.get(&place.write("6", &aci("krm.test/6", &wrong))).unwrap_err().kind(),
        model::Kind::NotFound
    );
    let own = aci("127.0.0.1/7", r#","dependencies":[{"imageName":"127.0.0.1/7"}]"#);
    // It is not in the cache yet, so the search for its name fails first.
    assert_eq!(images.get(&place.write("7", &own)).unwrap_err().kind(), model::Kind::NotFound);
}

#[test]
fn an_image_in_the_cache_is_found_by_its_name() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let file = place.write("a.aci", &aci("krm.test/a", APP));
    let wrong = images.pull_as(&file, &"krm.test/b".parse().unwrap()).unwrap_err();
    assert_eq!(wrong.kind(), Kind::Denied);
    let image = images.pull_as(&file, &"krm.test/a:1.0".parse().unwrap()).unwrap();
    for (name, there) in [
        ("krm.test/a", true),
        ("krm.test/a:1.0", true),
        ("krm.test/a:2", false),
        ("krm.test/b", false),
    ] {
        let found = images.cached(&locator(name)).unwrap();
        assert_eq!(found.is_some_and(|found| found == image), there, "{name}");
    }
}

/// Neither by its manifest nor by what was found before is an image one that other labels select.
#[test]
fn an_image_is_not_taken_for_one_with_other_labels() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let base = |channel: &str| {
        let labels = format!(r#","labels":[{{"name":"channel","value":"{channel}"}}]"#);
        place.write(channel, &aci("127.0.0.1/base", &labels))
    };
    let plain = place.write("base", &aci("127.0.0.1/base", ""));
    let plain = images.pull_as(&plain, &"127.0.0.1/base".parse().unwrap()).unwrap();
    let needing = |channel: &str| {
        let labels = format!(r#""labels":[{{"name":"channel","value":"{channel}"}}]"#);
        let below = format!(r#","dependencies":[{{"imageName":"127.0.0.1/base",{labels}}}]"#);
        place.write(&format!("on-{channel}"), &aci("127.0.0.1/base", &below))
    };
    assert_eq!(images.get(&needing("beta")).unwrap_err().kind(), Kind::NotFound);
    for channel in ["beta", "alpha"] {
        let name = format!("127.0.0.1/base,channel={channel}");
        let below = images.pull_as(&base(channel), &name.parse().unwrap()).unwrap();
        // Of the same name as what it lies on.
        let above = images.get(&needing(channel)).unwrap();
        assert_eq!(above.layers[0], below.layers[0], "{channel}");
    }
    // What says nothing of a label is taken for it on the operator's word, and stays what it was.
    let silent = place.write("silent", &aci("127.0.0.1/base", r#","annotations":[]"#));
    let silent = images.pull_as(&silent, &"127.0.0.1/base,channel=rc".parse().unwrap()).unwrap();
    assert_eq!(images.get(&needing("rc")).unwrap().layers[0], silent.layers[0]);
    assert_eq!(images.cached(&locator("127.0.0.1/base")).unwrap().unwrap(), plain);
}

/// Any image can call itself as it likes, and would run with the rights of that name.
#[test]
fn an_image_is_not_taken_for_what_it_calls_itself() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let own = place.write("a.aci", &aci("127.0.0.1/a", APP));
    images.get(&own).unwrap();
    assert!(images.cached(&locator("127.0.0.1/a")).unwrap().is_none());
    let below = r#","dependencies":[{"imageName":"127.0.0.1/a"}]"#;
    let above = images.get(&place.write("b.aci", &aci("krm.test/b", below))).unwrap_err();
    assert_eq!(above.kind(), Kind::NotFound, "{above}");
    assert!(above.to_string().contains("pull --as 127.0.0.1/a LOCATOR"), "{above}");
    // The operator's word is kept where the same image is fetched again.
    images.pull_as(&own, &"127.0.0.1/a".parse().unwrap()).unwrap();
    images.pull(&own).unwrap();
    assert!(images.cached(&locator("127.0.0.1/a")).unwrap().is_some());
}

/// A signature by a key of the name's rule is as good as discovery.
#[test]
fn a_signed_image_is_found_by_its_name() {
    let place = Scratch::new();
    let locator = place.write("s.aci", &signed_image());
    fs::copy(key("image.ed25519.asc"), place.directory.path().join("s.aci.asc")).unwrap();
    let strict = |keys: &[&str]| place.images(signed("krm.test/", keys));
    strict(&["ed25519.pub.asc"]).get(&locator).unwrap();
    let name = "krm.test/signed".parse().unwrap();
    assert!(strict(&["ed25519.pub.asc"]).cached(&name).unwrap().is_some());
    assert!(strict(&["rsa2048.pub.asc"]).cached(&name).unwrap().is_none());
    assert!(place.images(Policy::default()).cached(&name).unwrap().is_none());
}

#[test]
fn what_is_unused_goes() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let top = diamond(&place, &images, "");
    let keep: BTreeSet<_> = [top.id.clone()].into();
    assert!(images.gc(&keep, Duration::from_secs(3600)).unwrap().is_empty());
    assert_eq!(images.gc(&keep, Duration::ZERO).unwrap().len(), 4);
    assert!(top.layers.iter().all(|layer| layer.join("common").exists()));
    assert!(images.cached(&place.write("5", b"")).unwrap().is_none());
    let none = BTreeSet::new();
    assert_eq!(images.gc(&none, Duration::ZERO).unwrap().len(), 1);
    assert!(images.gc(&none, Duration::ZERO).unwrap().is_empty());
    assert!(!top.layers.iter().any(|layer| layer.exists()));
    let names = fs::read_dir(place.directory.path().join("cache/names")).unwrap();
    assert_eq!(names.count(), 0);
}

/// It may run, though it has to be fetched again before it is started the next time.
#[test]
fn layers_of_an_image_that_is_not_whole_stay_with_it() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let top = diamond(&place, &images, "");
    fs::remove_dir_all(place.directory.path().join("cache/trees")).unwrap();
    let images = place.images(Policy::default());
    images.gc(&[top.id.clone()].into(), Duration::ZERO).unwrap();
    assert!(top.layers.iter().all(|layer| layer.join("common").exists()));
    images.gc(&BTreeSet::new(), Duration::ZERO).unwrap();
    assert!(!top.layers.iter().any(|layer| layer.exists()));
}

#[test]
fn what_a_dead_process_left_goes() {
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let remaining = place.directory.path().join("cache/staging/1-1");
    fs::create_dir_all(remaining.join("2/rootfs")).unwrap();
    images.get(&place.write("a.aci", &aci("krm.test/a", ""))).unwrap();
    assert!(!remaining.exists());
}

#[test]
fn many_get_the_same_image_at_once() {
    let place = Scratch::new();
    let locator = place.write("a.aci", &gzip(&aci("krm.test/a", APP)));
    let ids: Vec<_> = std::thread::scope(|scope| {
        let get = || place.images(Policy::default()).get(&locator).map(|image| image.id);
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(place.staged(), 0);
}

fn key(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
}

fn signed(prefix: &str, keys: &[&str]) -> Policy {
    let files = keys.iter().map(|name| key(name)).collect();
    let keys = vec![KeyRule { prefix: prefix.to_owned(), files }];
    Policy { keys, ..Policy::default() }
}

/// What `tests/keys/image.*.asc` are signatures of.
fn signed_image() -> Vec<u8> {
    aci("krm.test/signed", APP)
}

#[test]
fn an_image_is_signed_where_it_must_be() {
    let place = Scratch::new();
    let locator = place.write("s.aci", &signed_image());
    let strict = |keys: &[&str]| place.images(signed("krm.test/", keys));
    let unsigned = strict(&["ed25519.pub.asc"]).get(&locator).unwrap_err();
    assert_eq!(unsigned.kind(), Kind::Denied);
    assert!(unsigned.to_string().contains(".asc"), "{unsigned}");

    fs::copy(key("image.ed25519.asc"), place.directory.path().join("s.aci.asc")).unwrap();
    let foreign = strict(&["rsa2048.pub.asc"]).get(&locator).unwrap_err();
    assert!(foreign.to_string().contains("not among the configured keys"), "{foreign}");
    assert!(place.images(Policy::default()).list().unwrap().is_empty());
    // Without rules no caller asks; the cached image is not good enough for one that does.
    place.images(Policy::default()).get(&locator).unwrap();
    assert!(strict(&["ed25519.pub.asc"]).cached(&locator).unwrap().is_none());
    strict(&["ed25519.pub.asc", "rsa2048.pub.asc"]).get(&locator).unwrap();
    assert!(strict(&["ed25519.pub.asc"]).cached(&locator).unwrap().is_some());
    assert!(strict(&["rsa2048.pub.asc"]).cached(&locator).unwrap().is_none());
}

#[test]
fn rules_hold_for_places_too_and_the_longest_counts() {
    let place = Scratch::new();
    let locator = place.write("s.aci", &signed_image());
    fs::copy(key("image.rsa4096.asc"), place.directory.path().join("s.aci.asc")).unwrap();
    let path = place.directory.path().to_str().unwrap().to_owned();
    place.images(signed(&path, &["rsa4096.pub.asc"])).pull(&locator).unwrap();
    assert_eq!(
        place.images(signed(&path, &["rsa2048.pub.asc"])).pull(&locator).unwrap_err().kind(),
        model::Kind::Denied
    );
    let mut both = signed("", &["rsa2048.pub.asc"]);
    both.keys.extend(signed("krm.test/signed", &["rsa4096.pub.asc"]).keys);
    // The name has a rule of its own; the path has only the one for everything.
    assert_eq!(place.images(both.clone()).pull(&locator).unwrap_err().kind(), model::Kind::Denied);
    both.keys.extend(signed(&path, &["rsa4096.pub.asc"]).keys);
    place.images(both).pull(&locator).unwrap();

    let own = place.images(Policy::default());
    own.requiring(&[key("rsa4096.pub.asc")]).pull(&locator).unwrap();
    assert_eq!(
        own.requiring(&[key("ed25519.pub.asc")]).pull(&locator).unwrap_err().kind(),
        model::Kind::Denied
    );
    let oci = locator_of_registry(&own.requiring(&[key("ed25519.pub.asc")]));
    assert!(oci.contains("pin it"), "{oci}");
}

fn locator_of_registry(images: &Images) -> String {
    images.get(&locator("docker://127.0.0.1:1/x")).unwrap_err().to_string()
}

/// Writes the image to sign, for who makes new signatures: `gpg --armor --detach-sign`.
#[test]
fn the_signed_image_can_be_written() {
    if let Some(path) = std::env::var_os("SPOKE_WRITE_SIGNED_IMAGE") {
        fs::write(path, signed_image()).unwrap();
    }
}

/// Trees deeper than a process may have files open, or a path can say.
#[test]
fn a_deep_layer_is_removed() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let place = Scratch::new();
    let images = place.images(Policy::default());
    let image = images.get(&place.write("a.aci", &aci("krm.test/a", APP))).unwrap();
    let open = |above: &dyn std::os::fd::AsFd, name: &Path| {
        openat(above, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .unwrap()
    };
    let mut at = open(&CWD, &image.layers[0]);
    for _ in 0..3000 {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = open(&at, Path::new("d"));
    }
    assert_eq!(images.gc(&BTreeSet::new(), Duration::ZERO).unwrap(), [image.id]);
    assert!(!image.layers[0].exists());
    assert_eq!(place.staged(), 0);
}
