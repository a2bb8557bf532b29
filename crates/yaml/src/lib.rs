//! YAML 1.2 as JSON values, for configurations: the grammar is `saphyr-parser`'s, the bounds and the
//! types of scalars are ours.
//!
//! Refused by name: anchors, aliases and merge keys, by which a short text becomes a long one; tags;
//! keys that are not scalars or that are there twice; a second document.

use model::{Error, Result};
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// A longer text is refused, in bytes.
const LONGEST: usize = 1 << 20;

/// Deeper nesting is refused.
const DEEPEST: usize = 32;

/// Reads one document; a text without any is null.
///
/// # Errors
/// [`model::Kind::Invalid`] with the line, and what is wrong with it.
pub fn read(text: &str) -> Result<Value> {
    if text.len() > LONGEST {
        return Err(Error::invalid("it is larger than 1 MiB"));
    }
    let mut events = Events(Parser::new_from_str(text.trim_start_matches('\u{feff}')));
    let mut value = None;
    loop {
        match events.next()? {
            (Event::StreamEnd, _) => return Ok(value.unwrap_or_default()),
            (Event::DocumentStart(_), line) if value.is_some() => {
                return Err(wrong(line, "one document is enough"));
            }
            (Event::DocumentStart(_), _) => {
                let first = events.next()?;
                value = Some(events.value(first, 0)?);
            }
            _ => {}
        }
    }
}

struct Events<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Events<'a> {
    /// The next event, and its line.
    fn next(&mut self) -> Result<(Event<'a>, usize)> {
        match self.0.next_event() {
            Some(Ok((event, place))) => Ok((event, place.start.line())),
            Some(Err(error)) => Err(wrong(error.marker().line(), error.info())),
            None => Err(Error::bug("YAML events end before the document does")),
        }
    }

    /// The value that begins with this event.
    fn value(&mut self, (event, line): (Event<'a>, usize), depth: usize) -> Result<Value> {
        if depth > DEEPEST {
            return Err(wrong(line, "it is nested too deeply"));
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag),
            _ => (1, &None),
        };
        if anchor != 0 {
            return Err(wrong(line, "anchors and aliases are not read; write the values out"));
        }
        if tag.is_some() {
            return Err(wrong(line, "tags are not read"));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(plain(&text)),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.sequence(depth),
            _ => self.mapping(depth),
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                first => items.push(self.value(first, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value> {
        let mut fields = Map::new();
        loop {
            let (name, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Object(fields)),
                (Event::Scalar(name, _, 0, None), line) => (name.into_owned(), line),
                (_, line) => return Err(wrong(line, "give KEY: VALUE, with a text for the key")),
            };
            if name == "<<" {
                return Err(wrong(line, "merge keys (<<) are not read; write the values out"));
            }
            if fields.contains_key(&name) {
                return Err(wrong(line, &format!("{name} is there twice")));
            }
            let first = self.next()?;
            fields.insert(name, self.value(first, depth + 1)?);
        }
    }
}

fn wrong(line: usize, why: &str) -> Error {
    Error::invalid(format!("line {line}: {why}"))
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
