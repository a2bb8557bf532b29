//! Go's `text/template` over JSON values, as far as `--format` and the names of interfaces need it.
//!
//! Actions: pipelines, `if`, `else if`, `range`, `else`, `end`, comments, parentheses, and the markers
//! that trim white space. Functions: those of `parse::Function`, which are Go's own and
//! those that Docker adds, and the caller's. Not: variables, `with`, and templates in templates.

mod evaluate;
mod format;
mod functions;
mod lex;
mod parse;
mod value;

use model::{Error, Result};
use serde_json::Value;

pub use evaluate::{Scope, printable};
use parse::{Node, Term};

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    source: String,
    nodes: Vec<Node>,
}

/// The features that templates of one purpose may use.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The caller's functions, which [`Scope::call`] carries out.
    pub functions: &'static [&'static str],
    /// The purpose of a template without data: fields and `range` are refused there.
    pub without_data: Option<&'static str>,
}

impl Template {
    /// Reads a template; the empty one renders nothing.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] with what is wrong, in Go's words where it has some;
    /// [`model::Kind::Unsupported`] for what Go has and this lacks.
    pub fn read(source: &str, dialect: Dialect) -> Result<Self> {
        Ok(Self { source: source.to_owned(), nodes: parse::parse(source, dialect)? })
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The template's text for `data`. Control characters of the data become question marks.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where a field is missing, or a function is given what it cannot take.
    pub fn render(&self, data: &Value, scope: &mut dyn Scope) -> Result<String> {
        let mut text = String::new();
        evaluate::nodes(&self.nodes, data, scope, &mut text)?;
        Ok(text)
    }

    /// The headings of the columns: each field's name in upper case.
    pub fn headings(&self) -> String {
        let heading = |node: &Node| match node {
            Node::Text(text) => text.clone(),
            Node::Output(pipeline) => {
                pipeline.iter().flatten().find_map(name_of).unwrap_or_default()
            }
            Node::If(branches) | Node::Range(branches) => {
                let mut terms = branches.iter().filter_map(|(what, _)| what.as_ref()).flatten();
                terms.find_map(|terms| terms.iter().find_map(name_of)).unwrap_or_default()
            }
        };
        self.nodes.iter().map(heading).collect()
    }
}

fn name_of(term: &Term) -> Option<String> {
    match term {
        Term::Field(path) => path.last().map(|name| name.to_uppercase()),
        _ => None,
    }
}

/// A call with too many or too few arguments.
pub fn wrong_count(function: &str, want: &str, got: usize) -> Error {
    Error::invalid(format!("wrong number of args for {function}: want {want} got {got}"))
}

/// An argument of another kind than `kind`.
pub fn expected(kind: &str, found: &Value) -> Error {
    let found = match found {
        Value::String(text) => format!("{text:?}"),
        other => value::shown(other),
    };
    Error::invalid(format!("expected {kind}; found {found}"))
}

#[cfg(test)]
mod tests;
