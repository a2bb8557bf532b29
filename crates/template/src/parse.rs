//! The words of a template in order.

use model::{Error, Result, text};
use serde_json::Value;

use super::Dialect;
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
    /// Over the first pipeline; the second, where there is an `else`, has none.
    Range(Vec<(Option<Pipeline>, Vec<Node>)>),
}

/// Commands, each given the result of the one before as its last argument.
pub(super) type Pipeline = Vec<Vec<Term>>;

/// A word of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    Value(Value),
    /// Names, from the outside in; none for the dot.
    Field(Vec<String>),
    Function(Function),
    /// One of the dialect's.
    Own(&'static str),
    Group(Pipeline),
}

impl Term {
    pub(super) fn is_function(&self) -> bool {
        matches!(self, Self::Function(_) | Self::Own(_))
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self, Self::Function(Function::Json))
    }
}

macro_rules! functions {
    ($($function:ident $name:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function { $($function),* }

        /// All names, in the order of the enumeration.
        const FUNCTIONS: &[&str] = &[$($name),*];

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
    Json "json", Join "join", Upper "upper", Lower "lower", Index "index", Len "len", Eq "eq", Ne "ne",
    Lt "lt", Le "le", Gt "gt", Ge "ge", And "and", Or "or", Not "not", Print "print", Printf "printf",
    Println "println",
}

/// Features of Go's templates that these do not have.
const LACKING: [&str; 14] = [
    "with", "define", "template", "block", "break", "continue", "nil", "slice", "call", "html",
    "js", "urlquery", "urlize", "try",
];

/// An `if` or `range` that is not at its end: whether it is a `range`, what stands before it, its branches,
/// and the condition of the branch that is being read.
type Open = (bool, Vec<Node>, Vec<(Option<Pipeline>, Vec<Node>)>, Option<Pipeline>);

/// Parses a whole template.
pub(super) fn parse(source: &str, dialect: Dialect) -> Result<Vec<Node>> {
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
            [Token::Word(word @ ("if" | "range")), condition @ ..] => {
                let is_range = *word == "range";
                if is_range {
                    dialect.needs_data(word)?;
                }
                if open.len() >= DEEPEST {
                    return Err(Error::invalid("it is nested too deeply"));
                }
                let before = std::mem::take(&mut nodes);
                open.push((is_range, before, Vec::new(), Some(dialect.pipeline(condition, word)?)));
            }
            [Token::Word("else"), condition @ ..] => {
                let is_range = open.last().is_some_and(|(is_range, ..)| *is_range);
                let condition = match condition {
                    [] => None,
                    [Token::Word("if"), condition @ ..] if !is_range => {
                        Some(dialect.pipeline(condition, "if")?)
                    }
                    _ => return Err(Error::invalid("unexpected words behind {{else}}")),
                };
                let Some((_, _, branches, current @ Some(_))) = open.last_mut() else {
                    return Err(Error::invalid("unexpected {{else}}"));
                };
                branches.push((current.take(), std::mem::take(&mut nodes)));
                *current = condition;
            }
            [Token::Word("end")] => {
                let Some((is_range, before, mut branches, condition)) = open.pop() else {
                    return Err(Error::invalid("unexpected {{end}}"));
                };
                branches.push((condition, std::mem::replace(&mut nodes, before)));
                nodes.push(if is_range { Node::Range(branches) } else { Node::If(branches) });
            }
            tokens => nodes.push(Node::Output(dialect.pipeline(tokens, "command")?)),
        }
    }
    if open.is_empty() {
        Ok(nodes)
    } else {
        Err(Error::invalid("unexpected EOF: {{end}} is missing"))
    }
}

impl Dialect {
    fn pipeline(self, tokens: &[Token<'_>], of: &str) -> Result<Pipeline> {
        let mut rest = tokens;
        let pipeline = self.commands(&mut rest, of, 0)?;
        if rest.is_empty() { Ok(pipeline) } else { Err(Error::invalid("unexpected right paren")) }
    }

    /// Up to the end or to a `)`, which stays.
    fn commands(self, rest: &mut &[Token<'_>], of: &str, depth: usize) -> Result<Pipeline> {
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
                    let group = self.commands(rest, "parenthesized pipeline", depth + 1)?;
                    if rest.is_empty() {
                        return Err(Error::invalid("unclosed left paren"));
                    }
                    Term::Group(group)
                }
                Token::Text(text) => Term::Value(text.as_str().into()),
                Token::Integer(number) => Term::Value((*number).into()),
                Token::Word(word) => self.named(word)?,
            };
            command.push(term);
            *rest = rest.split_first().map_or(&[], |(_, after)| after);
        }
        let is_given = |command: &Vec<Term>| !command.first().is_some_and(Term::is_function);
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

    /// Refuses what speaks of data where there is none.
    fn needs_data(self, word: &str) -> Result<()> {
        match self.without_data {
            None => Ok(()),
            Some(what) => {
                Err(Error::unsupported(format!("{:?} is not for {what}", text::shown(word))))
            }
        }
    }

    fn named(self, word: &str) -> Result<Term> {
        if let Some(path) = word.strip_prefix('.') {
            self.needs_data(word)?;
            let names = path.split('.').filter(|name| !name.is_empty());
            return Ok(Term::Field(names.map(str::to_owned).collect()));
        }
        if let Some(function) = Function::named(word) {
            return Ok(Term::Function(function));
        }
        if let Some(own) = self.functions.iter().find(|own| **own == word) {
            return Ok(Term::Own(own));
        }
        match word {
            "true" => Ok(Term::Value(Value::Bool(true))),
            "false" => Ok(Term::Value(Value::Bool(false))),
            "end" | "else" | "if" | "range" => {
                Err(Error::invalid(format!("unexpected <{word}> in a command")))
            }
            _ if word.starts_with('$') || LACKING.contains(&word) => {
                self.needs_data(word)?;
                Err(Error::unsupported(format!("{:?} is not supported", text::shown(word))))
            }
            _ => {
                let known: Vec<&str> = FUNCTIONS.iter().chain(self.functions).copied().collect();
                Err(Error::invalid(format!(
                    "function {:?} not defined; fields begin with a dot, functions are {}",
                    text::shown(word),
                    known.join(", ")
                )))
            }
        }
    }
}

fn missing(of: &str) -> Error {
    Error::invalid(format!("missing value for {of}"))
}
