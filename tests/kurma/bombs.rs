//! Archives that are small and become much: refused with little memory, at once, and nothing is left.

use std::fs;

use serde_json::json;
use tests::kurma::Kurma;

/// A header of tar, and its content in whole blocks.
fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = header(name, kind, content.len());
    header.extend(content);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

fn header(name: &str, kind: u8, size: usize) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    for (at, field) in [(100, "0000755\0"), (124, &format!("{size:011o}\0")), (257, "ustar\u{0}00")]
    {
        header[at..at + field.len()].copy_from_slice(field.as_bytes());
    }
    header[156] = kind;
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[test]
fn archives_that_become_much_are_refused_within_bounds() {
    let kurma = Kurma::with(&json!([]), "");
    let manifest =
        json!({"acKind": "ImageManifest", "acVersion": "0.7.4", "name": "krm.test/bomb"});
    let begin = entry("manifest", b'0', manifest.to_string().as_bytes());
    let mut paths = begin.clone();
    for number in 0..800 {
        let path = format!("rootfs/{number}/{}f\0", "d/".repeat(120));
        paths.extend(entry("long", b'L', path.as_bytes()));
        paths.extend(entry("x", b'0', b""));
    }
    // A name and an extension as long as all memory; a file that the archive does not have.
    let long = |kind| [begin.clone(), header("long", kind, 300 << 20)].concat();
    let bombs = [("paths", paths, 0), ("name", long(b'L'), 300), ("extension", long(b'x'), 300)];
    for (name, archive, more) in bombs {
        fs::write(kurma.world.path("/images/head"), archive).unwrap();
        let path = format!("/images/{name}.aci");
        kurma.world.sh(&format!(
            "cd /images; {{ cat head; head -c {more}M /dev/zero; head -c 1024 /dev/zero; }} | gzip -1 >{path}"
        ));
        let pull = format!("/opt/cni/bin/spoke kurma pull file://{path}");
        let said = kurma.world.try_sh(&format!("ulimit -v 196608; timeout 20 {pull}"));
        assert!(said.status != 0 && said.status < 124, "{name}: {said:?}");
        assert!(said.stderr.contains(&path) && !said.stderr.contains("memory"), "{name}: {said:?}");
        let left = kurma.world.sh("find /var/lib/spoke/images | wc -l");
        assert!(left.trim().parse::<usize>().unwrap() < 100, "{name}: {left}");
    }
}
