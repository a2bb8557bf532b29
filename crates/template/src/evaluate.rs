//! Evaluates a template on a value.

use model::{Error, Result};
use serde_json::Value;

use super::functions::apply;
use super::parse::{Node, Pipeline, Term};
use super::value::{field, is_true, shown};

/// Carries out the caller's own functions.
pub trait Scope {
    /// One of [`Dialect::functions`](crate::Dialect::functions).
    ///
    /// # Errors
    /// Where it cannot take these arguments, or fails.
    fn call(&mut self, function: &str, arguments: &[Value]) -> Result<Value>;
}

/// A scope without functions.
impl Scope for () {
    fn call(&mut self, function: &str, _: &[Value]) -> Result<Value> {
        Err(Error::bug(format!("template function {function} is of no dialect")))
    }
}

type Here<'a> = (&'a Value, &'a mut dyn Scope);

pub(super) fn nodes(
    nodes: &[Node],
    dot: &Value,
    scope: &mut dyn Scope,
    text: &mut String,
) -> Result<()> {
    for node in nodes {
        match node {
            Node::Text(literal) => text.push_str(literal),
            Node::Output(what) => text.push_str(&shown(&pipeline(what, (dot, scope))?)),
            Node::If(branches) => {
                for (condition, then) in branches {
                    let holds = match condition {
                        Some(condition) => is_true(&pipeline(condition, (dot, scope))?),
                        None => true,
                    };
                    if holds {
                        self::nodes(then, dot, scope, text)?;
                        break;
                    }
                }
            }
            Node::Range(branches) => range(branches, (dot, scope), text)?,
        }
    }
    Ok(())
}

fn range(
    branches: &[(Option<Pipeline>, Vec<Node>)],
    (dot, scope): Here<'_>,
    text: &mut String,
) -> Result<()> {
    let (each, otherwise) = match branches {
        [(Some(over), each), rest @ ..] => {
            let items = elements(pipeline(over, (dot, scope))?)?;
            items.iter().try_for_each(|item| nodes(each, item, scope, text))?;
            (items.len(), rest.first())
        }
        _ => return Err(Error::bug("a range over nothing was read")),
    };
    match otherwise {
        Some((_, otherwise)) if each == 0 => nodes(otherwise, dot, scope, text),
        _ => Ok(()),
    }
}

fn pipeline(pipeline: &Pipeline, (dot, scope): Here<'_>) -> Result<Value> {
    let mut last = None;
    for terms in pipeline {
        last = Some(command(terms, (dot, scope), last)?);
    }
    last.ok_or_else(|| Error::bug("an empty pipeline was read"))
}

fn command(terms: &[Term], (dot, scope): Here<'_>, last: Option<Value>) -> Result<Value> {
    let (first, rest) = terms.split_first().ok_or(Error::bug("an empty command was read"))?;
    if !first.is_function() {
        let what = "can't give argument to non-function";
        return if rest.is_empty() { term(first, (dot, scope)) } else { Err(Error::invalid(what)) };
    }
    let mut arguments = Vec::with_capacity(rest.len() + 1);
    for argument in rest {
        arguments.push(match argument {
            // JSON escapes control characters.
            Term::Field(path) if first.is_json() => field_of(dot, path)?.clone(),
            argument => term(argument, (dot, scope))?,
        });
    }
    arguments.extend(last);
    call(first, &arguments, scope)
}

fn call(function: &Term, arguments: &[Value], scope: &mut dyn Scope) -> Result<Value> {
    match function {
        Term::Function(function) => apply(*function, arguments),
        Term::Own(function) => scope.call(function, arguments),
        _ => Err(Error::bug("a value was called")),
    }
}

fn term(term: &Term, (dot, scope): Here<'_>) -> Result<Value> {
    match term {
        Term::Value(value) => Ok(value.clone()),
        Term::Field(path) => field_of(dot, path).map(clean),
        Term::Function(_) | Term::Own(_) => call(term, &[], scope),
        Term::Group(group) => pipeline(group, (dot, scope)),
    }
}

fn field_of<'a>(dot: &'a Value, path: &[String]) -> Result<&'a Value> {
    path.iter().try_fold(dot, |within, name| field(within, name))
}

/// Text of other programs must not control the terminal: control characters become question marks.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn clean(value: &Value) -> Value {
    match value {
        Value::String(text) => printable(text).into(),
        Value::Array(items) => items.iter().map(clean).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (printable(name), clean(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn elements(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Object(fields) => Ok(fields.into_iter().map(|(_, value)| value).collect()),
        Value::Null => Ok(Vec::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(Error::invalid("range over a single value"))
        }
    }
}
