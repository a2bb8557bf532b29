use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::LazyLock;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::tests::{Item, entry, gzip, tar, zstd};

/// Unpacks layers over each other; gives the directory, beside which nothing may appear.
fn unpack(layers: &[Vec<u8>]) -> (TempDir, Result<()>) {
    let directory = TempDir::new().unwrap();
    let into = directory.path().join("root");
    fs::create_dir(&into).unwrap();
    let mut budget = Budget::new(&Limits::default());
    let mut all = layers.iter();
    let result = all.try_for_each(|bytes| layer(&mut bytes.as_slice(), &into, &mut budget));
    (directory, result)
}

fn read(directory: &TempDir, path: &str) -> String {
    fs::read_to_string(directory.path().join("root").join(path)).unwrap()
}

#[test]
fn entries_become_files() {
    let items: [Item<'_>; 6] = [
        ("./", b'5', b"", ""),
        ("./a/", b'5', b"", ""),
        ("./a/b", b'0', b"text", ""),
        ("c/d/e", b'0', b"", ""),
        ("a/l", b'2', b"", "/anywhere"),
        ("h", b'1', b"", "./a/b"),
    ];
    let (directory, result) = unpack(&[tar(&items)]);
    result.unwrap();
    assert_eq!(read(&directory, "h"), "text");
    let metadata = |path: &str| fs::metadata(directory.path().join("root").join(path)).unwrap();
    assert_eq!(metadata("h").ino(), metadata("a/b").ino());
    assert_eq!(metadata("a").permissions().mode() & 0o7777, 0o755);
    assert_eq!((metadata("a/b").mode() & 0o7777, metadata("a/b").mtime()), (0o644, 1));
    assert!(directory.path().join("root/a/l").is_symlink());
}

#[test]
fn nothing_leads_out() {
    let out = |path: &'static str| -> Item<'static> { (path, b'0', b"x", "") };
    let cases: [&[Item<'_>]; 9] = [
        &[out("../evil")],
        &[out("a/../../evil")],
        &[out("/evil")],
        &[("l", b'2', b"", ".."), out("l/evil")],
        &[("l", b'2', b"", "/tmp"), out("l/evil")],
        &[("l", b'2', b"", "../evil"), ("h", b'1', b"", "l/x")],
        &[("h", b'1', b"", "../../evil")],
        &[("d/l", b'2', b"", "../.."), ("d/l/.wh.root", b'0', b"", "")],
        &[("d", b'3', b"", "")],
    ];
    for items in cases {
        let (directory, result) = unpack(&[tar(items)]);
        let error = result.unwrap_err();
        assert_eq!(error.kind(), model::Kind::Invalid, "{items:?}: {error}");
        let there: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(there.len(), 1, "{items:?}");
    }
}

#[test]
fn a_link_in_place_of_a_file_is_replaced_not_followed() {
    let lower = tar(&[("a", b'0', b"old", ""), ("l", b'2', b"", "a"), ("m", b'2', b"", "/")]);
    let upper = tar(&[("l", b'0', b"new", ""), ("m", b'5', b"", ""), ("m/x", b'0', b"x", "")]);
    let (directory, result) = unpack(&[lower, upper]);
    result.unwrap();
    assert_eq!((read(&directory, "a"), read(&directory, "l")), ("old".into(), "new".into()));
    assert_eq!(read(&directory, "m/x"), "x");
}

#[test]
fn links_within_are_followed_on_the_way() {
    let lower = tar(&[("usr/lib", b'5', b"", ""), ("lib", b'2', b"", "usr/lib")]);
    let (directory, result) = unpack(&[lower, tar(&[("lib/x", b'0', b"x", "")])]);
    result.unwrap();
    assert_eq!(read(&directory, "usr/lib/x"), "x");
}

#[test]
fn whiteouts_remove_what_lower_layers_brought() {
    let lower = tar(&[
        ("a/x", b'0', b"1", ""),
        ("a/y/z", b'0', b"1", ""),
        ("b/x", b'0', b"1", ""),
        ("c", b'0', b"1", ""),
    ]);
    let upper = tar(&[
        ("a/new", b'0', b"2", ""),
        ("a/y/new", b'0', b"2", ""),
        ("a/.wh..wh..opq", b'0', b"", ""),
        ("b/.wh.x", b'0', b"", ""),
        ("b/.wh.none", b'0', b"", ""),
        ("none/.wh.x", b'0', b"", ""),
        (".wh.c", b'0', b"", ""),
        ("c", b'5', b"", ""),
    ]);
    let (directory, result) = unpack(&[lower, upper]);
    result.unwrap();
    let there = |path: &str| directory.path().join("root").join(path).exists();
    assert_eq!((read(&directory, "a/new"), read(&directory, "a/y/new")), ("2".into(), "2".into()));
    for gone in ["a/x", "a/y/z", "b/x", "a/.wh..wh..opq"] {
        assert!(!there(gone), "{gone}");
    }
    assert!(there("b") && there("c"));
}

#[test]
fn limits_hold() {
    let directory = TempDir::new().unwrap();
    let many = tar(&[("a", b'0', b"12345", ""), ("b", b'0', b"12345", "")]);
    for (unpacked, entries) in [(9, 2), (10, 1)] {
        let mut budget = Budget::new(&Limits { unpacked, entries, ..Limits::default() });
        let error = layer(&mut many.as_slice(), directory.path(), &mut budget).unwrap_err();
        assert!(error.to_string().contains("bomb"), "{error}");
    }
}

/// Unpacks `items` within `limits`; what it is refused for.
fn refusal(items: &[Item<'_>], limits: Limits) -> String {
    let directory = TempDir::new().unwrap();
    let mut budget = Budget::new(&limits);
    let error = layer(&mut tar(items).as_slice(), directory.path(), &mut budget).unwrap_err();
    assert_eq!(error.kind(), model::Kind::Invalid, "{error}");
    error.to_string()
}

#[test]
fn directories_that_only_paths_name_are_counted() {
    let paths: Vec<String> = (0..4).map(|top| format!("{top}/{}f", "d/".repeat(20))).collect();
    let items: Vec<Item<'_>> = paths.iter().map(|path| (&**path, b'0', &b""[..], "")).collect();
    let made = 4 * 22;
    let limits = |entries| Limits { entries, ..Limits::default() };
    let mut budget = Budget::new(&limits(made));
    let directory = TempDir::new().unwrap();
    layer(&mut tar(&items).as_slice(), directory.path(), &mut budget).unwrap();
    let shown = refusal(&items, limits(made - 1));
    assert!(shown.contains("entries"), "{shown}");
}

/// Of 1.5 kB, compressed, 101,600 directories and files would come.
#[test]
fn paths_do_not_become_many_times_as_many_directories() {
    let mut archive = Vec::new();
    for number in 0..800 {
        let path = format!("{number}/{}f\0", "d/".repeat(125));
        archive.extend(entry(&("long", b'L', path.as_bytes(), "")));
        archive.extend(entry(&("x", b'0', b"", "")));
    }
    archive.extend([0; 1024]);
    let (directory, result) = unpack(&[archive]);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), model::Kind::Invalid, "{error}");
    assert!(error.to_string().contains("directories that only paths name"), "{error}");
    let made: usize =
        std::fs::read_dir(directory.path().join("root")).map_or(0, |entries| entries.count() * 127);
    assert!((1..3000).contains(&made), "{made}");
}

