//! A Rust source in pieces: code, comments, and the texts of its string literals.

/// A piece of a source.
pub(super) struct Piece<'a> {
    pub(super) kind: Kind,
    /// The byte at which it begins; of a literal, that of its quotation mark or prefix.
    pub(super) start: usize,
    /// Without quotation marks.
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A line of it at most, so that its place is exact.
    Code,
    /// The text of a string literal.
    Text,
    /// A comment, with its marks.
    Comment,
}

/// The pieces of a source in their order.
pub(super) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut code, mut at) = (0, 0);
    while at < source.len() {
        let rest = &source[at..];
        let (length, found) = match token(rest, source[..at].chars().next_back()) {
            Token::Code(length) => {
                at += length;
                continue;
            }
            Token::Skipped(length) => (length, None),
            Token::Comment(length) => (length, Some((Kind::Comment, &rest[..length]))),
            Token::Text { before, length, after } => {
                (before + length + after, Some((Kind::Text, &rest[before..before + length])))
            }
        };
        pieces.extend(code_of(source, code, at));
        pieces.extend(found.map(|(kind, text)| Piece { kind, start: at, text }));
        at += length;
        code = at;
    }
    pieces.extend(code_of(source, code, source.len()));
    pieces
}

fn code_of(source: &str, start: usize, end: usize) -> Option<Piece<'_>> {
    let text = &source[start..end];
    (!text.is_empty()).then_some(Piece { kind: Kind::Code, start, text })
}

enum Token {
    Code(usize),
    /// A line's end, a character.
    Skipped(usize),
    Comment(usize),
    Text {
        before: usize,
        length: usize,
        after: usize,
    },
}

/// What a source begins with; `last` is the character before it.
fn token(rest: &str, last: Option<char>) -> Token {
    let of_name = last.is_some_and(|last| last.is_alphanumeric() || last == '_');
    let length = rest.chars().next().map_or(1, char::len_utf8);
    if rest.starts_with("//") {
        return Token::Comment(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Token::Comment(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    match rest.as_bytes()[0] {
        b'\n' => Token::Skipped(1),
        b'"' => text(rest),
        b'r' if !of_name || last == Some('b') => raw(rest).unwrap_or(Token::Code(length)),
        b'\'' => character(rest).map_or(Token::Code(length), Token::Skipped),
        _ => Token::Code(length),
    }
}

fn text(rest: &str) -> Token {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Token::Text { before: 1, length: at - 1, after: 1 },
            _ => {}
        }
    }
    Token::Text { before: 1, length: rest.len() - 1, after: 0 }
}

/// `r"…"`, `r#"…"#`; `None` where it is a name.
fn raw(rest: &str) -> Option<Token> {
    let marks = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let before = marks + 2;
    rest[1 + marks..].starts_with('"').then(|| {
        let end = format!("\"{}", "#".repeat(marks));
        match rest[before..].find(&end) {
            Some(length) => Token::Text { before, length, after: end.len() },
            None => Token::Text { before, length: rest.len() - before, after: 0 },
        }
    })
}

/// The length of a character's literal; `None` where it is a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut letters = rest.char_indices().skip(1);
    match letters.next()? {
        (_, '\\') => {
            letters.next()?;
            let (at, _) = letters.find(|(_, letter)| *letter == '\'')?;
            Some(at + 1)
        }
        _ => letters.next().filter(|(_, letter)| *letter == '\'').map(|(at, _)| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_distinguished_from_code() {
        let source = "let a = b\"x\\\"y\"; // \"no\"\nfn f<'a>(b: &'a str) { ['\"', '\\'', '\\u{41}'] }\nr#\"z\"\"#;/* \"no\" */ r\"w\"";
        let texts: Vec<&str> = pieces(source)
            .into_iter()
            .filter(|piece| piece.kind == Kind::Text)
            .map(|piece| piece.text)
            .collect();
        assert_eq!(texts, ["x\\\"y", "z\"", "w"]);
    }

    #[test]
    fn a_source_that_breaks_off_is_read() {
        for source in ["\"a", "r#\"a", "'", "'\\", "/*", "//", "r", "b", "ä\"ö"] {
            let _pieces = pieces(source);
        }
    }
}
