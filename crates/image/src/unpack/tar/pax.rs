//! Extended headers: `LENGTH KEYWORD=VALUE\n`, again and again.

use model::{Error, Result};

/// An extended header's properties of the next entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Extension {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) modified: Option<i64>,
    pub(super) capability: Option<Vec<u8>>,
    pub(super) is_sparse: bool,
}

impl Extension {
    /// Adds what `bytes` say; the later one counts.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (keyword, value, rest) = record(bytes).ok_or_else(wrong)?;
            bytes = rest;
            match keyword {
                b"path" => self.path = Some(name(value)?),
                b"linkpath" => self.link = Some(name(value)?),
                b"size" => self.size = Some(number(value)?),
                b"uid" => self.uid = Some(number(value)?),
                b"gid" => self.gid = Some(number(value)?),
                // Fractions and times before 1970 are of no use here.
                b"mtime" => self.modified = number(whole(value)).ok(),
                b"SCHILY.xattr.security.capability" => self.capability = Some(value.to_vec()),
                _ if keyword.starts_with(b"GNU.sparse.") => self.is_sparse = true,
                _ => {}
            }
        }
        if self.size.is_some_and(|size| size > 1 << 60) {
            return Err(wrong());
        }
        Ok(())
    }
}

/// Keyword and value of the first record, and what follows it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = number(&bytes[..blank]).ok()?;
    if length > bytes.len() {
        return None;
    }
    let (record, rest) = bytes.split_at(length);
    let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
}

fn name(value: &[u8]) -> Result<Vec<u8>> {
    match value.contains(&0) {
        true => Err(wrong()),
        false => Ok(value.to_vec()),
    }
}

fn whole(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b'.').next().unwrap_or_default()
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(value).map_err(|_| wrong())?;
    text.parse().map_err(|_| wrong())
}

fn wrong() -> Error {
    Error::invalid("its tar archive is damaged: an extended header is not valid")
}
