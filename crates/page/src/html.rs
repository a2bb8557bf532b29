//! The only way to write HTML here. Names of elements and attributes are written in the source; what
//! stands between and in them is text, which is cleaned and escaped whatever it is.

/// Longer texts are cut, in characters: labels may be 4 KiB, and messages quote others.
const LONGEST: usize = 4200;

/// What takes the place of a character that would change what a reader sees.
const HIDDEN: char = '\u{fffd}';

/// An attribute's name, and its value.
pub(crate) type Attribute<'a> = (&'static str, &'a str);

/// A part of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Html {
    out: String,
}

impl Html {
    /// An HTML document, still empty.
    pub(crate) fn document() -> Self {
        Self { out: "<!doctype html>\n".to_owned() }
    }

    /// The document.
    pub fn into_string(self) -> String {
        self.out
    }

    /// An element with what is in it.
    pub(crate) fn el(
        &mut self,
        name: &'static str,
        attributes: &[Attribute<'_>],
        inner: impl FnOnce(&mut Self),
    ) {
        self.void(name, attributes);
        inner(self);
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// An element with a text in it.
    pub(crate) fn leaf(&mut self, name: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.el(name, attributes, |html| html.text(text));
    }

    /// The start of an element; the whole of one that has no end tag.
    pub(crate) fn void(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.out.push('<');
        self.out.push_str(name);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.text(value);
            self.out.push('"');
        }
        self.out.push('>');
    }

    /// A text: never markup.
    pub(crate) fn text(&mut self, text: &str) {
        for character in text.chars().take(LONGEST).map(shown) {
            match character {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                other => self.out.push(other),
            }
        }
        if text.chars().nth(LONGEST).is_some() {
            self.out.push('…');
        }
    }
}

/// The start of a text that has a place for `most` characters.
pub(crate) fn short(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// `1 container`, `2 containers`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn shown(character: char) -> char {
    let is_hidden = matches!(character,
        // Bidirectional formatting (UAX #9): "10.0.0.1" must not be read backwards.
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Without width, line and paragraph separators, annotations, tags.
        | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
        | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    if character.is_control() || is_hidden { HIDDEN } else { character }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut html = Html::default();
        html.el("p", &[("title", text)], |html| html.text(text));
        html.into_string()
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(
            written("<b a=\"1\" c='2'>&"),
            "<p title=\"&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\">\
             &lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;</p>"
        );
    }

    #[test]
    fn what_hides_or_reorders_is_shown() {
        assert!(written("a\u{202e}b\u{1b}[2J\u{9b}\u{200b}ü\n").contains(">a�b�[2J��ü�<"));
    }

    #[test]
    fn nothing_is_too_long() {
        assert!(written(&"x".repeat(10_000)).len() < 10_000);
        assert_eq!(short("abcdef", 4), "abc…");
        assert_eq!(short("abcd", 4), "abcd");
    }

    proptest! {
        #[test]
        fn no_text_ends_its_element(text in "\\PC*") {
            let html = written(&text);
            prop_assert_eq!(html.matches('<').count(), 2);
            prop_assert_eq!(html.matches('>').count(), 2);
            prop_assert_eq!(html.matches('"').count(), 2);
        }
    }
}
