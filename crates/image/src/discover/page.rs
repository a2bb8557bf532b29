//! As much of HTML as finding `<meta name="ac-discovery" content="PREFIX TEMPLATE">` takes: tags,
//! comments, and elements whose content is no markup (HTML Standard 13.2.5).

/// Further elements are ignored.
const MOST: usize = 10_000;

/// Elements whose content is text until they end.
const RAW: [&str; 6] = ["script", "style", "title", "textarea", "noscript", "template"];

/// Prefixes and templates, in the page's order.
pub(super) fn discoveries(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = page;
    for _ in 0..MOST {
        let Some((tag, after)) = next(rest) else { break };
        rest = after;
        let name = tag.name.to_ascii_lowercase();
        match name.as_str() {
            "meta" => found.extend(discovery(tag.attributes)),
            // Users may write the parts below.
            "body" | "/head" => break,
            raw if RAW.contains(&raw) => rest = past(rest, raw),
            _ => {}
        }
    }
    found
}

struct Tag<'a> {
    /// With a slash in front where it ends an element.
    name: &'a str,
    attributes: &'a str,
}

/// The next tag, and what comes after it.
fn next(page: &str) -> Option<(Tag<'_>, &str)> {
    let mut rest = page;
    loop {
        rest = &rest[rest.find('<')? + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->")?.1;
            continue;
        }
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') {
            continue;
        }
        let end = end(rest)?;
        let inside = &rest[..end];
        let name = inside.find(|c: char| c.is_whitespace()).unwrap_or(inside.len());
        let (name, attributes) = inside.split_at(name);
        return Some((Tag { name: name.trim_end_matches('/'), attributes }, &rest[end + 1..]));
    }
}

/// Where a tag ends: at a `>` that is in no quotes.
fn end(tag: &str) -> Option<usize> {
    let mut quote = None;
    tag.bytes().position(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None, b'>') => return true,
            _ => {}
        }
        false
    })
}

/// The text behind the end of a raw element.
fn past<'a>(page: &'a str, name: &str) -> &'a str {
    let is_end = |at: &usize| {
        let tag = page.as_bytes().get(at + 2..at + 2 + name.len());
        tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes()))
    };
    let end = page.match_indices("</").map(|(at, _)| at).find(is_end);
    end.map_or("", |at| &page[at..])
}

fn discovery(attributes: &str) -> Option<(String, String)> {
    let mut name = None;
    let mut content = None;
    let mut rest = attributes;
    while let Some((key, value, after)) = attribute(rest) {
        match key.to_ascii_lowercase().as_str() {
            "name" => name = name.or(Some(value)),
            "content" => content = content.or(Some(value)),
            _ => {}
        }
        rest = after;
    }
    if decoded(name?) != "ac-discovery" {
        return None;
    }
    let content = decoded(content?);
    let mut words = content.split_whitespace();
    let (prefix, template) = (words.next()?, words.next()?);
    words.next().is_none().then(|| (prefix.to_owned(), template.to_owned()))
}

/// The first attribute, and what comes after it.
fn attribute(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
    let name = text.find(|c: char| c.is_whitespace() || "=/".contains(c)).unwrap_or(text.len());
    if text.is_empty() {
        return None;
    }
    let (name, rest) = text.split_at(name);
    let Some(value) = rest.trim_start().strip_prefix('=') else {
        return (!name.is_empty()).then_some((name, "", rest));
    };
    let value = value.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (value, rest) = match quote {
        Some(quote) => value[1..].split_once(quote)?,
        None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
    };
    Some((name, value, rest))
}

/// Without the character references that stand in URLs.
fn decoded(text: &str) -> String {
    const KNOWN: [(&str, &str); 8] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x2F;", "/"),
        ("&#123;", "{"),
        ("&#125;", "}"),
        ("&amp;", "&"),
    ];
    KNOWN.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(page: &str) -> Vec<(String, String)> {
        discoveries(page)
    }

    #[test]
    fn finds_what_is_meant() {
        let one = [("a.b".to_owned(), "http://c/{name}?x&y".to_owned())];
        for page in [
            "<meta name=\"ac-discovery\" content=\"a.b http://c/{name}?x&amp;y\">",
            "<META CONTENT='a.b  http://c/{name}?x&amp;y'\n NAME=ac-discovery />",
            "<!doctype html><html><head><title><meta></title><!-- > --><meta charset=utf-8>\
             <meta name='ac-discovery' content='a.b http://c/{name}?x&amp;y' ></head>",
        ] {
            assert_eq!(found(page), one, "{page}");
        }
    }

    #[test]
    fn finds_nothing_that_is_not() {
        let meta = "<meta name=\"ac-discovery\" content=\"a b\">";
        for page in [
            format!("<!-- {meta} -->"),
            format!("<script>x = '{meta}'</script>"),
            format!("<title>{meta}</TITLE>"),
            format!("</head>{meta}"),
            format!("<body>{meta}"),
            meta.replace("ac-discovery", "ac-discovery-pubkeys"),
            meta.replace("a b", "a"),
            meta.replace("\">", ""),
            meta.replace('<', "< "),
        ] {
            assert_eq!(found(&page), [], "{page}");
        }
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(page in "(<|>|meta|name|content|=|\"|'|!--|-->|script|/|\\PC| ){0,60}") {
            discoveries(&page);
        }
    }
}
