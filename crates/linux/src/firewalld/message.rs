//! Messages of D-Bus with nothing but strings in them (D-Bus Specification 0.43, "Message Protocol").

use model::{Error, Result};

/// The length of a message before its header fields.
pub(super) const FIXED: usize = 16;
/// No answer of firewalld's is near this long.
const LONGEST: usize = 64 << 10;

const LITTLE_ENDIAN: u8 = b'l';
const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
/// The bus does not start the called service.
const NO_AUTO_START: u8 = 2;
const VERSION: u8 = 1;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// A method of an object on the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method<'a> {
    pub(crate) destination: &'a str,
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) name: &'a str,
}

/// The arguments of a call, each at its alignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The types of them all.
    signature: String,
    body: Vec<u8>,
}

impl Arguments {
    /// Strings.
    pub(super) fn strings(all: &[&str]) -> Self {
        all.iter().fold(Self::default(), |arguments, text| arguments.string(text))
    }

    pub(crate) fn string(mut self, text: &str) -> Self {
        self.signature.push('s');
        string(&mut self.body, text);
        self
    }

    /// A signed number, of 32 bits.
    pub(crate) fn integer(mut self, value: i32) -> Self {
        self.signature.push('i');
        align(&mut self.body, 4);
        self.body.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.signature.push('b');
        align(&mut self.body, 4);
        number(&mut self.body, value.into());
        self
    }

    /// An array of structures: `kind` is the type of its elements, without the brackets.
    pub(crate) fn structures(mut self, kind: &str, all: &[Structure]) -> Self {
        self.signature.push_str(&format!("a({kind})"));
        let mut elements = Vec::new();
        for Structure(bytes) in all {
            align(&mut elements, 8);
            elements.extend(bytes);
        }
        align(&mut self.body, 4);
        number(&mut self.body, length(&elements));
        align(&mut self.body, 8);
        self.body.extend(elements);
        self
    }
}

/// A structure in an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Structure(Vec<u8>);

impl Structure {
    pub(crate) fn integer(mut self, value: i32) -> Self {
        align(&mut self.0, 4);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn short(mut self, value: u16) -> Self {
        align(&mut self.0, 2);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        align(&mut self.0, 4);
        number(&mut self.0, length(value));
        self.0.extend(value);
        self
    }

    pub(crate) fn string(mut self, text: &str) -> Self {
        string(&mut self.0, text);
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        align(&mut self.0, 4);
        number(&mut self.0, value.into());
        self
    }
}

/// A call with this number and these arguments.
pub(super) fn call(serial: u32, method: &Method<'_>, arguments: &Arguments) -> Vec<u8> {
    let Arguments { signature: types, body } = arguments;
    let mut fields = Vec::new();
    field(&mut fields, PATH, "o", method.path);
    field(&mut fields, INTERFACE, "s", method.interface);
    field(&mut fields, MEMBER, "s", method.name);
    field(&mut fields, DESTINATION, "s", method.destination);
    if !types.is_empty() {
        field(&mut fields, SIGNATURE, "g", types);
    }
    let mut message = vec![LITTLE_ENDIAN, CALL, NO_AUTO_START, VERSION];
    number(&mut message, length(body));
    number(&mut message, serial);
    number(&mut message, length(&fields));
    message.extend(fields);
    align(&mut message, 8);
    message.extend(body);
    message
}

/// Only texts of Spoke's own: a few hundred bytes.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn field(fields: &mut Vec<u8>, code: u8, kind: &str, value: &str) {
    align(fields, 8);
    fields.push(code);
    signature(fields, kind);
    match kind {
        "g" => signature(fields, value),
        _ => string(fields, value),
    }
}

fn string(to: &mut Vec<u8>, text: &str) {
    align(to, 4);
    number(to, length(text.as_bytes()));
    to.extend(text.as_bytes());
    to.push(0);
}

fn signature(to: &mut Vec<u8>, text: &str) {
    to.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    to.extend(text.as_bytes());
    to.push(0);
}

fn number(to: &mut Vec<u8>, number: u32) {
    to.extend(number.to_le_bytes());
}

fn align(to: &mut Vec<u8>, to_multiple: usize) {
    to.resize(to.len().next_multiple_of(to_multiple), 0);
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The answer to a call.
    Answer { serial: u32, value: Value },
    /// The refusal of a call: the error's name and its text.
    Refusal { serial: u32, name: String, text: String },
    /// A signal, or a third party's call.
    Other,
}

/// The first value of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Bool(bool),
    Other,
}

/// How long the message is behind its first [`FIXED`] bytes.
pub(super) fn rest(fixed: [u8; FIXED]) -> Result<usize> {
    let mut reader = Reader { bytes: &fixed, at: 4, is_little: fixed[0] == LITTLE_ENDIAN };
    let (body, _serial, fields) = (reader.number()?, reader.number()?, reader.number()?);
    let (body, fields) = (body as usize, fields as usize);
    let sum = fields.checked_next_multiple_of(8).and_then(|fields| fields.checked_add(body));
    sum.filter(|sum| *sum <= LONGEST).ok_or_else(|| broken("a message is too long"))
}

