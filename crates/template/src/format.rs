//! `printf`, as far as a name needs it: `%s %v %d %x %X %q %t %%` with `-`, `0` and a width.

use model::{Error, Result};

use serde_json::Value;

use super::expected;
use super::value::shown;

/// A wider field is refused.
const WIDEST: usize = 64;

/// Puts the arguments into the places of `layout`.
pub(super) fn format(layout: &str, arguments: &[Value]) -> Result<String> {
    let (mut out, mut arguments) = (String::new(), arguments.iter());
    let mut rest = layout;
    while let Some((before, place)) = rest.split_once('%') {
        out += before;
        let flags = place.len() - place.trim_start_matches(['-', '0']).len();
        let (flags, place) = place.split_at(flags);
        let digits = place.len() - place.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (width, place) = place.split_at(digits);
        let width: usize = if width.is_empty() { 0 } else { width.parse().unwrap_or(usize::MAX) };
        let mut characters = place.chars();
        let verb = characters.next().ok_or_else(|| Error::invalid("printf: % without a verb"))?;
        rest = characters.as_str();
        if verb == '%' {
            out.push('%');
            continue;
        }
        if width > WIDEST {
            return Err(Error::invalid(format!("printf: a field is wider than {WIDEST}")));
        }
        let missing = || Error::invalid(format!("printf: %{verb} has no argument"));
        let text = one(verb, arguments.next().ok_or_else(missing)?)?;
        out += &padded(&text, flags, width);
    }
    match arguments.next() {
        None => Ok(out + rest),
        Some(extra) => {
            Err(Error::invalid(format!("printf: no place for argument {}", shown(extra))))
        }
    }
}

fn one(verb: char, value: &Value) -> Result<String> {
    Ok(match (verb, value) {
        ('v', value) => shown(value),
        ('s', Value::String(text)) => text.clone(),
        ('q', Value::String(text)) => format!("{text:?}"),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('d', Value::Number(number)) => number.to_string(),
        ('x' | 'X', Value::Number(number)) => {
            let number = number.as_i64().ok_or_else(|| expected("integer for printf", value))?;
            let sign = if number < 0 { "-" } else { "" };
            let hex = format!("{sign}{:x}", number.unsigned_abs());
            if verb == 'X' { hex.to_uppercase() } else { hex }
        }
        ('t', Value::Bool(truth)) => truth.to_string(),
        ('s' | 'q', value) => return Err(expected("string for printf", value)),
        ('d' | 'x' | 'X', value) => return Err(expected("integer for printf", value)),
        ('t', value) => return Err(expected("bool for printf", value)),
        _ => {
            return Err(Error::unsupported(format!(
                "printf: %{} is not known",
                verb.escape_debug()
            )));
        }
    })
}

fn padded(text: &str, flags: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let fill = |with: &str| with.repeat(missing);
    match text.strip_prefix('-') {
        _ if flags.contains('-') => format!("{text}{}", fill(" ")),
        Some(digits) if flags.contains('0') => format!("-{}{digits}", fill("0")),
        None if flags.contains('0') => format!("{}{text}", fill("0")),
        _ => format!("{}{text}", fill(" ")),
    }
}
