//! A running case: its variables, its exchanges, and what must be undone.

use std::collections::BTreeMap;

use super::exchange::Exchange;
use super::script::Script;

/// Why a case does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The plugin violates what the case checks.
    Fail(String),
    /// The case cannot be tried here.
    Skip(String),
}

/// The result of a statement.
pub(super) type Step = Result<(), Stop>;

/// A failure, in words.
pub(super) fn fail<T>(what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Fail(what.into()))
}

/// Variables of a case.
pub(super) type Vars = BTreeMap<String, String>;

/// The subject of a test: a plugin of Docker's, or one of CNI's.
pub(super) trait Subject: Sync {
    /// Asks it.
    fn call(&self, method: &str, body: &str, vars: &Vars) -> Exchange;

    /// Carries out a word of its own; `None` if it has no such word.
    fn word(&self, run: &mut Run<'_>, word: &str, args: &[String]) -> Option<Step>;
}

/// One thing to be undone.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    /// This call with these variables, whatever is answered.
    Call(String, String, Vars),
    /// This namespace goes.
    Sandbox(String),
}

/// A case on its way.
pub(super) struct Run<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) script: &'a Script<'a>,
    pub(super) vars: Vars,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) warnings: Vec<String>,
    pub(super) undo: Vec<Undo>,
    /// The failed statement is in shared lines.
    pub(super) is_shared: bool,
    /// Macros may call macros, but not themselves.
    pub(super) depth: u8,
}

impl<'a> Run<'a> {
    pub(super) fn new(subject: &'a dyn Subject, script: &'a Script<'a>, vars: Vars) -> Self {
        Self {
            subject,
            script,
            vars,
            exchanges: Vec::new(),
            warnings: Vec::new(),
            undo: Vec::new(),
            is_shared: false,
            depth: 0,
        }
    }

    /// Calls the plugin; the next statements check the answer.
    pub(super) fn call(&mut self, method: &str, body: &str) -> &Exchange {
        let exchange = self.subject.call(method, body, &self.vars);
        self.exchanges.push(exchange);
        self.last()
    }

    /// The last exchange.
    pub(super) fn last(&self) -> &Exchange {
        static NOTHING: std::sync::LazyLock<Exchange> = std::sync::LazyLock::new(Exchange::default);
        self.exchanges.last().unwrap_or(&NOTHING)
    }

    /// Undoes, last first; what cannot be undone is only written down.
    pub(super) fn tidy(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Call(method, body, vars) => {
                    self.exchanges.push(self.subject.call(&method, &body, &vars));
                }
                Undo::Sandbox(path) => {
                    // The case is over.
                    let _ = netlink::Netns::unmake(path.as_ref());
                }
            }
        }
    }

    /// The value of an argument.
    pub(super) fn value(&self, text: &str) -> String {
        match text.strip_prefix('@') {
            Some(path) => self.last().text(path),
            None => self.substitute(text),
        }
    }

    /// `text` with its variables' values.
    pub(super) fn substitute(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            let value = self.vars.get(name).map_or("", String::as_str);
            let (value, rest) = match rest.strip_prefix(".ip") {
                Some(rest) => (value.split('/').next().unwrap_or_default(), rest),
                None => (value, rest),
            };
            out.push_str(value);
            out.push_str(rest);
        }
        out
    }
}
