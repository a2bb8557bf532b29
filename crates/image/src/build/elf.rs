//! For which processors a program is (ELF, System V ABI chapters 4 and 5).

use model::{Error, Result};

/// The architecture that a program is for, as Go calls it. `start` is how it begins.
///
/// # Errors
/// [`Invalid`](model::Kind::Invalid) when it is no program of Linux, or needs libraries.
pub(super) fn architecture(start: &[u8]) -> Result<&'static str> {
    let bad = |why: &str| Error::invalid(format!("the program {why}"));
    if !start.starts_with(b"\x7fELF") {
        return Err(bad("is no ELF file"));
    }
    let (is_64, is_big) = match start.get(4..6) {
        Some([1, 1]) => (false, false),
        Some([1, 2]) => (false, true),
        Some([2, 1]) => (true, false),
        Some([2, 2]) => (true, true),
        _ => return Err(bad("is no ELF file that is known")),
    };
    let file = Elf { start, is_64, is_big };
    if file.needs_libraries().ok_or_else(|| bad("has a damaged header"))? {
        return Err(bad(
            "is not statically linked, and an image has no libraries for it: build a static one (Go: \
             CGO_ENABLED=0; C: cc -static; Rust: --target …-linux-musl)",
        ));
    }
    Ok(match (file.number(18, 2), is_64, is_big) {
        (Some(62), true, false) => "amd64",
        (Some(183), true, false) => "arm64",
        (Some(3), false, false) => "386",
        (Some(40), false, false) => "arm",
        (Some(243), true, false) => "riscv64",
        (Some(22), true, true) => "s390x",
        (Some(21), true, false) => "ppc64le",
        (Some(258), true, false) => "loong64",
        _ => return Err(bad("is for a processor that is not known")),
    })
}

struct Elf<'a> {
    start: &'a [u8],
    is_64: bool,
    is_big: bool,
}

impl Elf<'_> {
    /// Whether it has a PT_INTERP.
    fn needs_libraries(&self) -> Option<bool> {
        let (at, size, count) = match self.is_64 {
            true => (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?),
            false => (self.number(28, 4)?, self.number(42, 2)?, self.number(44, 2)?),
        };
        for index in 0..count {
            let header = at.checked_add(index.checked_mul(size)?)?;
            if self.number(header, 4)? == 3 {
                return Some(true);
            }
        }
        Some(false)
    }

    fn number(&self, at: u64, length: usize) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let bytes = self.start.get(at..at.checked_add(length)?)?;
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(match self.is_big {
            true => bytes.iter().fold(0, add),
            false => bytes.iter().rev().fold(0, add),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_programs() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let found = architecture(&own);
        let host = crate::manifest::Platform::host().architecture;
        assert!(found.is_err() || found.unwrap() == host);
        for bad in [&b"#!/bin/sh"[..], b"\x7fELF", b"\x7fELF\x02\x01\x01", b""] {
            assert!(architecture(bad).is_err());
        }
    }

    #[test]
    fn refuses_what_needs_libraries() {
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = 62;
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        assert_eq!(architecture(&elf).unwrap(), "amd64");
        elf[64] = 3;
        assert!(architecture(&elf).unwrap_err().to_string().contains("statically"));
        elf[32] = 255;
        assert!(architecture(&elf).is_err());
    }
}
