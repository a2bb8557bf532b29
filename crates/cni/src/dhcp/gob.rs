//! Gob, the encoding of Go's `encoding/gob`: as much of it as remote calls need.
//!
//! A stream is a sequence of messages, each preceded by its length. A message defines a type by a
//! number, or is a value of one. Types have the names of their fields, so the result of reading is
//! a tree of [`Value`]s with names, whatever else the sender's types have.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

pub(crate) use read::{Reader, frame};
pub(crate) use write::Writer;

/// A message longer than this is refused: a configuration with its previous result is some kilobytes.
pub(crate) const LONGEST: usize = 1 << 20;

/// The contents of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `bool`.
    Bool(bool),
    /// Every signed integer.
    Int(i64),
    /// Every unsigned integer.
    Uint(u64),
    /// Every floating-point number.
    Float(f64),
    /// Strings, slices of bytes, and what encodes itself.
    Bytes(Vec<u8>),
    /// Slices and arrays.
    List(Vec<Value>),
    /// Maps.
    Map(Vec<(Value, Value)>),
    /// Structures; a field that is not there is zero.
    Struct(BTreeMap<String, Value>),
}

impl Value {
    /// The field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Struct(fields) => fields.get(name),
            _ => None,
        }
    }

    /// The bytes of the field of this name; none where it is not there.
    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        match self.field(name) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    /// The text of the field of this name; what is not UTF-8 becomes U+FFFD.
    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }

    /// The elements of the field of this name; none where it is not there.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        match self.field(name) {
            Some(Value::List(values)) => values,
            _ => &[],
        }
    }

    /// The signed integer in the field of this name.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.field(name) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }
}

/// A type that is written.
#[derive(Debug)]
pub(crate) enum Shape {
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `[]byte`.
    Bytes,
    /// `string`.
    Text,
    /// A slice; its name is Go's way to write it.
    List(&'static str, &'static Shape),
    /// A structure.
    Struct(&'static Record),
}

/// A structure that is written.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its name, for people: Go matches fields alone.
    pub(crate) name: &'static str,
    /// Its fields.
    pub(crate) fields: &'static [(&'static str, Shape)],
}
