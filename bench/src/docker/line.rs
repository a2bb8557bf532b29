//! What a part says to the benchmark that started it: one JSON value a line.

use std::fmt::Display;
use std::io::Write;

use model::{Error, Kind, Result};
use serde_json::{Value, json};

use crate::samples::Figure;
use crate::stats::Book;

/// Says what was measured in a round, or why nothing was.
pub(crate) fn say(place: Figure<'_>, round: usize, measured: Result<f64>) -> Result<()> {
    let Figure { case, verb, who, unit } = place;
    let value = match measured {
        Ok(value) => json!([case, verb, who, unit, round, value]),
        Err(error) => json!([case, verb, who, unit, round, error.to_string()]),
    };
    print(&value)
}

/// Prints a remark for the reader.
pub(crate) fn remark(text: impl Display) -> Result<()> {
    print(&json!(text.to_string()))
}

/// Says that there is nothing more to come, and why.
pub(crate) fn fault(error: &Error) -> Result<()> {
    print(&json!({ "fault": error.to_string() }))
}

fn print(value: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::os("printing", error))
}

/// Notes what was said.
pub(super) fn note(line: &str, book: &mut Book) {
    let said = serde_json::from_str(line).unwrap_or_default();
    if let Value::String(remark) = &said {
        return crate::note(remark);
    }
    if let Some(fault) = said["fault"].as_str() {
        return book.fault("Docker", &Error::new(Kind::Kernel, fault));
    }
    let text = |at: usize| said[at].as_str().unwrap_or_default();
    let place = Figure { case: text(0), verb: text(1), who: text(2), unit: text(3) };
    let round = said[4].as_u64().and_then(|round| usize::try_from(round).ok());
    let Some(round) = round else { return };
    match said[5].as_f64() {
        Some(value) => drop(book.samples(place).values.insert(round, value)),
        None => {
            book.samples(place).failures += 1;
            let error = Error::new(Kind::Kernel, text(5));
            book.fault(&format!("{}, {}, {}", place.case, place.who, place.verb), &error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_values_and_failures() {
        let mut book = Book::new();
        note(r#"["a case","create","ours","ms",3,1.5]"#, &mut book);
        note(r#"["a case","create","ours","ms",4,"it broke"]"#, &mut book);
        note("nonsense", &mut book);
        let [samples] = &book.samples[..] else { panic!() };
        assert_eq!((samples.values.get(&3), samples.failures), (Some(&1.5), 1));
        assert_eq!(book.faults, ["a case, ours, create: it broke"]);
    }
}
