//! Which files of attachments may name a container, before they are decoded: that takes several times as long as
//! reading them.

/// A name, as it stands in a file that has it.
#[derive(Debug)]
pub(super) struct Naming {
    /// Where a text begins with it: an id, a sandbox's name, an owner's.
    first: String,
    /// Where it is the last part of an owner's name.
    last: String,
}

impl Naming {
    /// None where any file may have it.
    pub(super) fn of(name: &str) -> Option<Self> {
        let is_plain = |c: char| c != '"' && c != '\\' && !c.is_control();
        let is_sought = !name.is_empty() && name.chars().all(is_plain);
        is_sought.then(|| Self { first: format!("\"{name}"), last: format!("/{name}\"") })
    }

    /// Whether a file with these contents may hold the name. JSON may write any character in another way, with a
    /// backslash: such a file is decoded, as is one that is no text.
    pub(super) fn may_be_in(&self, bytes: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(bytes) else { return true };
        text.contains(&self.first) || text.contains(&self.last) || bytes.contains(&b'\\')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_however_it_is_written() {
        let naming = Naming::of("web").unwrap();
        for text in [r#"{"id":"web"}"#, r#"["website"]"#, r#"["a/b/web"]"#, r#"["\u0077eb"]"#] {
            assert!(naming.may_be_in(text.as_bytes()), "{text}");
        }
        assert!(naming.may_be_in(&[0xff]));
        for text in [r#"["a-web"]"#, r#"["a/website"]"#, r#"{"id":"db"}"#] {
            assert!(!naming.may_be_in(text.as_bytes()), "{text}");
        }
        for name in ["", "a\"b", "a\\b", "a\nb"] {
            assert!(Naming::of(name).is_none(), "{name:?}");
        }
    }
}
