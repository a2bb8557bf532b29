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
