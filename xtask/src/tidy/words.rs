//! The words that docs/glossary.md has replaced, in names, in comments and in what users read.

use super::literals::{Kind, pieces};

/// Parts of names, and words of texts.
const GONE: [&str; 39] = [
    "begun", "clerk", "debt", "debtor", "debtors", "debts", "desist", "farewell", "forgo",
    "forgone", "handout", "nobody", "owed", "owing", "patience", "patient", "peopled", "roster",
    "said", "shelf", "somebody", "steer", "steering", "story", "tell", "tells", "tenure",
    "together", "told", "unsaid", "untell", "untold", "whoever", "whom", "wish", "wished",
    "wishes", "world", "worlds",
];
/// Words of texts only: as parts of names they mean something else.
const GONE_IN_TEXTS: [&str; 6] = ["lent", "owe", "owes", "settle", "settled", "settles"];
/// Words of comments: these name the caller, the operator, the process or the container instead.
const GONE_IN_COMMENTS: [&str; 12] = [
    "debtor", "debtors", "nobody", "owe", "owed", "owes", "patience", "somebody", "told",
    "whoever", "wish", "wishes",
];
/// Of texts, of several words.
const PHRASES: [&str; 3] = ["given back", "handed out", "handed to"];
/// What stands in texts all the same: where, which word, why.
const KEPT: [(&str, &str, &str); 10] = [
    ("crates/neutron/src/port_update/update_files.rs", "begun", "a directory of running hosts"),
    ("crates/neutron/src/port_update/update_files.rs", "clerk", "a file of running hosts"),
    ("crates/neutron/src/port_update/update_files.rs", "owed", "a directory of running hosts"),
    ("crates/neutron/src/cloud/unfinished.rs", "begun", "a directory of running hosts"),
    ("crates/neutron/src/stock/stock_files.rs", "lent", "a directory of running hosts"),
    ("crates/remote/src/undo_log.rs", "owed", "a directory of running hosts"),
    ("crates/linux/src/filter/spoof/rules.rs", "told", "a chain of running hosts"),
    ("crates/linux/src/names/page.rs", "nobody", "the head of files of running hosts"),
    ("crates/model/src/network.rs", "nobody", "a value of records"),
    ("crates/explain/src/walk/hop.rs", "tell", "cannot-tell: a documented JSON value"),
];
/// `cannot tell` is a verdict of `spoke explain`, in plain English.
const PLAIN: &str = "cannot tell";

/// The complaints about one source; `name` is its path from the root.
pub(super) fn complaints(name: &str, product: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for piece in pieces(product) {
        let found = match piece.kind {
            Kind::Code => {
                of_names(piece.text).filter(|word| GONE.contains(&word.as_str())).collect()
            }
            // What earlier versions wrote is still read.
            Kind::Text if is_alias(product, piece.start) => Vec::new(),
            Kind::Text => in_text(name, piece.text),
            Kind::Comment => in_comment(name, piece.text),
        };
        // Few pieces have a complaint, and a source has many.
        let line = || product[..piece.start].matches('\n').count() + 1;
        complaints.extend(found.into_iter().map(|word| {
            format!("{name}:{}: `{word}` is another word in docs/glossary.md", line())
        }));
    }
    complaints
}

/// Whether a literal is the name of a record's field in earlier versions.
fn is_alias(product: &str, start: usize) -> bool {
    product[..start].ends_with("alias = ")
}

/// The words of a text that users read.
fn in_text(name: &str, text: &str) -> Vec<String> {
    // A line that goes on after a backslash has no space more.
    let plain = text.replace('\\', " ").to_lowercase();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ").replace(PLAIN, "");
    let mut found = words_of(name, &plain, &[&GONE, &GONE_IN_TEXTS]);
    found.extend(
        PHRASES.iter().filter(|phrase| plain.contains(**phrase)).map(|phrase| (*phrase).to_owned()),
    );
    found
}

/// The words of a comment.
fn in_comment(name: &str, comment: &str) -> Vec<String> {
    words_of(name, &comment.to_lowercase(), &[&GONE_IN_COMMENTS])
}

/// The words of a text in small letters that are in a list, but for those that may stand there.
fn words_of(name: &str, plain: &str, lists: &[&[&str]]) -> Vec<String> {
    let words = plain.split(|letter: char| !letter.is_ascii_alphabetic());
    let is_kept = |word: &str| KEPT.iter().any(|kept| (kept.0, kept.1) == (name, word));
    words
        .filter(|word| lists.iter().any(|list| list.contains(word)) && !is_kept(word))
        .map(str::to_owned)
        .collect()
}

/// The words of the names in a piece of code.
fn of_names(code: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = code.chars().collect();
    let is_capital = |at: usize| letters.get(at).is_some_and(char::is_ascii_uppercase);
    let is_small = |at: usize| letters.get(at).is_some_and(char::is_ascii_lowercase);
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        // A constant's name has capitals only, and one of a type may begin with several.
        let goes_on = is_capital(at) && at > 0 && is_capital(at - 1) && !is_small(at + 1);
        if !letter.is_ascii_lowercase() && !goes_on {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphabetic()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_gone_are_found_in_names_and_texts() {
        for (name, text, count) in [
            ("crates/cni/src/a.rs", "let port_wish = told(roster);", 3),
            ("crates/cni/src/a.rs", "struct NetworkWish;", 1),
            ("crates/cni/src/a.rs", "const PATIENCE: u32 = HTTPWish(MY_PATIENCE);", 3),
            ("crates/cni/src/a.rs", "say(\"a\"); // told of what nobody has", 2),
            ("crates/cni/src/a.rs", "/// It was said, and retold to a world.\nsay(\"a\");", 0),
            ("crates/cni/src/a.rs", "/* whoever\n*/ fn of_nobody() {}", 2),
            ("crates/remote/src/undo_log.rs", "// in `owed`", 0),
            ("crates/cni/src/a.rs", "say(\"http://a told\"); let b = 'a';", 1),
            ("crates/cni/src/a.rs", "say(r#\"it \"is\" owed\"#)", 1),
            ("crates/cni/src/a.rs", "say(\"a pool that is handed \\\n   out\")", 1),
            ("crates/cni/src/a.rs", "const LENT: &str = \"LENT\";", 1),
            ("crates/cni/src/a.rs", "#[serde(alias = \"owed\")]", 0),
            ("crates/cni/src/a.rs", "say(\"it is allowed to retell; one cannot tell\")", 0),
            ("crates/cni/src/a.rs", "place(\"owed\")", 1),
            ("crates/remote/src/undo_log.rs", "place(\"owed\")", 0),
        ] {
            assert_eq!(complaints(name, text).len(), count, "{name}: {text}");
        }
    }

    #[test]
    fn the_line_is_that_of_the_word() {
        let found = complaints("a.rs", "\n// old\nlet a = 'b';\nlet told = 1;\n");
        assert_eq!(found, ["a.rs:4: `told` is another word in docs/glossary.md"]);
    }
}
