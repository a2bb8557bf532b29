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

/// More characters are no mistyped word. A comparison takes the product of both lengths.
const LONGEST_WORD: usize = 64;

/// A part of a known word has so many bytes, at least.
const SHORTEST_PART: usize = 4;

/// The known word that a mistyped one means most likely: the one with the fewest changed, missing, additional or swapped
/// characters, at most a third of them; or else the shortest one of which it is a part. None where no word is near.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.is_empty() || given.chars().nth(LONGEST_WORD).is_some() {
        return None;
    }
    let given = given.to_lowercase();
    let known: Vec<&str> = known.into_iter().collect();
    let distance = |word: &'a str| {
        let lower = word.to_lowercase();
        let (given, known) = without_family(&given, &lower);
        let changes = strsim::osa_distance(given, known);
        let longer = given.chars().count().max(known.chars().count());
        (changes * 3 <= longer).then_some((changes, word))
    };
    let near = known.iter().copied().filter_map(distance).min_by_key(|(changes, _)| *changes);
    let is_whole =
        |word: &&&str| given.len() >= SHORTEST_PART && word.to_lowercase().contains(&given);
    let whole = || known.iter().filter(is_whole).min_by_key(|word| word.len()).copied();
    near.map(|(_, word)| word).or_else(whole)
}

/// Both without what they begin with in common, up to a dot: options of one family, such as `neutron.mac`, would be near each other.
fn without_family<'a>(one: &'a str, other: &'a str) -> (&'a str, &'a str) {
    let common = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other);
    let dot = common.enumerate().filter(|(_, (byte, _))| *byte == b'.').last();
    let after = dot.map_or(0, |(at, _)| at + 1);
    (one.get(after..).unwrap_or(one), other.get(after..).unwrap_or(other))
}

/// The question that a message asks before it lists the known words: with a space behind it, and empty where none of
/// them is near ([`nearest`]).
pub fn meant<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or_else(String::new, |word| format!("did you mean {word}? "))
}

/// The same question at the end of a sentence.
pub fn question<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or_else(String::new, |word| format!("; did you mean {word}?"))
}

/// A value for a message. Options are hostile: neither long nor unprintable ones get into a log.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_has_a_nearest_one() {
        let known =
            ["isolation", "egress", "egress-strict", "mtu", "com.docker.network.bridge.enable_icc"];
        for (given, wanted) in [
            ("isolatoin", Some("isolation")),
            ("isolatio", Some("isolation")),
            ("Isolation", Some("isolation")),
            ("egres", Some("egress")),
            ("egress_strict", Some("egress-strict")),
            ("mut", Some("mtu")),
            ("strict", Some("egress-strict")),
            ("enable_icc", Some("com.docker.network.bridge.enable_icc")),
            ("", None),
            ("icc", None),
            ("x", None),
            ("colour", None),
            ("com.docker.network.bridge.name", None),
        ] {
            assert_eq!(nearest(given, known), wanted, "{given}");
        }
        assert_eq!(nearest(&"i".repeat(LONGEST_WORD + 1), ["i".repeat(65).as_str()]), None);
        assert_eq!(meant("mut", known), "did you mean mtu? ");
        assert_eq!(question("mut", known), "; did you mean mtu?");
        assert_eq!(meant("colour", known) + &question("colour", known), "");
    }
}
