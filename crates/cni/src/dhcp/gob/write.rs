//! Writes values as gob.

use super::{Record, Shape, Value};

/// The first number that is not Go's own is 64, and 65 is what Go itself begins with.
const FIRST: i64 = 65;

/// Writes the messages of one stream, in order.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The types defined so far, by name; the number is [`FIRST`] plus the place.
    known: Vec<&'static str>,
}

impl Writer {
    /// `value` as a message, after the definitions that it needs. What `record` has no field for, or
    /// another kind of field, is left out.
    pub(crate) fn message(&mut self, record: &'static Record, value: &Value) -> Vec<u8> {
        let mut stream = Vec::new();
        let id = self.define_record(record, &mut stream);
        let mut body = Vec::new();
        int(&mut body, id);
        structure(&mut body, record, value);
        framed(&mut stream, &body);
        stream
    }

    fn define(&mut self, shape: &'static Shape, stream: &mut Vec<u8>) -> i64 {
        match shape {
            Shape::Int => 2,
            Shape::Uint => 3,
            Shape::Bytes => 5,
            Shape::Text => 6,
            Shape::List(name, element) => self.define_list(name, element, stream),
            Shape::Struct(record) => self.define_record(record, stream),
        }
    }

    fn number(&mut self, name: &'static str) -> (i64, bool) {
        let at = self.known.iter().position(|known| *known == name);
        let is_known = at.is_some();
        let at = at.unwrap_or_else(|| {
            self.known.push(name);
            self.known.len() - 1
        });
        (FIRST + i64::try_from(at).unwrap_or_default(), is_known)
    }

    fn define_list(
        &mut self,
        name: &'static str,
        element: &'static Shape,
        stream: &mut Vec<u8>,
    ) -> i64 {
        let (id, is_known) = self.number(name);
        if !is_known {
            let element = self.define(element, stream);
            let mut body = Vec::new();
            int(&mut body, -id);
            // wireType.SliceT, its CommonType, its Elem.
            uint(&mut body, 2);
            uint(&mut body, 1);
            common(&mut body, name, id);
            uint(&mut body, 1);
            int(&mut body, element);
            body.extend([0, 0]);
            framed(stream, &body);
        }
        id
    }

    fn define_record(&mut self, record: &'static Record, stream: &mut Vec<u8>) -> i64 {
        let (id, is_known) = self.number(record.name);
        if !is_known {
            let fields: Vec<(&str, i64)> = record
                .fields
                .iter()
                .map(|(name, shape)| (*name, self.define(shape, stream)))
                .collect();
            let mut body = Vec::new();
            int(&mut body, -id);
            // wireType.StructT, its CommonType, its Field.
            uint(&mut body, 3);
            uint(&mut body, 1);
            common(&mut body, record.name, id);
            if !fields.is_empty() {
                uint(&mut body, 1);
                uint(&mut body, fields.len() as u64);
                fields.iter().for_each(|(name, id)| named(&mut body, name, *id));
            }
            body.extend([0, 0]);
            framed(stream, &body);
        }
        id
    }
}

/// A structure of a name and a number.
fn named(body: &mut Vec<u8>, name: &str, id: i64) {
    uint(body, 1);
    counted(body, name.as_bytes());
    uint(body, 1);
    int(body, id);
    body.push(0);
}

fn common(body: &mut Vec<u8>, name: &str, id: i64) {
    named(body, name, id);
}

fn structure(body: &mut Vec<u8>, record: &Record, value: &Value) {
    let mut last = 0;
    for (at, (name, shape)) in record.fields.iter().enumerate() {
        let Some(value) = value.field(name).filter(|value| !is_zero(value)) else { continue };
        let before = body.len();
        uint(body, (at + 1 - last) as u64);
        if write(body, shape, value) {
            last = at + 1;
        } else {
            body.truncate(before);
        }
    }
    body.push(0);
}

/// Zero fields of structures are left out; a number may be behind a pointer, where zero says
/// something, and is written.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(values) => values.is_empty(),
        Value::Uint(number) => *number == 0,
        _ => false,
    }
}

/// Whether `value` is of that shape.
fn write(body: &mut Vec<u8>, shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Int, Value::Int(number)) => int(body, *number),
        (Shape::Uint, Value::Uint(number)) => uint(body, *number),
        (Shape::Bytes | Shape::Text, Value::Bytes(bytes)) => counted(body, bytes),
        (Shape::List(_, element), Value::List(values)) => {
            uint(body, values.len() as u64);
            return values.iter().all(|value| write(body, element, value));
        }
        (Shape::Struct(record), Value::Struct(_)) => structure(body, record, value),
        _ => return false,
    }
    true
}

fn framed(stream: &mut Vec<u8>, body: &[u8]) {
    counted(stream, body);
}

fn counted(body: &mut Vec<u8>, bytes: &[u8]) {
    uint(body, bytes.len() as u64);
    body.extend_from_slice(bytes);
}

fn uint(body: &mut Vec<u8>, number: u64) {
    match u8::try_from(number) {
        Ok(byte) if byte < 0x80 => body.push(byte),
        _ => {
            let bytes = number.to_be_bytes();
            let zeros = (number.leading_zeros() / 8) as usize;
            body.push(((8 - zeros) as u8).wrapping_neg());
            body.extend_from_slice(&bytes[zeros..]);
        }
    }
}

fn int(body: &mut Vec<u8>, number: i64) {
    let half = number.cast_unsigned();
    uint(body, if number < 0 { !half << 1 | 1 } else { half << 1 });
}
