//! Syntax errors of JSON (RFC 8259), in the words of programs in Go: the first character that is
//! not allowed.

/// Where the scanner is.
#[derive(Clone, Copy)]
enum State {
    BeginValue,
    BeginValueOrEnd,
    BeginKey,
    BeginKeyOrEnd,
    InString,
    Escape,
    /// How many of the four digits are there.
    Hex(u8),
    Minus,
    Digits,
    Zero,
    Dot,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// Which word, and how much of it is there.
    Word(&'static str, usize),
    EndValue,
    EndTop,
}

/// In what a value stands.
#[derive(Clone, Copy)]
enum Nest {
    Key,
    Member,
    Element,
}

struct Scanner {
    state: State,
    nests: Vec<Nest>,
}

/// The complaint about the first character that is wrong, or about an early end.
pub(super) fn complaint(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { state: State::BeginValue, nests: Vec::new() };
    for byte in bytes {
        if let Err(place) = scanner.step(*byte) {
            return Some(format!("invalid character {} {place}", shown(*byte)));
        }
    }
    if matches!(scanner.state, State::EndTop) {
        return None;
    }
    // A number at the end of the text also ends before a space.
    match scanner.step(b' ') {
        Err(place) => Some(format!("invalid character ' ' {place}")),
        Ok(()) if matches!(scanner.state, State::EndTop) => None,
        Ok(()) => Some("unexpected end of JSON input".to_owned()),
    }
}

fn shown(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        byte if byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t') => format!(r"'\x{byte:02x}'"),
        byte => format!("'{}'", char::from(byte).escape_debug()),
    }
}

type Step = Result<(), String>;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn wrong(place: &str) -> Step {
    Err(place.to_owned())
}

impl Scanner {
    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Step {
        match self.state {
            State::BeginValue => self.value(byte),
            State::BeginValueOrEnd if byte == b']' => self.end(byte),
            State::BeginValueOrEnd => self.value(byte),
            State::BeginKeyOrEnd if byte == b'}' => {
                self.turn(Nest::Member);
                self.end(byte)
            }
            State::BeginKey | State::BeginKeyOrEnd => match byte {
                byte if is_space(byte) => Ok(()),
                b'"' => self.go(State::InString),
                _ => wrong("looking for beginning of object key string"),
            },
            State::InString | State::Escape | State::Hex(_) => self.string(byte),
            State::Word(word, at) => self.word(byte, word, at),
            State::EndValue | State::EndTop => self.end(byte),
            State::Minus
            | State::Digits
            | State::Zero
            | State::Dot
            | State::Fraction
            | State::Exponent
            | State::ExponentSign
            | State::ExponentDigits => self.number(byte),
        }
    }

    fn value(&mut self, byte: u8) -> Step {
        match byte {
            byte if is_space(byte) => Ok(()),
            b'{' => {
                self.nests.push(Nest::Key);
                self.go(State::BeginKeyOrEnd)
            }
            b'[' => {
                self.nests.push(Nest::Element);
                self.go(State::BeginValueOrEnd)
            }
            b'"' => self.go(State::InString),
            b'-' => self.go(State::Minus),
            b'0' => self.go(State::Zero),
            b'1'..=b'9' => self.go(State::Digits),
            b't' => self.go(State::Word("true", 1)),
            b'f' => self.go(State::Word("false", 1)),
            b'n' => self.go(State::Word("null", 1)),
            _ => wrong("looking for beginning of value"),
        }
    }

