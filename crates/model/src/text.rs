//! Option values as people write them, the same in every runtime.

use crate::{IfName, Result};

/// A message shows no more of a value than this, in characters.
const SHOWN: usize = 60;

/// A parser of a few words.
pub fn choice<T: Copy>(words: &[(&str, T)]) -> impl Fn(&str) -> Option<T> {
    move |text| words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning)
}

/// A truth value as programs written in Go read one (`strconv.ParseBool`).
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Names of interfaces between colons, each once, in the given order.
///
/// # Errors
///
/// [`crate::Kind::Invalid`] on what is no name, an empty one included.
pub fn interfaces(text: &str) -> Result<Vec<IfName>> {
    let mut names = Vec::new();
    for name in text.split(':') {
        let name = name.parse()?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// A value for a message. Options are hostile: neither long nor unprintable ones get into a log.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
