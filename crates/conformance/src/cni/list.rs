//! The plugins of a list that come before the one that is tested: called as a runtime calls them.

use std::path::{Path, PathBuf};

use model::{Error, Result};
use serde_json::{Map, Value, json};

use super::super::run::{Run, Step, Stop, Subject, Undo};
use super::{ELSEWHERE, Plugin, config};

/// The prefix of the method of a call to another program: `DEL /opt/cni/bin/bridge`.
const DEL: &str = "DEL ";

impl Plugin<'_> {
    /// Calls their ADD, each with the result of the one before.
    pub(super) fn call_before(&self, run: &mut Run<'_>) -> Result<()> {
        let var = |name: &str| run.vars.get(name).cloned().unwrap_or_default();
        let (version, port) = (var("version"), var("port"));
        let mut result = Value::Null;
        for entry in &self.before {
            let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
            let program = self.program(kind)?;
            let texts = |result: &Value| body(entry, &version, result).replace("$port", &port);
            let method = |verb: &str| format!("{verb} {}", program.display());
            run.undo.push(Undo::Call(method("DEL"), texts(&result), run.vars.clone()));
            let exchange = self.call(&method("ADD"), &texts(&result), &run.vars);
            if let Some(fault) = exchange.fault {
                let what = format!("{kind}, which comes before it in the list, fails: {fault}");
                return Err(Error::invalid(what));
            }
            result = exchange.value;
            // With what it has made.
            if let Some(Undo::Call(_, body, _)) = run.undo.last_mut() {
                *body = texts(&result);
            }
        }
        run.vars.insert("prev".to_owned(), format!(",\"prevResult\":{result}"));
        Ok(())
    }

    /// Calls their DEL for this container now, the last first.
    pub(super) fn undo_before(&self, run: &mut Run<'_>) -> Step {
        let container = run.vars.get("container").cloned().unwrap_or_default();
        let is_its = |undo: &Undo| match undo {
            Undo::Call(method, _, vars) => {
                method.starts_with(DEL) && vars.get("container") == Some(&container)
            }
            Undo::Sandbox(_) => false,
        };
        let (due, rest) = std::mem::take(&mut run.undo).into_iter().partition(is_its);
        run.undo = rest;
        let due: Vec<Undo> = due;
        for undo in due.into_iter().rev() {
            let Undo::Call(method, body, vars) = undo else { continue };
            let netns = run.vars.get("netns").cloned().unwrap_or_default();
            let vars = vars.into_iter().chain([("netns".to_owned(), netns)]).collect();
            if let Some(fault) = self.call(&method, &body, &vars).fault {
                return Err(Stop::Skip(format!("{method}, of the list, fails: {fault}")));
            }
        }
        Ok(())
    }

    fn program(&self, kind: &str) -> Result<PathBuf> {
        let beside = self.spec.plugin.parent().unwrap_or(Path::new("/"));
        let elsewhere = ELSEWHERE.split(':').map(Path::new);
        let mut places = [beside].into_iter().chain(elsewhere);
        let missing = || {
            let beside = beside.display();
            Error::not_found(format!(
                "plugin {kind} of the list is neither in {beside} nor in {ELSEWHERE}"
            ))
        };
        // The name is a file's in one of these directories, and no default route of them.
        let is_name = !kind.is_empty() && !kind.contains('/');
        let found = places.find(|place| is_name && place.join(kind).is_file());
        found.map(|place| place.join(kind)).ok_or_else(missing)
    }
}

fn body(entry: &Map<String, Value>, version: &str, result: &Value) -> String {
    let mut body = entry.clone();
    body.insert("cniVersion".to_owned(), json!(version));
    body.insert("name".to_owned(), json!("kit"));
    if !result.is_null() {
        body.insert("prevResult".to_owned(), result.clone());
    }
    config::numbered(&Value::Object(body))
}
