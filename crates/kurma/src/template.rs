//! The name of an interface as a template: as much of Go's `text/template` as such a name needs,
//! evaluated without data. Functions: `uuid`, `shortuuid`, `num`, `random N` (Kurma's), `printf`,
//! `print`, `len`, `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `and`, `or`, `not` (Go's). Actions:
//! pipelines, `if`, `else if`, `else`, `end`, comments, and the markers that trim white space.

mod evaluate;
mod format;
mod lex;
mod parse;

use model::{Error, IfName, Result, text};

use crate::PodId;
use evaluate::{Random, Scope};
use parse::Node;

/// A longer template is refused, in bytes.
const LONGEST: usize = 4096;

/// The name of an interface, to be rendered for each pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    source: String,
    nodes: Vec<Node>,
}

/// What a template can ask for.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Whose interface it is.
    pub pod: &'a PodId,
    /// How many networks the pod has been connected to.
    pub num: usize,
}

/// What a template became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The interface's name; none where the text is empty.
    pub interface: Option<IfName>,
    /// Whether it may be another one the next time.
    pub is_random: bool,
}

impl Template {
    /// Reads a template; the empty one renders nothing.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] with what is wrong, in Go's words where it has some;
    /// [`model::Kind::Unsupported`] for what Go has and this lacks.
    pub fn read(source: &str) -> Result<Self> {
        if source.len() > LONGEST {
            return Err(Error::invalid(format!("it is longer than {LONGEST} bytes")));
        }
        Ok(Self { source: source.to_owned(), nodes: parse::parse(source)? })
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The interface's name for one pod. `random` gives bytes that nobody can foretell.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where a function is given what it cannot take, or the text is no
    /// name of an interface.
    pub fn render(&self, facts: Facts<'_>, random: Random<'_>) -> Result<Rendered> {
        let mut scope = Scope { facts, random, is_random: false };
        let about = |error: Error| {
            error.context(format!("containerInterface {:?}", text::shown(&self.source)))
        };
        let name = scope.render(&self.nodes).map_err(about)?;
        let interface = match name.as_str() {
            "" => None,
            name => Some(name.parse().map_err(about)?),
        };
        Ok(Rendered { interface, is_random: scope.is_random })
    }
}

#[cfg(test)]
mod tests;
