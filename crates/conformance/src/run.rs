//! A running case: its variables, its exchanges, and what must be undone.

use std::collections::BTreeMap;
use std::thread;

use super::exchange::Exchange;
use super::script::Script;
use super::words;

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
    depth: u8,
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

    /// Carries out `lines` up to the first failure.
    pub(super) fn lines(&mut self, lines: &[&str]) -> Step {
        lines.iter().try_for_each(|line| self.line(line))
    }

    fn line(&mut self, line: &str) -> Step {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "when" | "unless" => {
                let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                if self.value(value).is_empty() == (word == "unless") {
                    self.line(rest)
                } else {
                    Ok(())
                }
            }
            "warn" => match self.line(rest) {
                Err(Stop::Fail(why)) => {
                    self.is_shared = false;
                    self.warnings.push(why);
                    Ok(())
                }
                done => done,
            },
            "call" | "undo" => {
                let (method, body) = rest.split_once(' ').unwrap_or((rest, ""));
                let body = self.substitute(body);
                if word == "call" {
                    self.call(method, &body);
                } else {
                    self.undo.push(Undo::Call(method.to_owned(), body, self.vars.clone()));
                }
                Ok(())
            }
            _ => {
                let (args, why) = rest.split_once("-- ").unwrap_or((rest, ""));
                let args: Vec<String> =
                    args.split_whitespace().map(|arg| self.value(arg)).collect();
                let done = self.word(word, &args);
                done.map_err(|stop| match stop {
                    Stop::Fail(what) if !why.is_empty() => Stop::Fail(format!("{why}: {what}")),
                    stop => stop,
                })
            }
        }
    }

    fn word(&mut self, word: &str, args: &[String]) -> Step {
        let arg = |index: usize| args.get(index).map_or("", String::as_str);
        match word {
            "do" => self.shared(arg(0)),
            "crowd" => self.crowd(arg(0).parse().unwrap_or(1), arg(1), arg(2)),
            "until-refused" => self.until_refused(arg(0).parse().unwrap_or(1), arg(1), arg(2)),
            "let" => {
                let value = args.iter().skip(1).find(|value| !value.is_empty());
                self.vars.insert(arg(0).to_owned(), value.cloned().unwrap_or_default());
                Ok(())
            }
            _ => {
                let subject = self.subject;
                let done =
                    words::judge(self, word, args).or_else(|| subject.word(self, word, args));
                done.unwrap_or_else(|| fail(format!("the kit has no word {word:?}")))
            }
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

    fn shared(&mut self, name: &str) -> Step {
        const DEEPEST: u8 = 8;
        let script = self.script;
        let Some(lines) = script.lines(name).filter(|_| self.depth < DEEPEST) else {
            return fail(format!("the kit has no macro {name:?}"));
        };
        self.depth += 1;
        let done = self.lines(lines);
        self.depth -= 1;
        self.is_shared |= matches!(done, Err(Stop::Fail(_)));
        done
    }

    fn crowd(&mut self, count: usize, name: &str, var: &str) -> Step {
        let (subject, script) = (self.subject, self.script);
        let vars: Vec<Vars> = (0..count).map(|_| self.vars.clone()).collect();
        let life = |vars: Vars| {
            let mut run = Run::new(subject, script, vars);
            let done = run.shared(name);
            (done, run.vars, run.exchanges, run.undo, run.warnings)
        };
        let ended: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> =
                vars.into_iter().map(|vars| scope.spawn(move || life(vars))).collect();
            started.into_iter().filter_map(|one| one.join().ok()).collect()
        });
        let (mut all, mut values) = (Ok(()), Vec::new());
        for (done, mut vars, exchanges, undo, warnings) in ended {
            self.undo.extend(undo);
            self.warnings.extend(warnings);
            values.extend(vars.remove(var));
            // The failed exchange comes last, where it is shown.
            if all.is_ok() {
                self.exchanges.extend(exchanges);
                self.is_shared |= matches!(done, Err(Stop::Fail(_)));
                all = done;
            }
        }
        all.and_then(|()| distinct(values))
    }

    fn until_refused(&mut self, most: usize, name: &str, var: &str) -> Step {
        let mut values = Vec::new();
        for _ in 0..most {
            match self.shared(name) {
                Ok(()) => values.push(self.vars.get(var).cloned().unwrap_or_default()),
                Err(_) if self.last().fault.is_some() => {
                    self.is_shared = false;
                    break;
                }
                stopped => return stopped,
            }
        }
        self.vars.insert("count".to_owned(), values.len().to_string());
        distinct(values)
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

    fn value(&self, text: &str) -> String {
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

fn distinct(mut values: Vec<String>) -> Step {
    values.sort();
    match values.windows(2).find(|pair| pair[0] == pair[1] && !pair[0].is_empty()) {
        Some(pair) => fail(format!("{} was allocated twice", pair[0])),
        None => Ok(()),
    }
}