/// The message of which `bytes` is all.
pub(super) fn parse(bytes: &[u8]) -> Result<Message> {
    let is_little = bytes.first() == Some(&LITTLE_ENDIAN);
    let kind = bytes.get(1).copied().unwrap_or_default();
    let mut reader = Reader { bytes, at: 12, is_little };
    let end = FIXED.saturating_add(reader.number()? as usize);
    let (mut serial, mut error, mut values) = (None, String::new(), String::new());
    while reader.at < end {
        reader.align(8);
        let code = reader.byte()?;
        let signature = reader.signature()?;
        match (code, signature.as_str()) {
            (REPLY_SERIAL, "u") => serial = Some(reader.number()?),
            (ERROR_NAME, "s") => error = reader.string()?,
            (SIGNATURE, "g") => values = reader.signature()?,
            (_, "s" | "o") => drop(reader.string()?),
            (_, "u") => drop(reader.number()?),
            (_, "g") => drop(reader.signature()?),
            (_, other) => return Err(broken(&format!("a header field is of type {other:?}"))),
        }
    }
    reader.align(8);
    let value = match values.as_bytes().first() {
        Some(b's') => Value::Text(reader.string()?),
        Some(b'b') => Value::Bool(reader.number()? != 0),
        _ => Value::Other,
    };
    Ok(match (kind, serial, value) {
        (RETURN, Some(serial), value) => Message::Answer { serial, value },
        (ERROR, Some(serial), Value::Text(text)) => Message::Refusal { serial, name: error, text },
        (ERROR, Some(serial), _) => Message::Refusal { serial, name: error, text: String::new() },
        _ => Message::Other,
    })
}

/// Takes values from a message, each at its alignment.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_little: bool,
}

impl Reader<'_> {
    fn align(&mut self, to_multiple: usize) {
        self.at = self.at.next_multiple_of(to_multiple);
    }

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        self.at = self.at.saturating_add(count);
        taken.ok_or_else(|| broken("a message ends too early"))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    fn number(&mut self) -> Result<u32> {
        self.align(4);
        let is_little = self.is_little;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn string(&mut self) -> Result<String> {
        let length = self.number()? as usize;
        self.text(length)
    }

    fn signature(&mut self) -> Result<String> {
        let length = usize::from(self.byte()?);
        self.text(length)
    }

    /// With the byte of zeros behind it.
    fn text(&mut self, length: usize) -> Result<String> {
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.take(1)?;
        Ok(text)
    }
}

fn broken(what: &str) -> Error {
    Error::os("talking to the system's D-Bus", std::io::Error::other(what.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const METHOD: Method<'_> =
        Method { destination: "a.B", path: "/a/B", interface: "a.B.c", name: "get" };

    /// As dbus-daemon sends it: header fields in another order, a sender among them.
    fn answer(kind: u8, signature_of: &str, error: Option<&str>, body: &[u8]) -> Vec<u8> {
        let mut fields = Vec::new();
        align(&mut fields, 8);
        fields.push(REPLY_SERIAL);
        signature(&mut fields, "u");
        align(&mut fields, 4);
        number(&mut fields, 7);
        field(&mut fields, 7, "s", ":1.4");
        if let Some(error) = error {
            field(&mut fields, ERROR_NAME, "s", error);
        }
        field(&mut fields, SIGNATURE, "g", signature_of);
        let mut message = vec![LITTLE_ENDIAN, kind, 1, VERSION];
        number(&mut message, length(body));
        number(&mut message, 9);
        number(&mut message, length(&fields));
        message.extend(fields);
        align(&mut message, 8);
        message.extend(body);
        message
    }

    fn text(value: &str) -> Vec<u8> {
        let mut body = Vec::new();
        string(&mut body, value);
        body
    }

    #[test]
    fn answers_are_read() {
        let message = answer(RETURN, "s", None, &text("trusted"));
        let value = Value::Text("trusted".to_owned());
        assert_eq!(parse(&message).unwrap(), Message::Answer { serial: 7, value });
        let message = answer(RETURN, "b", None, &1u32.to_le_bytes());
        let value = Value::Bool(true);
        assert_eq!(parse(&message).unwrap(), Message::Answer { serial: 7, value });
        let message = answer(ERROR, "s", Some("a.Error"), &text("NO: why"));
        let (name, text) = ("a.Error".to_owned(), "NO: why".to_owned());
        assert_eq!(parse(&message).unwrap(), Message::Refusal { serial: 7, name, text });
        assert_eq!(parse(&call(1, &METHOD, &Arguments::strings(&["x"]))).unwrap(), Message::Other);
    }

    /// As GLib writes it: `GVariant("(ia(iayqs))", (5, [(2, [10, 70, 1, 1], 299, "")]))`.
    #[test]
    fn arguments_are_aligned() {
        let server = Structure::default().integer(2).bytes(&[10, 70, 1, 1]).short(299).string("");
        let arguments =
            Arguments::default().integer(5).structures("iayqs", &[server.clone(), server]);
        assert_eq!(arguments.signature, "ia(iayqs)");
        let one = [2, 0, 0, 0, 4, 0, 0, 0, 10, 70, 1, 1, 43, 1, 0, 0, 0, 0, 0, 0, 0];
        let wanted = [&[5, 0, 0, 0, 45, 0, 0, 0][..], &one, &[0, 0, 0], &one].concat();
        assert_eq!(arguments.body, wanted);
    }

    #[test]
    fn the_length_is_known_beforehand() {
        for message in [
            call(1, &METHOD, &Arguments::strings(&["x", "yz"])),
            answer(RETURN, "s", None, &text("t")),
        ] {
            let fixed = message[..FIXED].try_into().unwrap();
            assert_eq!(rest(fixed).unwrap(), message.len() - FIXED);
        }
        let mut long = [0xff; FIXED];
        assert!(rest(long).is_err());
        long[0] = LITTLE_ENDIAN;
        assert!(rest(long).is_err());
    }

    proptest! {
        #[test]
        fn nothing_from_the_bus_stops_us(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn nothing_cut_or_changed_does(at in 0usize..200, byte: u8, cut in 0usize..200) {
            let mut message = answer(ERROR, "s", Some("a.Error"), &text("NO: why"));
            if let Some(there) = message.get_mut(at) {
                *there = byte;
            }
            message.truncate(cut);
            let _ = parse(&message);
        }
    }
}
