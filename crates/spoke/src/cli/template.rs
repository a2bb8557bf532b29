//! The part of Go's `text/template` that people use with `--format`: fields, `json`, `join`,
//! `len`, `upper`, `lower`, `index`, `eq`, `ne`, `println`, pipes, `if` and `range`.
//!
//! A field is found by its name in JSON or by the name that Docker would give it: `.HostPort` is
//! `host_port`.

mod eval;

use model::{Error, Result};
use serde_json::Value;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Show(Pipe),
    If { what: Pipe, then: Vec<Node>, otherwise: Vec<Node> },
    Range { over: Pipe, each: Vec<Node>, otherwise: Vec<Node> },
}

/// Calls, each of which gets the one before as its last argument.
type Pipe = Vec<Vec<Word>>;

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Field(Vec<String>),
    Literal(Value),
    Function(String),
}

/// Blocks inside blocks deeper than this are refused.
const DEEPEST: usize = 16;

impl Template {
    /// The template's text for `row`.
    pub(super) fn text(&self, row: &Value) -> Result<String> {
        let mut text = String::new();
        eval::nodes(&self.nodes, row, &mut text)?;
        Ok(text)
    }

    /// What stands above the columns: each field's name in upper case.
    pub(super) fn headings(&self) -> String {
        let heading = |node: &Node| match node {
            Node::Text(text) => text.clone(),
            Node::Show(pipe) | Node::If { what: pipe, .. } | Node::Range { over: pipe, .. } => {
                pipe.iter().flatten().find_map(name_of).unwrap_or_default()
            }
        };
        self.nodes.iter().map(heading).collect()
    }
}

fn name_of(word: &Word) -> Option<String> {
    match word {
        Word::Field(path) => path.last().map(|name| name.to_uppercase()),
        Word::Literal(_) | Word::Function(_) => None,
    }
}

/// Parses a template.
pub(super) fn parse(text: &str) -> Result<Template> {
    let mut pieces = split(text)?.into_iter();
    let (nodes, end) = block(&mut pieces, 0)?;
    match end {
        End::Template => Ok(Template { nodes }),
        End::Block | End::Else => Err(wrong("an {{end}} or {{else}} without its beginning")),
    }
}

enum Piece {
    Text(String),
    Action(String),
}

enum End {
    Template,
    Block,
    Else,
}

/// Text and actions in turn; `{{-` and `-}}` trim the text beside them.
fn split(text: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trim = false;
    loop {
        let (before, after) = match rest.split_once("{{") {
            Some((before, after)) => (before, Some(after)),
            None => (rest, None),
        };
        let mut before = if trim { before.trim_start() } else { before };
        let after = after.map(|after| match after.strip_prefix("- ") {
            Some(after) => {
                before = before.trim_end();
                after
            }
            None => after,
        });
        pieces.push(Piece::Text(before.to_owned()));
        let Some(after) = after else { return Ok(pieces) };
        let (action, next) = after.split_once("}}").ok_or_else(|| wrong("a {{ without its }}"))?;
        trim = action.ends_with(" -");
        let action = if trim { &action[..action.len() - 2] } else { action };
        pieces.push(Piece::Action(action.trim().to_owned()));
        rest = next;
    }
}

fn block(pieces: &mut std::vec::IntoIter<Piece>, depth: usize) -> Result<(Vec<Node>, End)> {
    if depth > DEEPEST {
        return Err(wrong("its blocks are nested too deeply"));
    }
    let mut nodes = Vec::new();
    while let Some(piece) = pieces.next() {
        let action = match piece {
            Piece::Text(text) => {
                nodes.push(Node::Text(text));
                continue;
            }
            Piece::Action(action) => action,
        };
        match action.split_once(' ').map_or((action.as_str(), ""), |(word, rest)| (word, rest)) {
            ("end", "") => return Ok((nodes, End::Block)),
            ("else", "") => return Ok((nodes, End::Else)),
            ("if", what) => {
                let what = pipe(what)?;
                let (then, otherwise) = branches(pieces, depth)?;
                nodes.push(Node::If { what, then, otherwise });
            }
            ("range", over) => {
                let over = pipe(over)?;
                let (each, otherwise) = branches(pieces, depth)?;
                nodes.push(Node::Range { over, each, otherwise });
            }
            _ => nodes.push(Node::Show(pipe(&action)?)),
        }
    }
    Ok((nodes, End::Template))
}

fn branches(
    pieces: &mut std::vec::IntoIter<Piece>,
    depth: usize,
) -> Result<(Vec<Node>, Vec<Node>)> {
    let (first, end) = block(pieces, depth + 1)?;
    match end {
        End::Block => Ok((first, Vec::new())),
        End::Template => Err(wrong("an {{if}} or {{range}} without its {{end}}")),
        End::Else => match block(pieces, depth + 1)? {
            (second, End::Block) => Ok((first, second)),
            (_, End::Template | End::Else) => Err(wrong("an {{else}} without its {{end}}")),
        },
    }
}

