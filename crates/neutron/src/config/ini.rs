//! Configuration files as oslo.config reads them: `[section]`, `key = value`, lines that begin with
//! white space continue with the value before, `#` and `;` begin comments, `$key` stands for
//! another value.

use std::collections::BTreeMap;

use model::{Error, Result};

/// A longer text is refused, in bytes.
const LONGEST: usize = 1 << 20;

/// The section of what stands before any section, and of what `$key` falls back to.
pub(super) const DEFAULT: &str = "DEFAULT";

/// Sections, keys, values. The last of several values of a key counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ini {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl Ini {
    /// Reads a whole file.
    pub(super) fn read(text: &str) -> Result<Self> {
        if text.len() > LONGEST {
            return Err(Error::invalid("it is larger than 1 MiB"));
        }
        let mut ini = Self::default();
        let (mut section, mut last) = (DEFAULT.to_owned(), None::<String>);
        for (number, line) in text.lines().enumerate() {
            let bad = |why: &str| Error::invalid(format!("line {}: {why}", number + 1));
            let plain = line.trim();
            if plain.is_empty() {
                last = None;
                continue;
            }
            if line.starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with([' ', '\t']) {
                let key = last.as_ref().ok_or_else(|| bad("it goes on with nothing"))?;
                ini.extend(&section, key, plain);
                continue;
            }
            if let Some(rest) = plain.strip_prefix('[') {
                let name = rest.strip_suffix(']').ok_or_else(|| bad("a section ends with ]"))?;
                (section, last) = (name.trim().to_owned(), None);
                continue;
            }
            let (key, value) =
                plain.split_once(['=', ':']).ok_or_else(|| bad("give KEY = VALUE"))?;
            let key = key.trim().to_ascii_lowercase().replace('-', "_");
            if key.is_empty() {
                return Err(bad("the key is missing"));
            }
            let values = ini.sections.entry(section.clone()).or_default();
            values.insert(key.clone(), unquoted(value.trim()).to_owned());
            last = Some(key);
        }
        Ok(ini)
    }

    fn extend(&mut self, section: &str, key: &str, more: &str) {
        let value = self.sections.get_mut(section).and_then(|section| section.get_mut(key));
        if let Some(value) = value {
            value.push('\n');
            value.push_str(more);
        }
    }

    /// A value with what it stands for put in; none where it is missing or empty.
    pub(super) fn get(&self, section: &str, key: &str) -> Option<String> {
        let value = self.raw(section, key)?;
        Some(self.filled_in(section, value)).filter(|value| !value.is_empty())
    }

    /// The keys of a section.
    pub(super) fn keys(&self, section: &str) -> impl Iterator<Item = &str> {
        self.sections.get(section).into_iter().flatten().map(|(key, _)| key.as_str())
    }

    /// The sections.
    pub(super) fn sections(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }

    fn raw(&self, section: &str, key: &str) -> Option<&String> {
        self.sections.get(section)?.get(key)
    }

    /// `$key` and `${key}` of the same section or of `DEFAULT`, not of what those stand for in turn;
    /// `$$` is a dollar. What is not known stays as it is.
    fn filled_in(&self, section: &str, value: &str) -> String {
        let mut text = String::with_capacity(value.len());
        let mut rest = value;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before.strip_suffix('\\').unwrap_or(before));
            if before.ends_with('\\') {
                text.push('$');
                rest = after;
                continue;
            }
            if let Some(after) = after.strip_prefix('$') {
                text.push('$');
                rest = after;
                continue;
            }
            let (name, after_name) = name(after);
            let known = self.raw(section, name).or_else(|| self.raw(DEFAULT, name));
            match known.filter(|_| !name.is_empty()) {
                Some(known) => {
                    text.push_str(known);
                    rest = after_name;
                }
                None => {
                    text.push('$');
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        text
    }
}

/// The name at the beginning, and what comes after it.
fn name(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        return (name, rest);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split_at(text.find(|c| !is_plain(c)).unwrap_or(text.len()))
}

fn unquoted(value: &str) -> &str {
    let within = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_as_oslo_does() {
        let ini = Ini::read(
            "top = 1\n# c\n; c\n[neutron]\nauth-url: http://k/v3\npassword = \"a = b # c\"\n\
             list = one,\n  two\n\nlast = 1\nlast=2\nempty =\n[ DEFAULT ]\nbase = /opt\n\
             [binding]\nbindir = ${base}/x$base$$y$none\\$z\n",
        )
        .unwrap();
        for (section, key, value) in [
            (DEFAULT, "top", "1"),
            ("neutron", "auth_url", "http://k/v3"),
            ("neutron", "password", "a = b # c"),
            ("neutron", "list", "one,\ntwo"),
            ("neutron", "last", "2"),
            ("binding", "bindir", "/opt/x/opt$y$none$z"),
        ] {
            assert_eq!(ini.get(section, key).as_deref(), Some(value), "{key}");
        }
        assert_eq!(ini.get("neutron", "empty"), None);
        assert_eq!(ini.sections().count(), 3);
    }

    #[test]
    fn says_which_line() {
        for (text, word) in [
            ("[a\n", "line 1: a section"),
            ("x = 1\n\nwords\n", "line 3: give KEY"),
            ("  x = 1", "line 1: it goes on"),
            ("= 1", "line 1: the key"),
        ] {
            let error = Ini::read(text).unwrap_err().to_string();
            assert!(error.starts_with(word), "{error}");
        }
        assert_eq!(Ini::read(&"#".repeat(LONGEST + 1)).unwrap_err().kind(), model::Kind::Invalid);
    }

    proptest! {
        #[test]
        fn never_fails_otherwise(text in "(?s).{0,300}") {
            if let Ok(ini) = Ini::read(&text) {
                let sections: Vec<_> = ini.sections().map(ToOwned::to_owned).collect();
                for section in sections {
                    for key in ini.keys(&section) {
                        let _ = ini.get(&section, key);
                    }
                }
            }
        }

        #[test]
        fn keeps_values(value in "[a-zA-Z0-9/:._,=#-]{1,40}") {
            let ini = Ini::read(&format!("[s]\nkey = {value}\n")).unwrap();
            prop_assert_eq!(ini.get("s", "key"), Some(value));
        }
    }
}
