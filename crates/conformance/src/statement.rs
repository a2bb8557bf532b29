//! The statements of a case, one after the other.

use std::thread;

use super::run::{Run, Step, Stop, Undo, Vars, fail};
use super::words;

impl Run<'_> {
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
}

fn distinct(mut values: Vec<String>) -> Step {
    values.sort();
    match values.windows(2).find(|pair| pair[0] == pair[1] && !pair[0].is_empty()) {
        Some(pair) => fail(format!("{} was allocated twice", pair[0])),
        None => Ok(()),
    }
}