fn pipe(text: &str) -> Result<Pipe> {
    let mut calls = vec![Vec::new()];
    for token in tokens(text)? {
        match token.as_str() {
            "|" => calls.push(Vec::new()),
            _ => {
                if let Some(call) = calls.last_mut() {
                    call.push(word(&token)?);
                }
            }
        }
    }
    if calls.iter().any(Vec::is_empty) {
        return Err(wrong("an empty {{}}"));
    }
    Ok(calls)
}

/// Words, `|`, and strings in double quotes with the quotes.
fn tokens(text: &str) -> Result<Vec<String>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + closing_quote(&rest[1..]).ok_or_else(|| wrong("a string without end"))?,
            '|' => 1,
            _ => rest.find([' ', '\t', '\n', '|', '"']).unwrap_or(rest.len()),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn word(token: &str) -> Result<Word> {
    if let Some(path) = token.strip_prefix('.') {
        let path = path.split('.').filter(|name| !name.is_empty()).map(str::to_owned);
        return Ok(Word::Field(path.collect()));
    }
    if let Ok(literal @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) =
        serde_json::from_str(token)
    {
        return Ok(Word::Literal(literal));
    }
    match eval::FUNCTIONS.contains(&token) {
        true => Ok(Word::Function(token.to_owned())),
        false => Err(wrong(&format!(
            "{token:?} is unknown; fields begin with a dot, functions are {}",
            eval::FUNCTIONS.join(", ")
        ))),
    }
}

fn wrong(why: &str) -> Error {
    Error::invalid(format!("template: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn show(template: &str) -> Result<String> {
        parse(template)?.text(&json!({
            "name": "front",
            "mtu": 1500,
            "host_port": 80,
            "ok": true,
            "none": null,
            "list": ["a", "b"],
            "subnets": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}],
        }))
    }

    #[test]
    fn what_docker_users_write() {
        for (template, text) in [
            ("{{.Name}}\t{{.MTU}}", "front\t1500"),
            ("{{ .HostPort }}/{{.host_port}}", "80/80"),
            ("{{json .List}}", r#"["a","b"]"#),
            ("{{.List | json}}", r#"["a","b"]"#),
            ("{{join .List \", \"}}", "a, b"),
            ("{{range .Subnets}}{{.Subnet}};{{end}}", "10.0.0.0/24;fd00::/64;"),
            ("{{range .None}}x{{else}}nothing{{end}}", "nothing"),
            ("{{if .Ok}}yes{{else}}no{{end}}", "yes"),
            ("{{if eq .Name \"front\"}}F{{end}}", "F"),
            ("{{len .List}} {{upper .Name}} {{index .List 1}}", "2 FRONT b"),
            ("a  {{- .Name -}}  b", "afrontb"),
            ("a  {{- \" \"}}{{.None}} {{.List}}", "a <no value> [a b]"),
        ] {
            assert_eq!(show(template).unwrap(), text, "{template}");
        }
    }

    #[test]
    fn what_others_wrote_does_not_steer_the_terminal() {
        let bad = "a\u{1b}[2Jb\u{9b}c";
        let data = json!({"title": bad, "list": [bad], "labels": {bad: bad}});
        for template in [
            "{{.Title}}",
            "{{upper .Title}}",
            "{{join .List \",\"}}",
            "{{range .List}}{{.}}{{end}}",
            "{{.Labels}}",
            "{{.}}",
            "{{.Title | println}}",
            "{{index .List 0}}",
        ] {
            let text = parse(template).unwrap().text(&data).unwrap();
            let steers = |c: char| c.is_control() && c != '\n';
            assert!(text.contains('?') && !text.contains(steers), "{template}: {text:?}");
        }
        let own = parse("\u{1b}[1m{{.Title}}").unwrap().text(&data).unwrap();
        assert!(own.starts_with("\u{1b}[1ma?"), "{own:?}");
    }

    #[test]
    fn says_what_there_is_instead() {
        let error = show("{{.Nmae}}").unwrap_err().to_string();
        assert!(error.contains("Nmae") && error.contains("name"), "{error}");
        for bad in ["{{.Name", "{{end}}", "{{if .Ok}}", "{{}}", "{{foo .Name}}", "{{\"a}}"] {
            assert_eq!(show(bad).unwrap_err().kind(), model::Kind::Invalid, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(template in r#"([a-z ]|\{\{|\}\}|\.|\||"|\\|-|range |end|if |else|json |ü){0,30}"#) {
            let _ = show(&template);
        }
    }
}
