//! As much of YAML 1.2 as people write into configurations: mappings and sequences by indentation,
//! flow collections on one line, plain and quoted scalars, comments. Anchors, tags, text blocks and
//! further documents are refused by name rather than read wrongly.

use model::{Error, Result};
use serde_json::{Map, Value};

/// A longer text is refused, in bytes.
const LONGEST: usize = 1 << 20;

/// Deeper nesting is refused.
const DEEPEST: usize = 32;

/// A line without comment and indentation.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

impl Line<'_> {
    fn error(&self, why: &str) -> Error {
        Error::invalid(format!("line {}: {why}", self.number))
    }
}

/// Reads one document.
pub fn read(text: &str) -> Result<Value> {
    if text.len() > LONGEST {
        return Err(Error::invalid("it is larger than 1 MiB"));
    }
    let mut lines = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let content = without_comment(line).trim_end();
        let text = content.trim_start_matches(' ');
        let line = Line { number: number + 1, indent: content.len() - text.len(), text };
        match text {
            "" => {}
            "---" if lines.is_empty() => {}
            "---" | "..." => return Err(line.error("one document is enough")),
            _ if text.starts_with('%') => return Err(line.error("directives are not read")),
            _ if text.starts_with('\t') => return Err(line.error("indent with spaces")),
            _ => lines.push(line),
        }
    }
    let mut rest = lines.as_slice();
    let Some(first) = rest.first() else { return Ok(Value::Null) };
    let value = block(&mut rest, first.indent, 0)?;
    match rest.first() {
        None => Ok(value),
        Some(line) => Err(line.error("it is indented as nothing before it")),
    }
}

/// A comment begins at the start or after white space, outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before, mut is_escaped) = (None, ' ', false);
    for (at, c) in line.char_indices() {
        match quote {
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '#' && before.is_whitespace() => return &line[..at],
            None if matches!(c, '"' | '\'') && starts_scalar(before) => quote = Some(c),
            None => {}
        }
        before = c;
    }
    line
}

fn starts_scalar(before: char) -> bool {
    before.is_whitespace() || matches!(before, '[' | '{' | ',' | ':')
}

