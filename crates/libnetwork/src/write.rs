//! JSON texts, with the fields in the order in which Go's engines write them.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;

/// A text that grows.
#[derive(Default)]
pub(super) struct Writer {
    out: String,
}

impl Writer {
    /// A body as an engine sends it: an object and the end of its line.
    pub(super) fn body(fields: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut writer = Self::default();
        writer.braced(fields);
        writer.out.push('\n');
        writer.out.into_bytes()
    }

    fn braced(&mut self, fields: impl FnOnce(&mut Self)) {
        self.separate();
        self.out.push('{');
        fields(self);
        self.out.push('}');
    }

    fn separate(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with(['{', '[', ':']) {
            self.out.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.separate();
        self.quoted(key);
        self.out.push(':');
    }

    fn quoted(&mut self, text: &str) {
        self.out.push_str(&Value::from(text).to_string());
    }

    /// A text; an empty one stands for none.
    pub(super) fn text(&mut self, key: &str, value: impl Display) {
        self.key(key);
        self.quoted(&value.to_string());
    }

    /// A text that may be missing, and is empty then.
    pub(super) fn perhaps(&mut self, key: &str, value: Option<impl Display>) {
        self.text(key, value.map(|value| value.to_string()).unwrap_or_default());
    }

    /// A truth value.
    pub(super) fn flag(&mut self, key: &str, value: bool) {
        self.raw(key, if value { "true" } else { "false" });
    }

    /// A whole number.
    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.raw(key, &value.to_string());
    }

    /// No value.
    pub(super) fn null(&mut self, key: &str) {
        self.raw(key, "null");
    }

    fn raw(&mut self, key: &str, value: &str) {
        self.key(key);
        self.out.push_str(value);
    }

    /// A map of texts.
    pub(super) fn texts(&mut self, key: &str, texts: &BTreeMap<String, String>) {
        self.object(key, |object| {
            for (key, value) in texts {
                object.text(key, value);
            }
        });
    }

    /// An object.
    pub(super) fn object(&mut self, key: &str, fields: impl FnOnce(&mut Self)) {
        self.key(key);
        self.braced(fields);
    }

    /// A list of texts.
    pub(super) fn list(&mut self, key: &str, items: impl Iterator<Item = String>) {
        self.key(key);
        self.out.push('[');
        for item in items {
            self.separate();
            self.quoted(&item);
        }
        self.out.push(']');
    }

    /// A list of objects.
    pub(super) fn objects<T>(&mut self, key: &str, items: &[T], each: fn(&T, &mut Self)) {
        self.key(key);
        self.out.push('[');
        for item in items {
            self.braced(|object| each(item, object));
        }
        self.out.push(']');
    }
}
