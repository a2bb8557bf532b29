//! From bytes to values. Nothing is believed: lengths are compared with what exists, and depth and
//! types are bounded.

use std::collections::BTreeMap;

use model::{Error, Result};

use super::{LONGEST, Value};

/// Values are not nested deeper than this.
const DEPTH: usize = 24;
/// A stream does not define more types than this.
const TYPES: usize = 128;
/// The limit of values in memory, in bytes, beside [`SHARE`] of the message: for the types of a
/// stream, and for an answer with many routes.
const ROOM: usize = 8 << 20;
/// A small message does not get all of it: bytes of memory for each byte of the message.
const SHARE: usize = 256;
/// A structure with one field takes this, its map's first node above all.
const STRUCT: usize = 1 << 10;
/// The first number that is not Go's own.
const FIRST: i64 = 64;

/// `wireType`, and the types that it is made of: a stream says nothing of them.
const WIRE: i64 = 16;
const COMMON: i64 = 18;
const FIELD: i64 = 21;
const FIELDS: i64 = 22;
/// Those of Go's own numbers that are free to stand for a type that encodes itself.
const ENCODER: i64 = 30;

#[derive(Clone, Debug)]
enum Type {
    List(i64),
    Map(i64, i64),
    Struct(Vec<(String, i64)>),
    /// Encodes itself: bytes.
    Encoded,
}

/// Reads the messages of one stream, in order.
#[derive(Debug)]
pub(crate) struct Reader {
    types: BTreeMap<i64, Type>,
}

impl Reader {
    /// At a stream's start.
    pub(crate) fn new() -> Self {
        let fields = |list: &[(&str, i64)]| {
            Type::Struct(list.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect())
        };
        let own = [
            (
                WIRE,
                fields(&[
                    ("Array", 17),
                    ("Slice", 19),
                    ("Struct", 20),
                    ("Map", 23),
                    ("Gob", ENCODER),
                    ("Binary", ENCODER),
                    ("Text", ENCODER),
                ]),
            ),
            (17, fields(&[("Common", COMMON), ("Elem", 2), ("Len", 2)])),
            (COMMON, fields(&[("Name", 6), ("Id", 2)])),
            (19, fields(&[("Common", COMMON), ("Elem", 2)])),
            (20, fields(&[("Common", COMMON), ("Field", FIELDS)])),
            (FIELD, fields(&[("Name", 6), ("Id", 2)])),
            (FIELDS, Type::List(FIELD)),
            (23, fields(&[("Common", COMMON), ("Key", 2), ("Elem", 2)])),
            (ENCODER, fields(&[("Common", COMMON)])),
        ];
        Self { types: own.into() }
    }

    /// Reads a message without its length: a value, or `None` where it defines a type.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] if it is none.
    pub(crate) fn message(&mut self, bytes: &[u8]) -> Result<Option<Value>> {
        let room = bytes.len().saturating_mul(SHARE).clamp(64 << 10, ROOM);
        let mut input = Input { bytes, room: room.saturating_add(2 * bytes.len()) };
        let id = input.int()?;
        if id >= 0 {
            return self.top(id, &mut input).map(Some);
        }
        let id = id.checked_neg().filter(|id| *id >= FIRST).ok_or_else(|| broken("a type"))?;
        if self.types.contains_key(&id) || self.types.len() >= TYPES {
            return Err(broken("a type that is defined twice, or one too many"));
        }
        let definition = self.value(WIRE, &mut input, 0)?;
        let defined = define(&definition).ok_or_else(|| broken("the definition of a type"))?;
        self.types.insert(id, defined);
        Ok(None)
    }

    fn top(&self, id: i64, input: &mut Input<'_>) -> Result<Value> {
        // A value that is no structure is treated as a structure's only field.
        if !matches!(self.types.get(&id), Some(Type::Struct(_))) && input.uint()? != 0 {
            return Err(broken("a value"));
        }
        self.value(id, input, 0)
    }