#[test]
fn what_is_remembered_and_followed_is_bounded() {
    let items: [Item<'_>; 2] = [("a/b/c", b'0', b"", ""), ("a/.wh..wh..opq", b'0', b"", "")];
    let shown = refusal(&items, Limits { paths: 8, ..Limits::default() });
    assert!(shown.contains("paths"), "{shown}");
    let shown = refusal(&items, Limits { following: Duration::ZERO, ..Limits::default() });
    assert!(shown.contains("follow"), "{shown}");
}

#[test]
fn too_deep_a_path_is_refused() {
    let deep = |levels: usize| format!("{}f", "d/".repeat(levels - 1));
    let (most, more) = (deep(128), deep(129));
    let item = |path: &'static str, name: &str| -> Vec<u8> {
        let mut bytes = entry(&("long", b'L', format!("{name}\0").as_bytes(), ""));
        bytes.extend(entry(&(path, b'0', b"", "")));
        bytes.extend([0; 1024]);
        bytes
    };
    unpack(&[item("x", &most)]).1.unwrap();
    let error = unpack(&[item("x", &more)]).1.unwrap_err();
    assert_eq!(error.kind(), model::Kind::Invalid, "{error}");
    assert!(error.to_string().contains("deeper than 128"), "{error}");
}

/// A directory is emptied of what came before once, however often an archive asks for it.
#[test]
fn the_same_directory_is_cleared_once() {
    let files: Vec<String> = (0..2000).map(|number| format!("a/{number}")).collect();
    let mut items: Vec<Item<'_>> = files.iter().map(|path| (&**path, b'0', &b""[..], "")).collect();
    items.extend((0..2000).map(|_| -> Item<'_> { ("a/.wh..wh..opq", b'0', b"", "") }));
    let directory = TempDir::new().unwrap();
    let mut budget = Budget::new(&Limits::default());
    let before = budget.following;
    layer(&mut tar(&items).as_slice(), directory.path(), &mut budget).unwrap();
    // 4,000,000 looks at files take seconds.
    assert!(before.saturating_sub(budget.following) < Duration::from_secs(2));
    assert!(directory.path().join("a/1999").exists());
}

#[test]
fn a_bomb_is_stopped() {
    let bomb = gzip(&vec![0; 100 << 20]);
    let mut reader = inflate(Box::new(bomb.as_slice()), &Limits::default()).unwrap();
    let error = std::io::copy(&mut reader, &mut std::io::sink()).unwrap_err();
    assert!(error.to_string().contains("bomb"), "{error}");
    let limits = Limits { compressed: 100, ..Limits::default() };
    let error = inflate(Box::new(bomb.as_slice()), &limits).err().unwrap();
    assert_eq!(error.kind(), model::Kind::Invalid, "{error}");
}

/// What comes of a file, or why nothing does.
fn inflated(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut reader = inflate(Box::new(bytes), &Limits::default()).map_err(std::io::Error::other)?;
    std::io::Read::read_to_end(&mut reader, &mut out).map(|_| out)
}

/// One after another, with some to be passed over before, between and behind them, as zstd:chunked writes
/// them.
#[test]
fn all_frames_of_zstd_are_unpacked() {
    let long: Vec<u8> = (0..500_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"table"].concat();
    let packed =
        [&skipped[..], &zstd(&long), &skipped, &zstd(b""), &zstd(b"end"), &skipped].concat();
    assert_eq!(inflated(&packed).unwrap(), [&long[..], b"end"].concat());
    assert_eq!(inflated(&skipped).unwrap(), b"");
    let cut = inflated(&packed[..packed.len() - 1]).unwrap_err();
    assert_eq!(cut.kind(), std::io::ErrorKind::UnexpectedEof);
    for cut in [4, 9, 13 + 5, 1000] {
        assert!(inflated(&packed[..cut]).is_err(), "{cut}");
    }
    let trailed = inflated(&[&zstd(b"x")[..], b"and something else"].concat());
    assert!(trailed.unwrap_err().to_string().contains("damaged"));
}

#[test]
fn a_bomb_of_zstd_is_stopped() {
    // A frame whose blocks say "so many zeros": four bytes for 128 KiB each.
    let block = |is_last: u32| (131_072_u32 << 3 | 1 << 1 | is_last).to_le_bytes();
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for _ in 0..1000 {
        bomb.extend(&block(0)[..3]);
        bomb.push(0);
    }
    bomb.extend(&block(1)[..3]);
    bomb.push(0);
    let error = inflated(&bomb).unwrap_err();
    assert!(error.to_string().contains("bomb"), "{error}");
    // A window of 2 GiB: refused before there is any memory for it.
    let error = inflated(&[0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0]).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    // A dictionary that does not exist.
    let error = inflated(&[0x28, 0xb5, 0x2f, 0xfd, 1, 7 << 3, 9, 1, 0, 0]).unwrap_err();
    assert!(error.to_string().contains("dictionary"), "{error}");
}

#[test]
fn paths_are_cleaned() {
    for (name, path) in [("", None), ("./", None), ("a//b/./c/", Some("a/b/c"))] {
        assert_eq!(clean(name.as_bytes()).unwrap().as_deref(), path.map(Path::new));
    }
    for name in ["/a", "..", "a/..", "a\0b", &"a".repeat(256), &"a/".repeat(2100)] {
        assert!(clean(name.as_bytes()).is_err(), "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// However an archive is damaged, it is refused or unpacked, and nothing appears beside.
    #[test]
    fn damaged_archives_harm_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = tar(&[
            ("d/l", b'2', b"", "../../x"),
            ("d/l/x", b'0', b"x", ""),
            ("../d", b'5', b"", ""),
            ("e", b'x', b"13 path=../e\n", ""),
            ("f", b'L', b"../../../f\0", ""),
            ("g", b'1', b"", "../../g"),
            ("h/.wh..wh..opq", b'0', b"", ""),
        ]);
        // The sums are made right again, or nothing but them would be tested.
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for block in bytes.chunks_exact_mut(512).filter(|block| block.iter().any(|byte| *byte != 0)) {
            let sum: u32 = block.iter().enumerate().map(|(at, byte)| match at {
                148..156 => 32,
                _ => u32::from(*byte),
            }).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        bytes.truncate(cut.index(bytes.len() * 2).min(bytes.len()));
        let (directory, _) = unpack(&[bytes]);
        prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    /// However a stream of zstd is damaged, it is refused, or what comes of it is bounded.
    #[test]
    fn damaged_frames_harm_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let text: Vec<u8> = (0..40_000_u32).flat_map(|n| (n / 3 * n).to_le_bytes()).collect();
            [zstd(&text[..70_000]), zstd(&text)].concat()
        });
        let mut bytes = PACKED.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() * 2).min(bytes.len()));
        if let Ok(out) = inflated(&bytes) {
            prop_assert!(out.len() <= 1 << 20, "{}", out.len());
        }
    }

    /// Whatever paths an archive has, what is made is below.
    #[test]
    fn odd_paths_harm_nothing(paths in prop::collection::vec("[a./l]{1,12}", 1..8), kind in "[0125]") {
        let kind = kind.as_bytes()[0];
        let mut bytes = entry(&("l", b'2', b"", ".."));
        for path in &paths {
            bytes.extend(entry(&(path, kind, b"", "l/../..")));
            bytes.extend(entry(&(path, b'0', b"x", "")));
        }
        bytes.extend([0; 1024]);
        let (directory, _) = unpack(&[bytes]);
        prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
