//! Reading a JSON document field by field, so that an error names the field and its value.
//!
//! `null` counts as absent and an empty string as no text, as they do for the reference plugins.
//! Nor does the case of a field's name count: the reference plugins are written in Go, whose JSON
//! reads `HostPort` where `hostPort` is meant, and there are runtimes that write it so.

use std::fmt::Display;
use std::str::FromStr;

use model::{Error, Result};
use serde_json::{Map, Value};

/// A value, and where in the document it stands.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    path: String,
    value: &'a Value,
}

/// An object, and where in the document it stands.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Node<'a> {
    /// The node called `path` in errors.
    pub fn new(path: impl Into<String>, value: &'a Value) -> Self {
        Self { path: path.into(), value }
    }

    /// The value as it stands there.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The error that the value is not `expected`.
    pub fn wrong(&self, expected: impl Display) -> Error {
        Error::invalid(format!("{:?} is {}, {expected}", self.path, shown(self.value)))
    }

    /// As an object.
    pub fn object(&self) -> Result<Object<'a>> {
        let map = self.value.as_object().ok_or_else(|| self.wrong("which is not an object"))?;
        Ok(Object { path: self.path.clone(), map })
    }

    /// As a list.
    pub fn list(&self) -> Result<Vec<Node<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("which is not a list"))?;
        let item = |(place, value)| Node::new(format!("{}[{place}]", self.path), value);
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// As text.
    pub fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("which is not a string"))
    }

    /// As text that means a `T`.
    pub fn parse<T: FromStr>(&self) -> Result<T>
    where
        T::Err: Display,
    {
        self.text()?.parse().map_err(|why| self.wrong(format!("which is wrong: {why}")))
    }

    /// As a truth value.
    pub fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("which is neither true nor false"))
    }

    /// As a whole number.
    pub fn integer(&self) -> Result<i64> {
        self.value.as_i64().ok_or_else(|| self.wrong("which is not a whole number"))
    }
}

impl<'a> Object<'a> {
    /// The object called `path` in errors; the document itself has an empty path.
    pub fn new(path: impl Into<String>, map: &'a Map<String, Value>) -> Self {
        Self { path: path.into(), map }
    }

    /// The field, unless it is absent or `null`: the one of exactly this name, or else the one
    /// whose name differs only in the case of ASCII letters.
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        let (written, value) = self.map.get_key_value(key).or_else(|| self.folded(key))?;
        (!value.is_null()).then(|| Node::new(self.path_of(written), value))
    }

    /// The field where it is `null`, however its name is written.
    pub fn null(&self, key: &str) -> Option<Node<'a>> {
        let is_it = |(written, value): &(&String, &Value)| {
            value.is_null() && written.eq_ignore_ascii_case(key)
        };
        let (written, value) = self.map.iter().find(is_it)?;
        Some(Node::new(self.path_of(written), value))
    }

    /// Every field that is not `null`.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        let present = self.map.iter().filter(|(_, value)| !value.is_null());
        present.map(|(key, value)| (key.as_str(), Node::new(self.path_of(key), value)))
    }

    /// The object in the field.
    pub fn object(&self, key: &str) -> Result<Option<Object<'a>>> {
        self.get(key).map(|node| node.object()).transpose()
    }

    /// The items of the list in the field; none where it is absent.
    pub fn list(&self, key: &str) -> Result<Vec<Node<'a>>> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |node| node.list())
    }

    /// The texts of the list in the field.
    pub fn texts(&self, key: &str) -> Result<Vec<String>> {
        self.list(key)?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    /// The text in the field, unless it is empty.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let text = self.get(key).map(|node| node.text()).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// The text in the field, unless it is empty, as a `T`.
    pub fn parse<T: FromStr>(&self, key: &str) -> Result<Option<T>>
    where
        T::Err: Display,
    {
        match self.text(key)? {
            None => Ok(None),
            Some(_) => self.get(key).map(|node| node.parse()).transpose(),
        }
    }

    /// The truth value in the field.
    pub fn maybe(&self, key: &str) -> Result<Option<bool>> {
        self.get(key).map(|node| node.flag()).transpose()
    }

    /// The truth value in the field; `false` where it is absent.
    pub fn flag(&self, key: &str) -> Result<bool> {
        Ok(self.maybe(key)?.unwrap_or(false))
    }

    /// The whole number in the field.
    pub fn integer(&self, key: &str) -> Result<Option<i64>> {
        self.get(key).map(|node| node.integer()).transpose()
    }

    fn folded(&self, key: &str) -> Option<(&'a String, &'a Value)> {
        self.map.iter().find(|(written, _)| written.eq_ignore_ascii_case(key))
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        }
    }
}

/// A value for an error message: short, whatever was sent.
pub(crate) fn shown(value: &Value) -> String {
    const LONGEST: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_names_field_and_value() {
        let document = json!({"ipam": {"ranges": [[{"subnet": 5}]], "mtu": "1500", "on": null}});
        let root = Object::new("", document.as_object().unwrap());
        let ipam = root.object("ipam").unwrap().unwrap();
        let error = ipam.integer("mtu").unwrap_err();
        assert_eq!(error.to_string(), "\"ipam.mtu\" is \"1500\", which is not a whole number");
        let range = &ipam.list("ranges").unwrap()[0].list().unwrap()[0];
        let error = range.object().unwrap().text("subnet").unwrap_err();
        assert!(error.to_string().starts_with("\"ipam.ranges[0][0].subnet\" is 5"), "{error}");
        assert!(!ipam.flag("on").unwrap());
    }

    #[test]
    fn the_case_of_a_name_does_not_count() {
        let document = json!({"HostPort": 1, "hostport": 2, "hostPort": 3, "IPAM": {"Type": "x"}});
        let root = Object::new("", document.as_object().unwrap());
        assert_eq!(root.integer("hostPort").unwrap(), Some(3));
        assert!(root.integer("HOSTPORT").unwrap().is_some());
        let ipam = root.object("ipam").unwrap().unwrap();
        assert_eq!(ipam.text("type").unwrap(), Some("x"));
        assert!(ipam.integer("type").unwrap_err().to_string().starts_with("\"IPAM.Type\" is"));
        assert!(root.get("hostPört").is_none());
    }

    #[test]
    fn a_long_value_is_cut() {
        assert!(shown(&json!("ä".repeat(4000))).chars().count() < 130);
    }
}
