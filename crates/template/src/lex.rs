//! The text of a template in pieces, and the words of an action.

use model::{Error, Result, text};

/// Text, or what stands between `{{` and `}}`.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Action(Vec<Token<'a>>),
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Text(String),
    Integer(i64),
    Pipe,
    Open,
    Close,
}

/// White space, as Go's templates know it.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// Takes a template apart.
pub(super) fn pieces(source: &str) -> Result<Vec<Piece<'_>>> {
    let (mut pieces, mut rest, mut trims) = (Vec::new(), source, false);
    while let Some((before, action)) = rest.split_once("{{") {
        let (action, trims_before) = match action.strip_prefix('-') {
            Some(marked) if marked.starts_with(SPACE) => (marked, true),
            _ => (action, false),
        };
        let mut text = if trims { before.trim_start_matches(SPACE) } else { before };
        text = if trims_before { text.trim_end_matches(SPACE) } else { text };
        pieces.push(Piece::Text(text));
        (rest, trims) = match action.trim_start_matches(SPACE).strip_prefix("/*") {
            Some(comment) => after_comment(comment)?,
            None => {
                let (tokens, end) = tokens(action)?;
                pieces.push(Piece::Action(tokens));
                end
            }
        };
    }
    pieces.push(Piece::Text(if trims { rest.trim_start_matches(SPACE) } else { rest }));
    Ok(pieces)
}

/// The text behind a comment, and whether its white space is trimmed.
fn after_comment(comment: &str) -> Result<(&str, bool)> {
    let (_, rest) = comment.split_once("*/").ok_or(Error::invalid("unclosed comment"))?;
    let trimmed = rest.trim_start_matches(SPACE);
    let marked = trimmed.strip_prefix("-}}").filter(|_| trimmed.len() < rest.len());
    match (rest.strip_prefix("}}"), marked) {
        (Some(rest), _) => Ok((rest, false)),
        (None, Some(rest)) => Ok((rest, true)),
        (None, None) => Err(Error::invalid("comment ends before closing delimiter")),
    }
}

type Tokens<'a> = (Vec<Token<'a>>, (&'a str, bool));

/// The words up to `}}`, with what follows it.
fn tokens(action: &str) -> Result<Tokens<'_>> {
    let (mut tokens, mut rest) = (Vec::new(), action);
    loop {
        let word = rest.trim_start_matches(SPACE);
        let is_apart = word.len() < rest.len();
        if let Some(after) = word.strip_prefix("-}}").filter(|_| is_apart) {
            return Ok((tokens, (after, true)));
        }
        if let Some(after) = word.strip_prefix("}}") {
            return Ok((tokens, (after, false)));
        }
        let Some(first) = word.chars().next() else {
            return Err(Error::invalid("unclosed action"));
        };
        let (token, length) = token(word, first)?;
        let is_mark = |token: &Token<'_>| matches!(token, Token::Pipe | Token::Open | Token::Close);
        if !is_apart && !is_mark(&token) && tokens.last().is_some_and(|last| !is_mark(last)) {
            return Err(Error::invalid(format!("{:?} needs a space before it", text::shown(word))));
        }
        tokens.push(token);
        rest = word.get(length..).unwrap_or_default();
    }
}

/// The first word, and its length in bytes.
fn token(word: &str, first: char) -> Result<(Token<'_>, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '+' | '-');
    Ok(match first {
        '|' => (Token::Pipe, 1),
        '(' => (Token::Open, 1),
        ')' => (Token::Close, 1),
        '"' => quoted(word)?,
        '`' => {
            let inside = word.split('`').nth(1).unwrap_or_default();
            if word.len() < inside.len() + 2 {
                return Err(Error::invalid("unterminated raw quoted string"));
            }
            (Token::Text(inside.to_owned()), inside.len() + 2)
        }
        _ if is_word(first) => {
            let length = word.find(|c| !is_word(c)).unwrap_or(word.len());
            let word = word.get(..length).unwrap_or_default();
            let is_number =
                word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
            (if is_number { Token::Integer(integer(word)?) } else { Token::Word(word) }, length)
        }
        _ => {
            let what = format!("unexpected {first:?} in {{{{{}", text::shown(word));
            return Err(Error::invalid(what));
        }
    })
}

fn integer(word: &str) -> Result<i64> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let bad = |_| Error::invalid(format!("bad number syntax: {:?}", text::shown(word)));
    value.map(|value| sign * value).map_err(bad)
}

/// A quoted string with the escapes that a name can use.
fn quoted(word: &str) -> Result<(Token<'static>, usize)> {
    let (mut string, mut is_escaped) = (String::new(), false);
    for (at, c) in word.char_indices().skip(1) {
        match c {
            '"' | '\\' if is_escaped => string.push(c),
            't' if is_escaped => string.push('\t'),
            'n' if is_escaped => string.push('\n'),
            _ if is_escaped => {
                return Err(Error::unsupported(format!(
                    "the escape \\{} is not read",
                    text::shown(&c.to_string())
                )));
            }
            '"' => return Ok((Token::Text(string), at + 1)),
            '\n' => break,
            '\\' => {}
            _ => string.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Err(Error::invalid("unterminated quoted string"))
}
