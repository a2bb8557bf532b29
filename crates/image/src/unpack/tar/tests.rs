use super::*;
use crate::tests::{entry, tar};

fn paths(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut reader = bytes;
    let mut archive = Archive::new(&mut reader);
    let mut found = Vec::new();
    while let Some(entry) = archive.next()? {
        let mut content = Vec::new();
        archive.read_to_end(&mut content).map_err(broken)?;
        found.push((String::from_utf8_lossy(&entry.path).into_owned(), content));
    }
    archive.finish()?;
    Ok(found)
}

#[test]
fn long_names_are_read_in_each_way() {
    let long = "d/".repeat(100) + "f";
    let record = |text: &str| {
        let length = text.len() + 2;
        let length = length + length.to_string().len();
        format!("{length} {text}\n").into_bytes()
    };
    let pax = record(&format!("path={long}"));
    let gnu = [long.as_bytes(), b"\0"].concat();
    for extension in [("x", b'x', &pax[..], ""), ("x", b'L', &gnu[..], "")] {
        let bytes = tar(&[extension, ("short", b'0', b"c", ""), ("next", b'0', b"", "")]);
        let found = paths(&bytes).unwrap();
        assert_eq!(found[0], (long.clone(), b"c".to_vec()));
        assert_eq!(found[1].0, "next");
    }
    let global = tar(&[("g", b'g', &record("comment=x"), ""), ("a", b'0', b"c", "")]);
    assert_eq!(paths(&global).unwrap()[0].0, "a");
}

/// Capabilities 1 and 3 are a byte that looks like the end of a record.
#[test]
fn a_value_may_hold_the_end_of_a_line() {
    let record = b"38 SCHILY.xattr.security.capability=\n\n";
    let bytes = tar(&[("x", b'x', record, ""), ("a", b'0', b"", "")]);
    let mut reader = bytes.as_slice();
    let entry = Archive::new(&mut reader).next().unwrap().unwrap();
    assert_eq!(entry.capability.as_deref(), Some(&b"\n"[..]));
}

#[test]
fn numbers_beyond_octal_are_read() {
    let mut bytes = tar(&[("a", b'0', b"abc", "")]);
    bytes[108..116].copy_from_slice(&[0x80, 0, 0, 0, 0, 3, 2, 1]);
    bytes[148..156].copy_from_slice(b"        ");
    let sum: u32 = bytes[..512].iter().map(|byte| u32::from(*byte)).sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut reader = bytes.as_slice();
    let entry = Archive::new(&mut reader).next().unwrap().unwrap();
    assert_eq!(entry.uid, 0x03_02_01);
}

#[test]
fn damage_is_named() {
    let whole = tar(&[("a", b'0', b"abc", "")]);
    let cases: [(&[u8], &str); 6] = [
        (&whole[..600], "cut off"),
        (&whole[..1024], "cut off"),
        (&whole[..100], "cut off"),
        (&tar(&[("a", b'V', b"", "")]), "unknown type 'V'"),
        (&tar(&[("a", b'x', b"99 path=x\n", "")]), "extended header"),
        (&tar(&[("a", b'x', b"27 GNU.sparse.major=1\n", ""), ("b", b'0', b"", "")]), "header"),
    ];
    for (bytes, why) in cases {
        let error = paths(bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let mut bytes = whole.clone();
    bytes[0] = b'b';
    assert!(paths(&bytes).unwrap_err().to_string().contains("checksum"));
    let sparse = tar(&[("a", b'x', b"22 GNU.sparse.major=1\n", ""), ("b", b'0', b"", "")]);
    assert!(paths(&sparse).unwrap_err().to_string().contains("sparse"));
    assert_eq!(paths(&[entry(&("a", b'0', b"", "")), vec![0; 512]].concat()).unwrap().len(), 1);
}