/// What stands at this indentation.
fn block(lines: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value> {
    let Some(first) = lines.first() else { return Ok(Value::Null) };
    if depth > DEEPEST {
        return Err(first.error("it is nested too deeply"));
    }
    match first.text {
        text if is_item(text) => sequence(lines, indent, depth),
        text if key(first, text)?.is_some() => mapping(lines, indent, depth),
        text => {
            *lines = &lines[1..];
            scalar(first, text, depth)
        }
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn sequence(lines: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value> {
    let mut items = Vec::new();
    while let Some(line) = lines.first().filter(|line| line.indent == indent && is_item(line.text))
    {
        let after = line.text[1..].trim_start_matches(' ');
        let inner = Line {
            number: line.number,
            indent: indent + line.text.len() - after.len(),
            text: after,
        };
        *lines = &lines[1..];
        items.push(match after {
            "" => below(lines, indent, depth)?,
            // A mapping that begins beside the dash goes on below it.
            _ if key(&inner, after)?.is_some() => {
                let at = inner.indent;
                let count = lines.iter().take_while(|line| line.indent >= at).count();
                let (own, rest) = lines.split_at(count);
                let mut own_lines = vec![inner];
                own_lines.extend(own.iter().map(|line| Line { ..*line }));
                let mut own = own_lines.as_slice();
                let value = mapping(&mut own, at, depth + 1)?;
                if let Some(line) = own.first() {
                    return Err(line.error("it is indented as nothing before it"));
                }
                *lines = rest;
                value
            }
            _ => scalar(&inner, after, depth)?,
        });
    }
    Ok(Value::Array(items))
}

fn mapping(lines: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value> {
    let mut fields = Map::new();
    while let Some(line) = lines.first().filter(|line| line.indent == indent) {
        let Some((name, after)) = key(line, line.text)? else {
            return Err(line.error("give KEY: VALUE"));
        };
        *lines = &lines[1..];
        let value = match after {
            "" => match lines.first() {
                // A sequence may stand as far left as the key that it belongs to.
                Some(next) if next.indent == indent && is_item(next.text) => {
                    sequence(lines, indent, depth + 1)?
                }
                _ => below(lines, indent, depth)?,
            },
            _ => scalar(line, after, depth)?,
        };
        if fields.insert(name.clone(), value).is_some() {
            return Err(line.error(&format!("{name} is there twice")));
        }
    }
    Ok(Value::Object(fields))
}

/// What is indented more than this, or null.
fn below(lines: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value> {
    match lines.first() {
        Some(next) if next.indent > indent => {
            let at = next.indent;
            block(lines, at, depth + 1)
        }
        _ => Ok(Value::Null),
    }
}

/// The key and what comes after its colon; none where it is no mapping.
fn key<'a>(line: &Line<'_>, text: &'a str) -> Result<Option<(String, &'a str)>> {
    if text.starts_with(['"', '\'']) {
        let (name, rest) = quoted(line, text)?;
        let rest = rest.trim_start_matches(' ');
        return Ok(rest.strip_prefix(':').map(|after| (name, after.trim_start())));
    }
    if text.starts_with(['[', '{']) {
        return Ok(None);
    }
    let found = match text.split_once(": ") {
        Some((name, after)) => Some((name, after)),
        None => text.strip_suffix(':').map(|name| (name, "")),
    };
    let Some((name, after)) = found else { return Ok(None) };
    refuse_marks(line, name)?;
    if name.trim() == "<<" {
        return Err(line.error("merge keys (<<) are not read; write the values out"));
    }
    Ok(Some((name.trim().to_owned(), after.trim())))
}

fn refuse_marks(line: &Line<'_>, text: &str) -> Result<()> {
    let what = match text.chars().next() {
        Some('&' | '*') => "anchors and aliases are not read; write the values out",
        Some('!') => "tags are not read",
        Some('|' | '>') => "text blocks are not read; quote the text on one line",
        Some('?' | '@' | '`' | '%') => "quote what begins with such a sign",
        _ => return Ok(()),
    };
    Err(line.error(what))
}

/// A scalar or flow collection that is all of `text`.
fn scalar(line: &Line<'_>, text: &str, depth: usize) -> Result<Value> {
    let (value, rest) = flow(line, text, depth, false)?;
    match rest.trim().is_empty() {
        true => Ok(value),
        false => Err(line.error("there is more than one value")),
    }
}

/// A value at the beginning of `text`, and what comes after it.
fn flow<'a>(
    line: &Line<'_>,
    text: &'a str,
    depth: usize,
    is_inside: bool,
) -> Result<(Value, &'a str)> {
    if depth > DEEPEST {
        return Err(line.error("it is nested too deeply"));
    }
    let text = text.trim_start();
    match text.chars().next() {
        Some('"' | '\'') => quoted(line, text).map(|(string, rest)| (Value::String(string), rest)),
        Some('[') => flow_sequence(line, &text[1..], depth),
        Some('{') => flow_mapping(line, &text[1..], depth),
        _ => {
            refuse_marks(line, text)?;
            let end = match is_inside {
                true => text.find([',', ']', '}']).unwrap_or(text.len()),
                false => text.len(),
            };
            Ok((plain(text[..end].trim()), &text[end..]))
        }
    }
}

fn flow_sequence<'a>(line: &Line<'_>, text: &'a str, depth: usize) -> Result<(Value, &'a str)> {
    let (mut items, mut rest) = (Vec::new(), text.trim_start());
    loop {
        if let Some(rest) = rest.strip_prefix(']') {
            return Ok((Value::Array(items), rest));
        }
        let (value, after) = flow(line, rest, depth + 1, true)?;
        items.push(value);
        rest = separated(line, after, ']')?;
    }
}

fn flow_mapping<'a>(line: &Line<'_>, text: &'a str, depth: usize) -> Result<(Value, &'a str)> {
    let (mut fields, mut rest) = (Map::new(), text.trim_start());
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((Value::Object(fields), rest));
        }
        let (name, after) = match rest.starts_with(['"', '\'']) {
            true => quoted(line, rest)?,
            false => {
                let end = rest.find([':', ',', '}']).unwrap_or(rest.len());
                refuse_marks(line, rest)?;
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        let after = after.trim_start().strip_prefix(':');
        let after = after.ok_or_else(|| line.error("give {KEY: VALUE}"))?;
        let (value, after) = flow(line, after, depth + 1, true)?;
        if fields.insert(name.clone(), value).is_some() {
            return Err(line.error(&format!("{name} is there twice")));
        }
        rest = separated(line, after, '}')?;
    }
}

/// After a comma, or before the end.
fn separated<'a>(line: &Line<'_>, text: &'a str, end: char) -> Result<&'a str> {
    let text = text.trim_start();
    match text.strip_prefix(',') {
        Some(rest) => Ok(rest.trim_start()),
        None if text.starts_with(end) => Ok(text),
        None => Err(line.error(&format!("{end} is missing on this line"))),
    }
}

/// A string in quotes at the beginning, and what comes after it.
fn quoted<'a>(line: &Line<'_>, text: &'a str) -> Result<(String, &'a str)> {
    let open = text.chars().next().unwrap_or('"');
    let (mut string, mut chars) = (String::new(), text.char_indices().skip(1).peekable());
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if open == '\'' && chars.next_if(|(_, next)| *next == '\'').is_some() => {
                string.push('\'');
            }
            _ if c == open => return Ok((string, &text[at + c.len_utf8()..])),
            '\\' if open == '"' => {
                let code = chars.next().map(|(_, code)| code);
                string.push(escaped(code, &mut chars).ok_or_else(|| {
                    line.error("that escape is none of \\\\ \\\" \\/ \\n \\t \\r \\0 \\xHH \\uHHHH")
                })?);
            }
            _ => string.push(c),
        }
    }
    Err(line.error("the quote has no end on this line"))
}

fn escaped(code: Option<char>, chars: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    let mut hexadecimal = |digits: usize| {
        let text: String = chars.take(digits).map(|(_, c)| c).collect();
        let is_whole = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_whole.then(|| u32::from_str_radix(&text, 16).ok()).flatten().and_then(char::from_u32)
    };
    match code? {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        '0' => Some('\0'),
        'x' => hexadecimal(2),
        'u' => hexadecimal(4),
        plain @ ('\\' | '"' | '/' | ' ') => Some(plain),
        _ => None,
    }
}

/// A scalar without quotes (YAML's core schema, and `yes` and `no` as PyYAML has them). Numbers stay
/// texts: a project may be called 007.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("yes") => true.into(),
        _ if text.eq_ignore_ascii_case("false") || text.eq_ignore_ascii_case("no") => false.into(),
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests;
