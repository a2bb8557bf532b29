//! The name of an interface as a template of Go's, evaluated without data. Kurma's functions: `uuid`,
//! `shortuuid`, `num` and `random N`.

use model::{Error, IfName, Result, text};
use serde_json::Value;
use template::{Dialect, Scope, expected, wrong_count};

use crate::PodId;

/// A longer template is refused, in bytes.
const LONGEST: usize = 4096;

const DIALECT: Dialect = Dialect {
    functions: &["uuid", "shortuuid", "num", "random"],
    without_data: Some("the names of interfaces"),
};

/// More characters than these at once are not given.
const MOST: u64 = 32;
/// The alphabet of random characters.
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns one unpredictable byte.
pub type Random<'a> = &'a mut dyn FnMut() -> Result<u8>;

/// The name of an interface, to be rendered for each pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(template::Template);

/// The variables of a template.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The pod of the interface.
    pub pod: &'a PodId,
    /// How many networks the pod has been connected to.
    pub num: usize,
}

/// The result of a template.
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
        template::Template::read(source, DIALECT).map(Self)
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        self.0.source()
    }

    /// The interface's name for one pod. `random` gives unpredictable bytes.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where a function gets an argument that it cannot use, or the text
    /// is no name of an interface.
    pub fn render(&self, facts: Facts<'_>, random: Random<'_>) -> Result<Rendered> {
        let mut scope = Names { facts, random, is_random: false };
        let about = |error: Error| {
            error.context(format!("containerInterface {:?}", text::shown(self.source())))
        };
        let name = self.0.render(&Value::Null, &mut scope).map_err(about)?;
        let interface = match name.as_str() {
            "" => None,
            name => Some(name.parse().map_err(about)?),
        };
        Ok(Rendered { interface, is_random: scope.is_random })
    }
}

/// One rendering.
struct Names<'a> {
    facts: Facts<'a>,
    random: Random<'a>,
    /// Whether something was left to chance.
    is_random: bool,
}

impl Scope for Names<'_> {
    fn call(&mut self, function: &str, arguments: &[Value]) -> Result<Value> {
        match (function, arguments) {
            ("uuid", []) => Ok(self.facts.pod.as_str().into()),
            ("shortuuid", []) => Ok(self.facts.pod.short().into()),
            ("num", []) => Ok(self.facts.num.into()),
            ("random", [length]) => self.random(length).map(Value::from),
            ("random", _) => Err(wrong_count(function, "1", arguments.len())),
            _ => Err(wrong_count(function, "0", arguments.len())),
        }
    }
}

impl Names<'_> {
    fn random(&mut self, length: &Value) -> Result<String> {
        let negative = || Error::invalid("random needs a length from 0 on");
        let length = match length {
            Value::Number(length) => length.as_u64().ok_or_else(negative)?.min(MOST),
            other => return Err(expected("integer", other)),
        };
        self.is_random = true;
        let mut text = String::new();
        while (text.len() as u64) < length {
            // Six bits: 62 of 64 are letters, and each letter is as likely as any other.
            let byte = (self.random)()? & 63;
            text.extend(LETTERS.get(usize::from(byte)).map(|letter| char::from(*letter)));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
