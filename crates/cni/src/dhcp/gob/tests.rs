use proptest::prelude::*;

use super::*;

static INNER: Record = Record { name: "Inner", fields: &[("Text", Shape::Text)] };
static LIST: Shape = Shape::Struct(&INNER);
static OUTER: Record = Record {
    name: "Outer",
    fields: &[
        ("Number", Shape::Int),
        ("Sequence", Shape::Uint),
        ("Raw", Shape::Bytes),
        ("Inner", Shape::List("[]Inner", &LIST)),
    ],
};

fn read_all(reader: &mut Reader, mut bytes: &[u8]) -> Vec<Value> {
    let mut values = Vec::new();
    while let Some((message, rest)) = frame(bytes).unwrap() {
        values.extend(reader.message(message).unwrap());
        bytes = rest;
    }
    assert!(bytes.is_empty());
    values
}

/// From the documentation of Go's package: `struct { X, Y int }{22, 33}` as type `Point`.
#[test]
fn reads_the_example_of_gos_documentation() {
    let bytes = [
        0x1f, 0xff, 0x81, 0x03, 0x01, 0x01, 0x05, 0x50, 0x6f, 0x69, 0x6e, 0x74, 0x01, 0xff, 0x82,
        0x00, 0x01, 0x02, 0x01, 0x01, 0x58, 0x01, 0x04, 0x00, 0x01, 0x01, 0x59, 0x01, 0x04, 0x00,
        0x00, 0x00, 0x07, 0xff, 0x82, 0x01, 0x2c, 0x01, 0x42, 0x00,
    ];
    let values = read_all(&mut Reader::new(), &bytes);
    assert_eq!((values[0].int("X"), values[0].int("Y")), (Some(22), Some(33)));
    static POINT: Record =
        Record { name: "Point", fields: &[("X", Shape::Int), ("Y", Shape::Int)] };
    assert_eq!(Writer::default().message(&POINT, &values[0]), bytes);
}

fn outer() -> impl Strategy<Value = Value> {
    let bytes = || proptest::collection::vec(any::<u8>(), 1..40);
    let inner =
        bytes().prop_map(|text| Value::Struct([("Text".into(), Value::Bytes(text))].into()));
    (any::<i64>(), 1u64.., bytes(), proptest::collection::vec(inner, 1..4)).prop_map(
        |(number, sequence, raw, inner)| {
            Value::Struct(
                [
                    ("Number".into(), Value::Int(number)),
                    ("Sequence".into(), Value::Uint(sequence)),
                    ("Raw".into(), Value::Bytes(raw)),
                    ("Inner".into(), Value::List(inner)),
                ]
                .into(),
            )
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(first in outer(), second in outer()) {
        let (mut writer, mut reader) = (Writer::default(), Reader::new());
        let bytes = [writer.message(&OUTER, &first), writer.message(&OUTER, &second)].concat();
        prop_assert_eq!(read_all(&mut reader, &bytes), vec![first, second]);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new();
        let mut rest = &bytes[..];
        while let Ok(Some((message, after))) = frame(rest) {
            let _ = reader.message(message);
            rest = after;
        }
        let _ = reader.message(&bytes);
    }

    #[test]
    fn damage_is_survived(value in outer(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = Writer::default().message(&OUTER, &value);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut reader = Reader::new();
        let mut rest = &bytes[..];
        while let Ok(Some((message, after))) = frame(rest) {
            let _ = reader.message(message);
            rest = after;
        }
    }
}

/// The memory of the values in bytes, without what the allocator adds.
fn size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(size).sum(),
            Value::Map(items) => items.iter().map(|(key, value)| size(key) + size(value)).sum(),
            Value::Struct(fields) => {
                600 + fields.iter().map(|(name, value)| name.len() + size(value)).sum::<usize>()
            }
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) => 0,
        }
}

/// Each of its structures is three bytes of the message, and a name of a kilobyte in memory.
#[test]
fn a_message_does_not_grow_in_memory() {
    static TEXT: Shape = Shape::Struct(&LONG);
    static LONG: Record = Record {
        name: "Long",
        fields: &[(
            concat!(
                "Nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
                "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
            ),
            Shape::Int,
        )],
    };
    static MANY: Record =
        Record { name: "Many", fields: &[("Each", Shape::List("[]Long", &TEXT))] };
    let of = |count: usize| {
        let one = Value::Struct([(LONG.fields[0].0.to_owned(), Value::Int(1))].into());
        let value = Value::Struct([("Each".into(), Value::List(vec![one; count]))].into());
        Writer::default().message(&MANY, &value)
    };
    let survived = |bytes: &[u8]| {
        let (mut reader, mut rest, mut most) = (Reader::new(), bytes, 0);
        while let Some((message, after)) = frame(rest).unwrap() {
            match reader.message(message) {
                Ok(value) => most = most.max(value.as_ref().map_or(0, size)),
                Err(error) => return Err(error),
            }
            rest = after;
        }
        Ok(most)
    };
    assert!(survived(&of(20)).unwrap() > 12_000, "what is usual is read");
    let large = of(300_000);
    assert!(large.len() < 1 << 20, "{}", large.len());
    assert!(survived(&large).is_err(), "a megabyte became {:?} bytes", survived(&large));
}
