//! A JSON object, read the way Go's engines write and read theirs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use model::{Error, Result as Parsed};
use serde_json::{Map, Value};

use super::Refusal;

/// The longest text of any field, in bytes.
const LONGEST_TEXT: usize = 4096;
/// The most entries of any map of options.
const MOST_OPTIONS: usize = 4096;
/// As much of a refused value is repeated in the error, in characters.
const SHOWN: usize = 80;

/// An object and its place in the body; null and absent objects are empty ones.
pub struct Object<'a> {
    place: String,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> Object<'a> {
    /// The body.
    pub fn root(value: &'a Value) -> Result<Self, Refusal> {
        Self::of(value, String::new())
    }

    fn of(value: &'a Value, place: String) -> Result<Self, Refusal> {
        match value {
            Value::Null => Ok(Self { place, fields: None }),
            Value::Object(fields) => Ok(Self { place, fields: Some(fields) }),
            other => Err(mistyped(&place, other, "an object")),
        }
    }

    /// Where the field stands, for errors.
    pub fn place(&self, key: &str) -> String {
        match self.place.as_str() {
            "" => key.to_owned(),
            place => format!("{place}.{key}"),
        }
    }

    /// The object has neither null nor nothing in its stead.
    pub fn is_present(&self) -> bool {
        self.fields.is_some()
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.fields.into_iter().flatten()
    }

    /// A value; none if it is absent or null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        let fields = self.fields?;
        let any_case = || fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        let value = fields.get(key).or_else(|| any_case().map(|(_, value)| value));
        value.filter(|value| !value.is_null())
    }

    /// All fields that are texts, apart from `known` ones: a user's own options.
    pub fn other_texts(&self, known: &[&str]) -> Result<BTreeMap<String, String>, Refusal> {
        let is_known = |key: &str| known.iter().any(|known| known.eq_ignore_ascii_case(key));
        let fields = self.fields.into_iter().flatten().filter(|(key, _)| !is_known(key));
        let mut texts = BTreeMap::new();
        for (key, value) in fields {
            if let Value::String(value) = value {
                self.keep_option(&mut texts, key, value)?;
            }
        }
        Ok(texts)
    }

    /// This object as a map of texts; a null value is an empty one.
    pub fn all_texts(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let mut texts = BTreeMap::new();
        for (key, value) in self.fields.into_iter().flatten() {
            bounded(&self.place, key)?;
            let value = match value {
                Value::Null => "",
                Value::String(text) => text,
                other => return Err(mistyped(&self.place(key), other, "a text")),
            };
            self.keep_option(&mut texts, key, value)?;
        }
        Ok(texts)
    }

    fn keep_option(
        &self,
        texts: &mut BTreeMap<String, String>,
        key: &str,
        value: &str,
    ) -> Parsed<()> {
        bounded(&self.place, key)?;
        bounded(&self.place(key), value)?;
        texts.insert(key.to_owned(), value.to_owned());
        if texts.len() > MOST_OPTIONS {
            let place = &self.place;
            return Err(Error::invalid(format!("{place} holds more than {MOST_OPTIONS} options")));
        }
        Ok(())
    }

    /// A text; none if it is absent or empty.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(bounded(&self.place(key), text)?)),
            Some(other) => Err(mistyped(&self.place(key), other, "a text")),
        }
    }

    /// A text that means a `T`; none if it is absent or empty.
    pub fn parsed<T: FromStr<Err: Display>>(&self, key: &str) -> Result<Option<T>, Refusal> {
        let text = self.text(key)?;
        Ok(text.map(|text| parse(&self.place(key), text)).transpose()?)
    }

    /// The same for what must be there.
    pub fn required<T: FromStr<Err: Display>>(&self, key: &str) -> Result<T, Refusal> {
        let missing = || Error::invalid(format!("{} is missing", self.place(key)));
        Ok(self.parsed(key)?.ok_or_else(missing)?)
    }

    /// A truth value; none if it is absent.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Refusal> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(mistyped(&self.place(key), other, "true or false")),
        }
    }

    /// A whole number from 0 to `most`; 0 if it is absent.
    pub fn number<T: TryFrom<u64> + Default>(&self, key: &str) -> Result<T, Refusal> {
        let Some(value) = self.get(key) else { return Ok(T::default()) };
        let number = match value {
            Value::Number(number) if !number.is_f64() => number,
            other => return Err(mistyped(&self.place(key), other, "a whole number")),
        };
        let fits = number.as_u64().and_then(|number| T::try_from(number).ok());
        let too_large = || Error::invalid(format!("{}: {number} is out of range", self.place(key)));
        Ok(fits.ok_or_else(too_large)?)
    }

    /// An object; an empty one if it is absent.
    pub fn object(&self, key: &str) -> Result<Object<'a>, Refusal> {
        Self::of(self.get(key).unwrap_or(&Value::Null), self.place(key))
    }

    /// A list of at most `most` values; an empty one if it is absent.
    pub fn list(&self, key: &str, most: usize) -> Result<&'a [Value], Refusal> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::Array(values)) if values.len() > most => {
                let place = self.place(key);
                Err(Error::invalid(format!("{place} holds more than {most} entries")).into())
            }
            Some(Value::Array(values)) => Ok(values),
            Some(other) => Err(mistyped(&self.place(key), other, "a list")),
        }
    }

    /// The same for a list of objects.
    pub fn objects(&self, key: &str, most: usize) -> Result<Vec<Object<'a>>, Refusal> {
        let values = self.list(key, most)?.iter().enumerate();
        values.map(|(n, value)| Self::of(value, format!("{}[{n}]", self.place(key)))).collect()
    }
}

/// A list's text at `place`.
pub fn text_of<'a>(place: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    match value {
        Value::String(text) => Ok(bounded(place, text)?),
        other => Err(mistyped(place, other, "a text")),
    }
}

/// The value of `text`; the error names the place and the text.
pub fn parse<T: FromStr<Err: Display>>(place: &str, text: &str) -> Parsed<T> {
    text.parse().map_err(|why| Error::invalid(format!("{place}: {}: {why}", quoted(text))))
}

/// A value as an error shows it.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

fn bounded<'a>(place: &str, text: &'a str) -> Parsed<&'a str> {
    match text.len() <= LONGEST_TEXT {
        true => Ok(text),
        false => {
            let place = quoted(place);
            Err(Error::invalid(format!("{place} holds more than {LONGEST_TEXT} bytes")))
        }
    }
}

fn mistyped(place: &str, value: &Value, wanted: &str) -> Refusal {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let place = if place.is_empty() { "the body" } else { place };
    Refusal::Syntax(format!("{place} is {found} and not {wanted}"))
}
