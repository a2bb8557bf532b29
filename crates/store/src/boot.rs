//! Which boot of the kernel this is.

use model::{Error, Result};

const SOURCE: &str = "/proc/sys/kernel/random/boot_id";

/// The running kernel's boot id: a UUID that is another one after each boot (random(4)).
///
/// Fails where `/proc` is not mounted or holds no UUID.
pub fn boot_id() -> Result<String> {
    let text = std::fs::read_to_string(SOURCE)
        .map_err(|cause| Error::os(format!("cannot read the boot id from {SOURCE}"), cause))?;
    let id = text.trim_end();
    if is_boot_id(id) {
        Ok(id.to_owned())
    } else {
        Err(Error::invalid(format!("{SOURCE} holds {id:?}, which is no boot id; mount /proc")))
    }
}

/// Whether `text` is a UUID in lower case: also what makes it safe as the name of a directory.
pub(crate) fn is_boot_id(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => digit(byte),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_running_kernels() {
        assert!(is_boot_id(&boot_id().unwrap()));
    }

    #[test]
    fn accepts_nothing_that_is_a_path() {
        assert!(is_boot_id("0f3a6c1e-0000-4000-8000-00000000000a"));
        for bad in [
            "",
            "..",
            "0f3a6c1e-0000-4000-8000-00000000000A",
            "0f3a6c1e/0000-4000-8000-00000000000a",
        ] {
            assert!(!is_boot_id(bad), "{bad:?}");
        }
    }
}
