//! The words of a template in order.

use model::{Error, Result, text};

use super::lex::{Piece, Token, pieces};

/// Deeper nesting is refused.
const DEEPEST: usize = 32;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    Output(Pipeline),
    /// The first whose condition holds; the last has none where there is an `else`.
    If(Vec<(Option<Pipeline>, Vec<Node>)>),
}

/// Commands, each given the result of the one before as its last argument.
pub(super) type Pipeline = Vec<Vec<Term>>;

/// A word of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    Value(Value),
    Function(Function),
    Group(Pipeline),
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Truth(bool),
}

macro_rules! functions {
    ($($function:ident $name:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function { $($function),* }

        impl Function {
            fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$function),)* _ => None }
            }

            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$function => $name),* }
            }
        }
    };
}

functions! {
    Uuid "uuid", ShortUuid "shortuuid", Num "num", Random "random", Printf "printf", Print "print",
    Len "len", Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", And "and", Or "or", Not "not",
}

/// What Go's templates have, and a name does not need.
const LACKING: [&str; 17] = [
    "range", "with", "define", "template", "block", "break", "continue", "nil", "index", "slice",
    "call", "html", "js", "urlquery", "println", "urlize", "try",
];

/// An `if` that is not at its end: where it is, and its branches.
type Open = (Vec<Node>, Vec<(Option<Pipeline>, Vec<Node>)>, Option<Pipeline>);

/// Parses a whole template.
pub(super) fn parse(source: &str) -> Result<Vec<Node>> {
    let (mut nodes, mut open): (Vec<Node>, Vec<Open>) = (Vec::new(), Vec::new());
    for piece in pieces(source)? {
        let tokens = match piece {
            Piece::Text(text) => {
                nodes.push(Node::Text(text.to_owned()));
                continue;
            }
            Piece::Action(tokens) => tokens,
        };
        match tokens.as_slice() {
            [Token::Word("if"), condition @ ..] => {
                if open.len() >= DEEPEST {
                    return Err(Error::invalid("it is nested too deeply"));
                }
                let before = std::mem::take(&mut nodes);
                open.push((before, Vec::new(), Some(pipeline(condition, "if")?)));
            }
            [Token::Word("else"), condition @ ..] => {
                let condition = match condition {
                    [] => None,
                    [Token::Word("if"), condition @ ..] => Some(pipeline(condition, "if")?),
                    _ => return Err(Error::invalid("unexpected words behind {{else}}")),
                };
                let Some((_, branches, current @ Some(_))) = open.last_mut() else {
                    return Err(Error::invalid("unexpected {{else}}"));
                };
                branches.push((current.take(), std::mem::take(&mut nodes)));
                *current = condition;
            }
            [Token::Word("end")] => {
                let Some((before, mut branches, condition)) = open.pop() else {
                    return Err(Error::invalid("unexpected {{end}}"));
                };
                branches.push((condition, std::mem::replace(&mut nodes, before)));
                nodes.push(Node::If(branches));
            }
            tokens => nodes.push(Node::Output(pipeline(tokens, "command")?)),
        }
    }
    if open.is_empty() {
        Ok(nodes)
    } else {
        Err(Error::invalid("unexpected EOF: {{end}} is missing"))
    }
}

fn pipeline(tokens: &[Token<'_>], of: &str) -> Result<Pipeline> {
    let mut rest = tokens;
    let pipeline = commands(&mut rest, of, 0)?;
    if rest.is_empty() { Ok(pipeline) } else { Err(Error::invalid("unexpected right paren")) }
}

/// Up to the end or to a `)`, which stays.
fn commands(rest: &mut &[Token<'_>], of: &str, depth: usize) -> Result<Pipeline> {
    if depth > DEEPEST {
        return Err(Error::invalid("it is nested too deeply"));
    }
    let (mut pipeline, mut command) = (Vec::new(), Vec::new());
    while let Some((token, after)) = rest.split_first() {
        let term = match token {
            Token::Close => break,
            Token::Pipe if command.is_empty() => return Err(missing(of)),
            Token::Pipe => {
                pipeline.push(std::mem::take(&mut command));
                *rest = after;
                continue;
            }
            Token::Open => {
                *rest = after;
                let group = commands(rest, "parenthesized pipeline", depth + 1)?;
                if rest.is_empty() {
                    return Err(Error::invalid("unclosed left paren"));
                }
                Term::Group(group)
            }
            Token::Text(text) => Term::Value(Value::Text(text.clone())),
            Token::Integer(number) => Term::Value(Value::Integer(*number)),
            Token::Word(word) => named(word)?,
        };
        command.push(term);
        *rest = rest.split_first().map_or(&[], |(_, after)| after);
    }
    let is_given = |command: &Vec<Term>| !matches!(command.first(), Some(Term::Function(_)));
    match command {
        command if command.is_empty() => Err(missing(of)),
        command if !pipeline.is_empty() && is_given(&command) => {
            Err(Error::invalid("non executable command in pipeline"))
        }
        command => {
            pipeline.push(command);
            Ok(pipeline)
        }
    }
}

fn missing(of: &str) -> Error {
    Error::invalid(format!("missing value for {of}"))
}

fn named(word: &str) -> Result<Term> {
    if let Some(function) = Function::named(word) {
        return Ok(Term::Function(function));
    }
    match word {
        "true" => Ok(Term::Value(Value::Truth(true))),
        "false" => Ok(Term::Value(Value::Truth(false))),
        "end" | "else" | "if" => Err(Error::invalid(format!("unexpected <{word}> in a command"))),
        _ if word.starts_with(['.', '$']) || LACKING.contains(&word) => Err(Error::unsupported(
            format!("{:?} is not for the names of interfaces", text::shown(word)),
        )),
        _ => Err(Error::invalid(format!("function {:?} not defined", text::shown(word)))),
    }
}