    fn string(&mut self, byte: u8) -> Step {
        match (self.state, byte) {
            (State::InString, b'"') => self.go(State::EndValue),
            (State::InString, b'\\') => self.go(State::Escape),
            (State::InString, 0..0x20) => wrong("in string literal"),
            (State::Escape, b'u') => self.go(State::Hex(0)),
            (State::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {
                self.go(State::InString)
            }
            (State::Escape, _) => wrong("in string escape code"),
            (State::Hex(3), byte) if byte.is_ascii_hexdigit() => self.go(State::InString),
            (State::Hex(digits), byte) if byte.is_ascii_hexdigit() => {
                self.go(State::Hex(digits + 1))
            }
            (State::Hex(_), _) => wrong("in \\u hexadecimal character escape"),
            (_, _) => Ok(()),
        }
    }

    fn number(&mut self, byte: u8) -> Step {
        let is_digit = byte.is_ascii_digit();
        match (self.state, byte) {
            (State::Minus, b'0') => self.go(State::Zero),
            (State::Minus, _) if is_digit => self.go(State::Digits),
            (State::Minus, _) => wrong("in numeric literal"),
            (State::Digits | State::Fraction | State::ExponentDigits, _) if is_digit => Ok(()),
            (State::Digits | State::Zero, b'.') => self.go(State::Dot),
            (State::Digits | State::Zero | State::Fraction, b'e' | b'E') => {
                self.go(State::Exponent)
            }
            (State::Dot, _) if is_digit => self.go(State::Fraction),
            (State::Dot, _) => wrong("after decimal point in numeric literal"),
            (State::Exponent, b'+' | b'-') => self.go(State::ExponentSign),
            (State::Exponent | State::ExponentSign, _) if is_digit => {
                self.go(State::ExponentDigits)
            }
            (State::Exponent | State::ExponentSign, _) => wrong("in exponent of numeric literal"),
            (_, byte) => self.end(byte),
        }
    }

    fn word(&mut self, byte: u8, word: &'static str, at: usize) -> Step {
        let expected = word.as_bytes().get(at).copied().unwrap_or_default();
        if byte != expected {
            return Err(format!("in literal {word} (expecting '{}')", char::from(expected)));
        }
        match at + 1 == word.len() {
            true => self.go(State::EndValue),
            false => self.go(State::Word(word, at + 1)),
        }
    }

    /// After a value.
    fn end(&mut self, byte: u8) -> Step {
        let Some(nest) = self.nests.last().copied() else {
            self.state = State::EndTop;
            return if is_space(byte) { Ok(()) } else { wrong("after top-level value") };
        };
        match (nest, byte) {
            (_, byte) if is_space(byte) => self.go(State::EndValue),
            (Nest::Key, b':') => {
                self.turn(Nest::Member);
                self.go(State::BeginValue)
            }
            (Nest::Member, b',') => {
                self.turn(Nest::Key);
                self.go(State::BeginKey)
            }
            (Nest::Element, b',') => self.go(State::BeginValue),
            (Nest::Member, b'}') | (Nest::Element, b']') => {
                self.nests.pop();
                let is_top = self.nests.is_empty();
                self.go(if is_top { State::EndTop } else { State::EndValue })
            }
            (Nest::Key, _) => wrong("after object key"),
            (Nest::Member, _) => wrong("after object key:value pair"),
            (Nest::Element, _) => wrong("after array element"),
        }
    }

    fn turn(&mut self, nest: Nest) {
        if let Some(last) = self.nests.last_mut() {
            *last = nest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn says_what_programs_in_go_say() {
        for (text, complaint) in [
            ("", "unexpected end of JSON input"),
            (r#"{"a":1"#, "unexpected end of JSON input"),
            ("tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("{]", "invalid character ']' looking for beginning of object key string"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1e+", "invalid character ' ' in exponent of numeric literal"),
            (r#""\u00g0""#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("\"\u{1}\"", "invalid character '\\x01' in string literal"),
            ("{}'", "invalid character '\\'' after top-level value"),
        ] {
            assert_eq!(super::complaint(text.as_bytes()).as_deref(), Some(complaint), "{text}");
        }
    }

    proptest! {
        #[test]
        fn complains_where_it_is_no_json(text in r#"[\[\]{}",:0-9a-z\\ .eE+-]{0,24}"#) {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(complaint(text.as_bytes()).is_none(), is_json, "{}", text);
        }
    }
}