    fn value(&self, id: i64, input: &mut Input<'_>, depth: usize) -> Result<Value> {
        if depth > DEPTH {
            return Err(broken("something nested too deeply"));
        }
        input.charge(2 * size_of::<Value>())?;
        Ok(match id {
            1 => Value::Bool(input.uint()? != 0),
            2 => Value::Int(input.int()?),
            3 => Value::Uint(input.uint()?),
            4 => Value::Float(f64::from_bits(input.uint()?.swap_bytes())),
            5 | 6 => Value::Bytes(input.owned()?),
            _ => match self.types.get(&id) {
                Some(Type::Encoded) => Value::Bytes(input.owned()?),
                Some(Type::List(element)) => {
                    let read = |input: &mut Input<'_>| self.value(*element, input, depth + 1);
                    Value::List(input.many(read)?)
                }
                Some(Type::Map(key, element)) => Value::Map(input.many(|input| {
                    Ok((
                        self.value(*key, input, depth + 1)?,
                        self.value(*element, input, depth + 1)?,
                    ))
                })?),
                Some(Type::Struct(fields)) => self.structure(fields, input, depth)?,
                None => return Err(broken("a type that is not defined")),
            },
        })
    }

    fn structure(
        &self,
        fields: &[(String, i64)],
        input: &mut Input<'_>,
        depth: usize,
    ) -> Result<Value> {
        let mut values = BTreeMap::new();
        let mut next = 0;
        loop {
            let skipped = match usize::try_from(input.uint()?) {
                Ok(0) => return Ok(Value::Struct(values)),
                Ok(delta) => delta - 1,
                Err(_) => return Err(broken("a field")),
            };
            let at = skipped.checked_add(next).filter(|at| *at < fields.len());
            let at = at.ok_or_else(|| broken("a field that its type does not have"))?;
            let (name, id) = &fields[at];
            input.charge(
                name.len() + if values.is_empty() { STRUCT } else { 2 * size_of::<String>() },
            )?;
            values.insert(name.clone(), self.value(*id, input, depth + 1)?);
            next = at + 1;
        }
    }
}

/// The type that a `wireType` describes.
fn define(wire: &Value) -> Option<Type> {
    let Value::Struct(fields) = wire else { return None };
    let (name, of) = fields.first_key_value().filter(|_| fields.len() == 1)?;
    let number = |name: &str| of.int(name);
    Some(match name.as_str() {
        "Array" | "Slice" => Type::List(number("Elem")?),
        "Map" => Type::Map(number("Key")?, number("Elem")?),
        "Struct" => Type::Struct(
            of.list("Field")
                .iter()
                .map(|field| Some((field.text("Name"), field.int("Id")?)))
                .collect::<Option<_>>()?,
        ),
        _ => Type::Encoded,
    })
}

/// The message at the start of `bytes`, without its length, and what follows it; `None` if more bytes
/// must come first.
///
/// # Errors
/// [`model::Kind::Invalid`] if it is longer than [`LONGEST`].
pub(crate) fn frame(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let Some(first) = bytes.first() else { return Ok(None) };
    if *first >= 0x80 && bytes.len() <= usize::from(first.wrapping_neg()) {
        return if first.wrapping_neg() > 8 { Err(broken("a length")) } else { Ok(None) };
    }
    let mut input = Input { bytes, room: 0 };
    let length = usize::try_from(input.uint()?).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| broken("a message that is too long"))?;
    Ok(input.bytes.split_at_checked(length))
}

struct Input<'a> {
    bytes: &'a [u8],
    /// How much memory what is read may still take.
    room: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(|| broken("its end"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Below 128 a byte; otherwise the negated number of bytes, and those.
    fn uint(&mut self) -> Result<u64> {
        let first = self.take(1)?[0];
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let count = usize::from(first.wrapping_neg());
        if count > 8 {
            return Err(broken("a number"));
        }
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The sign is the lowest bit; then all others are inverted.
    fn int(&mut self) -> Result<i64> {
        let number = self.uint()?;
        let half = (number >> 1).cast_signed();
        Ok(if number & 1 == 1 { !half } else { half })
    }

    fn counted(&mut self) -> Result<&'a [u8]> {
        let count = usize::try_from(self.uint()?).map_err(|_| broken("a length"))?;
        self.take(count)
    }

    fn owned(&mut self) -> Result<Vec<u8>> {
        let bytes = self.counted()?;
        self.charge(bytes.len())?;
        Ok(bytes.to_vec())
    }

    /// A few bytes can stand for a structure whose fields have long names.
    fn charge(&mut self, bytes: usize) -> Result<()> {
        let rest = self.room.checked_sub(bytes).ok_or_else(|| broken("more"))?;
        self.room = rest;
        Ok(())
    }

    fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = usize::try_from(self.uint()?).map_err(|_| broken("a length"))?;
        // Each is a byte at least.
        if count > self.bytes.len() {
            return Err(broken("a length"));
        }
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(read(self)?);
        }
        Ok(values)
    }
}

fn broken(what: &str) -> Error {
    Error::invalid(format!("this is no gob: it has {what} that cannot be read"))
}
