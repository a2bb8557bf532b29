use super::*;

/// 2026-01-01.
const NOW: u64 = 1_767_225_600;

fn read(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name);
    std::fs::read(path).unwrap()
}

fn ring(names: &[&str]) -> Ring {
    let mut ring = Ring::default();
    for name in names {
        ring.add(&read(&format!("{name}.pub.asc")), NOW).unwrap();
    }
    ring
}

fn verify(ring: &Ring, signature: &str) -> Result<String> {
    let mut message = read("message.txt");
    let result = ring.verify(&read(signature), &mut message, NOW);
    assert_eq!(message, read("message.txt"));
    result
}

#[test]
fn good_signatures_are_good() {
    let all = ring(&["rsa2048", "rsa4096", "ed25519", "sub"]);
    for (key, signature) in [
        ("rsa2048", "rsa2048.sig.asc"),
        ("rsa2048", "sha256.sig.asc"),
        ("rsa4096", "rsa4096.sig.asc"),
        ("rsa4096", "binary.sig"),
        ("ed25519", "ed25519.sig.asc"),
        ("sub", "sub.sig.asc"),
    ] {
        let by = verify(&all, signature).unwrap();
        assert_eq!(ring(&[key]).fingerprints(), BTreeSet::from([by]), "{signature}");
    }
}

#[test]
fn bad_ones_are_not() {
    let all = ring(&["rsa2048", "ed25519"]);
    for (signature, why) in [
        ("rsa4096.sig.asc", "not among the configured keys"),
        ("sub.sig.asc", "not among the configured keys"),
        ("sha1.sig.asc", "broken"),
        ("over.sig.asc", "expired"),
        ("rsa2048.pub.asc", "no PGP SIGNATURE"),
        ("message.txt", "no PGP SIGNATURE"),
    ] {
        let error = verify(&all, signature).unwrap_err().to_string();
        assert!(error.contains(why), "{signature}: {error}");
    }
    let mut other = b"what is not signed\n".to_vec();
    for signature in ["rsa2048.sig.asc", "ed25519.sig.asc"] {
        let error = all.verify(&read(signature), &mut other, NOW).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied);
        assert!(error.to_string().contains("signature is wrong"), "{error}");
    }
    // Before it was made.
    let early = 1_600_000_000;
    let mut message = read("message.txt");
    assert!(all.verify(&read("rsa2048.sig.asc"), &mut message, early).is_err());
}

#[test]
fn keys_that_are_over_verify_nothing() {
    for (name, why) in [("old", "expired"), ("gone", "revoked")] {
        let mut ring = Ring::default();
        let error = ring.add(&read(&format!("{name}.pub.asc")), NOW).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let mut then = Ring::default();
    then.add(&read("old.pub.asc"), 1_579_500_000).unwrap();
    let mut message = read("message.txt");
    then.verify(&read("old.sig.asc"), &mut message, 1_579_500_000).unwrap();
}

/// A subkey counts only with the signatures that tie it to its key.
#[test]
fn a_subkey_must_belong() {
    let block = armor::blocks(&read("sub.pub.asc"), "PGP PUBLIC KEY BLOCK").unwrap().remove(0);
    let own = |tag: Tag| {
        packet::packets(&block).map(Result::unwrap).position(|packet| packet.tag == tag).unwrap()
    };
    assert_eq!(own(Tag::PublicKey), 0);
    let whole: Vec<usize> = packet::packets(&block)
        .map(|packet| packet.unwrap().body.as_ptr() as usize - block.as_ptr() as usize)
        .collect();
    // One bit in each packet behind the key itself.
    for start in &whole[1..] {
        let mut changed = block.clone();
        changed[start + 20] ^= 1;
        let mut ring = Ring::default();
        let found = ring.add(&changed, NOW).and_then(|()| verify(&ring, "sub.sig.asc"));
        let encrypts = *start >= whole[5];
        assert_eq!(found.is_ok(), encrypts, "{start}");
    }
}

#[test]
fn any_damage_is_noticed() {
    let all = ring(&["ed25519"]);
    let signature = armor::blocks(&read("ed25519.sig.asc"), "PGP SIGNATURE").unwrap().remove(0);
    let mut good = 0;
    for at in 0..signature.len() {
        for bit in 0..8 {
            let mut changed = signature.clone();
            changed[at] ^= 1 << bit;
            let mut message = read("message.txt");
            good += usize::from(all.verify(&changed, &mut message, NOW).is_ok());
        }
    }
    // The two bytes of the hash that are a hint, and the lengths of numbers in bits.
    assert!(good <= 16 + 32, "{good}");
}

/// Each signature that is checked takes as long as hashing the whole image.
#[test]
fn only_so_many_signatures_are_looked_at() {
    let ring = ring(&["rsa2048"]);
    let mut message = read("message.txt");
    let mut after = |count: usize| {
        let all = [read("ed25519.sig.asc").repeat(count), read("rsa2048.sig.asc")].concat();
        ring.verify(&all, &mut message, NOW)
    };
    after(MOST_SIGNATURES - 1).unwrap();
    let error = after(MOST_SIGNATURES).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains("first 16 signatures"), "{error}");
}
