//! Evaluates a template for one pod.

use std::cmp::Ordering;

use model::{Error, Result};

use super::Facts;
use super::format::format;
use super::parse::{Function, Node, Pipeline, Term, Value};

/// Gives one byte that nobody can foretell.
pub(crate) type Random<'a> = &'a mut dyn FnMut() -> Result<u8>;

/// More characters than these at once are not given.
const MOST: i64 = 32;
/// What random characters are chosen from.
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// One rendering.
pub(super) struct Scope<'a> {
    pub(super) facts: Facts<'a>,
    pub(super) random: Random<'a>,
    /// Whether something was left to chance.
    pub(super) is_random: bool,
}

impl Scope<'_> {
    pub(super) fn render(&mut self, nodes: &[Node]) -> Result<String> {
        let mut out = String::new();
        for node in nodes {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Output(pipeline) => out += &self.pipeline(pipeline)?.to_string(),
                Node::If(branches) => {
                    for (condition, nodes) in branches {
                        let holds = match condition {
                            Some(condition) => self.pipeline(condition)?.is_true(),
                            None => true,
                        };
                        if holds {
                            out += &self.render(nodes)?;
                            break;
                        }
                    }
                }
            }
        }
        Ok(out)
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<Value> {
        let mut last = None;
        for command in pipeline {
            last = Some(self.command(command, last)?);
        }
        last.ok_or_else(|| Error::bug("an empty pipeline was read"))
    }

    fn command(&mut self, command: &[Term], last: Option<Value>) -> Result<Value> {
        let (first, rest) = command.split_first().ok_or(Error::bug("an empty command was read"))?;
        let Term::Function(function) = first else {
            let what = "can't give argument to non-function";
            return if rest.is_empty() { self.term(first) } else { Err(Error::invalid(what)) };
        };
        let mut arguments = Vec::with_capacity(rest.len() + 1);
        for term in rest {
            arguments.push(self.term(term)?);
        }
        arguments.extend(last);
        self.call(*function, arguments)
    }

    fn term(&mut self, term: &Term) -> Result<Value> {
        match term {
            Term::Value(value) => Ok(value.clone()),
            Term::Function(function) => self.call(*function, Vec::new()),
            Term::Group(pipeline) => self.pipeline(pipeline),
        }
    }

    fn call(&mut self, function: Function, arguments: Vec<Value>) -> Result<Value> {
        use Function as F;
        let count = |want: &str| {
            Error::invalid(format!(
                "wrong number of args for {}: want {want} got {}",
                function.name(),
                arguments.len(),
            ))
        };
        Ok(match (function, arguments.as_slice()) {
            (F::Uuid, []) => Value::Text(self.facts.pod.as_str().to_owned()),
            (F::ShortUuid, []) => Value::Text(self.facts.pod.short().to_owned()),
            (F::Num, []) => Value::Integer(i64::try_from(self.facts.num).unwrap_or(i64::MAX)),
            (F::Uuid | F::ShortUuid | F::Num, _) => return Err(count("0")),
            (F::Random, [length]) => Value::Text(self.random(length)?),
            (F::Len, [Value::Text(text)]) => {
                Value::Integer(i64::try_from(text.len()).unwrap_or(i64::MAX))
            }
            (F::Len, [value]) => return Err(Error::invalid(format!("len of {value}"))),
            (F::Not, [value]) => Value::Truth(!value.is_true()),
            (F::Random | F::Len | F::Not, _) => return Err(count("1")),
            (F::Printf, [Value::Text(layout), rest @ ..]) => Value::Text(format(layout, rest)?),
            (F::Printf, [value, ..]) => return Err(expected("string", value)),
            (F::Print, values) => Value::Text(print(values)),
            (F::Eq, [first, second, rest @ ..]) => {
                let mut is_equal = first.compare(second)? == Ordering::Equal;
                for other in rest {
                    is_equal |= first.compare(other)? == Ordering::Equal;
                }
                Value::Truth(is_equal)
            }
            (F::Ne | F::Lt | F::Le | F::Gt | F::Ge, [first, second]) => {
                let order = first.order(second, function)?;
                Value::Truth(match function {
                    F::Ne => order.is_ne(),
                    F::Lt => order.is_lt(),
                    F::Le => order.is_le(),
                    F::Gt => order.is_gt(),
                    _ => order.is_ge(),
                })
            }
            (F::Ne | F::Lt | F::Le | F::Gt | F::Ge, _) => return Err(count("2")),
            (F::And | F::Or, [.., last]) => {
                let decides = |value: &&Value| value.is_true() == (function == F::Or);
                arguments.iter().find(decides).unwrap_or(last).clone()
            }
            (F::Printf | F::And | F::Or, _) => return Err(count("at least 1")),
            (F::Eq, _) => return Err(Error::invalid("missing argument for comparison")),
        })
    }

    fn random(&mut self, length: &Value) -> Result<String> {
        let length = match length {
            Value::Integer(length) if *length >= 0 => (*length).min(MOST),
            Value::Integer(_) => return Err(Error::invalid("random needs a length from 0 on")),
            other => return Err(expected("integer", other)),
        };
        self.is_random = true;
        let mut text = String::new();
        while text.len() < usize::try_from(length).unwrap_or_default() {
            // Six bits: 62 of 64 are letters, and each letter is as likely as any other.
            let byte = (self.random)()? & 63;
            text.extend(LETTERS.get(usize::from(byte)).map(|letter| char::from(*letter)));
        }
        Ok(text)
    }
}

/// An argument of another kind.
pub(super) fn expected(kind: &str, found: &Value) -> Error {
    let found = match found {
        Value::Text(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    Error::invalid(format!("expected {kind}; found {found}"))
}

/// `fmt.Sprint`: a space between two of which neither is text.
fn print(values: &[Value]) -> String {
    let mut out = String::new();
    for (place, value) in values.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| values.get(place));
        let is_text = |value: &Value| matches!(value, Value::Text(_));
        if before.is_some_and(|before| !is_text(before) && !is_text(value)) {
            out.push(' ');
        }
        out += &value.to_string();
    }
    out
}

impl Value {
    fn is_true(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Integer(number) => *number != 0,
            Self::Truth(truth) => *truth,
        }
    }

    fn compare(&self, other: &Self) -> Result<Ordering> {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => Ok(one.cmp(other)),
            (Self::Integer(one), Self::Integer(other)) => Ok(one.cmp(other)),
            (Self::Truth(one), Self::Truth(other)) => Ok(one.cmp(other)),
            _ => Err(Error::invalid("incompatible types for comparison")),
        }
    }

    fn order(&self, other: &Self, function: Function) -> Result<Ordering> {
        match (self, function) {
            (Self::Truth(_), function) if function != Function::Ne => {
                Err(Error::invalid("invalid type for comparison"))
            }
            _ => self.compare(other),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Truth(truth) => write!(f, "{truth}"),
        }
    }
}
