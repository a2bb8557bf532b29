//! The verbs of a runtime.

use model::{ContainerId, IfName, Result};
use serde_json::{Map, Value, json};

use super::call::failure;
use super::request::{of_attachment, of_gc, of_plugin};
use super::{Cache, NetworkList, PluginConfig, Programs, Target};
use crate::wire::{Command, Environment, Failure, Object, Success, Version};

/// Executes lists, in the order of the specification, and stores the results.
pub struct Runtime<'a> {
    /// Where plugins are, and how they are executed.
    pub programs: &'a Programs<'a>,
    /// The stored results.
    pub cache: &'a Cache,
}

/// Which attachments of a network are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid<'a> {
    /// None of the stored ones; plugins do not get any others.
    Unknown,
    /// Exactly these, from any front end.
    These(&'a [(ContainerId, IfName)]),
}

impl Runtime<'_> {
    /// Attaches: calls the plugins in order, each with the result of the one before. After a
    /// failure every plugin's DEL is called, unless the attachment existed before. Returns the
    /// result in the version that the last plugin used.
    ///
    /// # Errors
    /// The error of the first plugin that failed.
    pub fn add(&self, list: &NetworkList, target: &Target) -> Result<Value, Failure> {
        let _lock = self.cache.lock_shared();
        let known = self.cache.knows(&list.name, target);
        self.try_add(list, target).inspect_err(|_| {
            if !known {
                // The first failure is returned.
                let _ = self.undo(list, target, None, Stop::AtTheEnd);
                // A failed ADD has mostly stored none; a DEL works with or without it.
                let _ = self.cache.remove(&list.name, target);
            }
        })
    }

    fn try_add(&self, list: &NetworkList, target: &Target) -> Result<Value, Failure> {
        let mut previous = None;
        for plugin in &list.plugins {
            let config = of_attachment(list, plugin, target, previous.as_ref());
            let answer = self.call(plugin, Command::Add, &target.environment(), &config);
            let result = answer.and_then(|answer| result(&answer, list.version));
            let doing = || format!("plugin {} failed (add)", plugin.described());
            previous = Some(result.map_err(|failure| failure.context(doing()))?);
        }
        let result = previous.unwrap_or_else(|| json!({}));
        let doing = || format!("failed to set network {:?} cached result", list.name.as_str());
        let kept = self.cache.put(list, target, &result);
        kept.map_err(|error| failure(error.context(doing())))?;
        Ok(result)
    }

    /// Detaches: calls the plugins in reverse order, each with the stored result. An unreadable
    /// result is dropped.
    ///
    /// # Errors
    /// The error of the first plugin that failed; the plugins before it are not called.
    pub fn del(&self, list: &NetworkList, target: &Target) -> Result<(), Failure> {
        let _lock = self.cache.lock_shared();
        self.del_locked(list, target)
    }

    fn del_locked(&self, list: &NetworkList, target: &Target) -> Result<(), Failure> {
        let previous = match list.version >= Version::V040 {
            true => self.cache.result(&list.name, target, list.version),
            false => Ok(None),
        };
        let previous = previous.unwrap_or_else(|_| {
            // An unreadable result is of no use; one that stays is read again the next time.
            let _ = self.cache.remove(&list.name, target);
            None
        });
        self.undo(list, target, previous.as_ref(), Stop::AtFirst)?;
        // As in libcni: the attachment is gone, and a repeated DEL succeeds.
        let _ = self.cache.remove(&list.name, target);
        Ok(())
    }

    /// Calls the DEL of every installed plugin, and deletes the attachment.
    ///
    /// # Errors
    /// The first of them; the others are called all the same.
    pub fn abandon(&self, list: &NetworkList, target: &Target) -> Result<(), Failure> {
        let _lock = self.cache.lock_shared();
        let previous = self.cache.result(&list.name, target, list.version).unwrap_or_default();
        let previous = previous.filter(|_| list.version >= Version::V040);
        let undone = self.undo(list, target, previous.as_ref(), Stop::AtTheEnd);
        // As in libcni: the attachment is gone, and a repeated DEL succeeds.
        let _ = self.cache.remove(&list.name, target);
        undone
    }

    fn undo(
        &self,
        list: &NetworkList,
        target: &Target,
        previous: Option<&Value>,
        stop: Stop,
    ) -> Result<(), Failure> {
        let mut failed = None;
        for plugin in list.plugins.iter().rev() {
            let config = of_attachment(list, plugin, target, previous);
            let doing = || format!("plugin {} failed (delete)", plugin.described());
            let done = self.call(plugin, Command::Del, &target.environment(), &config);
            if let Err(failure) = done.map_err(|failure| failure.context(doing())) {
                if stop == Stop::AtFirst {
                    return Err(failure);
                }
                failed.get_or_insert(failure);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the attachment is still as its result says.
    ///
    /// # Errors
    /// Where a plugin says that it is not; below 0.4.0 there is no such command.
    pub fn check(&self, list: &NetworkList, target: &Target) -> Result<(), Failure> {
        if list.version < Version::V040 {
            let msg = format!(
                "configuration version {:?} does not support the CHECK command",
                list.version.as_str()
            );
            return Err(Failure::new(Failure::VERSION, msg));
        }
        if list.disable_check {
            return Ok(());
        }
        let _lock = self.cache.lock_shared();
        let previous = self.cache.result(&list.name, target, list.version).map_err(|error| {
            let name = list.name.as_str();
            failure(error.context(format!("failed to get network {name:?} cached result")))
        })?;
        for plugin in &list.plugins {
            let config = of_attachment(list, plugin, target, previous.as_ref());
            self.call(plugin, Command::Check, &target.environment(), &config)?;
        }
        Ok(())
    }

    /// Detaches the stored attachments of the network that are not valid, and passes the valid ones
    /// to its plugins, from 1.1.0 on. No effect where the list disables it.
    ///
    /// # Errors
    /// All of them together; one failure does not stop the others.
    pub fn gc(&self, list: &NetworkList, valid: Valid<'_>) -> Result<(), Failure> {
        if list.disable_gc {
            return Ok(());
        }
        let _lock = self.cache.lock_exclusive();
        let mut failures = Vec::new();
        let members = match valid {
            Valid::Unknown => None,
            Valid::These(members) => Some(members),
        };
        let is_valid = |target: &Target| {
            let member = (target.container.clone(), target.ifname.clone());
            members.is_some_and(|members| members.contains(&member))
        };
        let known = self.cache.attachments(None).map_err(failure)?;
        let stale = known.iter().filter(|it| it.network == list.name && !is_valid(&it.target));
        for target in stale.map(|it| &it.target) {
            let Target { container, ifname, .. } = target;
            let doing = || format!("failed to delete stale attachment {container} {ifname}");
            let done = self.del_locked(list, target);
            failures.extend(done.err().map(|failure| failure.context(doing())));
        }
        if list.version >= Version::V110 {
            for plugin in &list.plugins {
                let config = of_gc(list, plugin, members);
                let doing = || format!("failed to GC plugin {}", plugin.kind);
                let done = self.call(plugin, Command::Gc, &Environment::default(), &config);
                failures.extend(done.err().map(|failure| failure.context(doing())));
            }
        }
        all_of(failures)
    }

    /// Whether a container could be attached now. Before 1.1.0 this is unknown.
    ///
    /// # Errors
    /// The error of the first plugin that is not ready, with its code.
    pub fn status(&self, list: &NetworkList) -> Result<(), Failure> {
        if list.version < Version::V110 {
            return Ok(());
        }
        for plugin in &list.plugins {
            let config = of_plugin(list, plugin);
            self.call(plugin, Command::Status, &Environment::default(), &config)?;
        }
        Ok(())
    }

    /// The plugins of the list that are not there.
    pub fn missing(&self, list: &NetworkList) -> Vec<String> {
        let kinds = list.plugins.iter().map(|plugin| plugin.kind.clone());
        kinds.filter(|kind| self.programs.find(kind).is_err()).collect()
    }

    fn call(
        &self,
        plugin: &PluginConfig,
        command: Command,
        environment: &Environment,
        config: &Map<String, Value>,
    ) -> Result<Vec<u8>, Failure> {
        let environment =
            Environment { command: command.as_str().to_owned(), ..environment.clone() };
        self.programs.call(&plugin.kind, &environment, config)
    }
}

/// Which failure ends a walk through the plugins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtFirst,
    AtTheEnd,
}

/// The result that a plugin printed, in the version that it names or else in `version`.
fn result(answer: &[u8], version: Version) -> Result<Value, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::new(Failure::DECODE, format!("failed to unmarshal raw result: {why}"))
    };
    let parsed: Value = serde_json::from_slice(answer).map_err(|why| wrong(&why))?;
    let fields = match parsed {
        Value::Null => Map::new(),
        Value::Object(fields) => fields,
        _ => return Err(wrong(&"it is not an object")),
    };
    let object = Object::new("result", &fields);
    let own = object.text("cniVersion").map_err(|why| wrong(&why))?.and_then(Version::parse);
    let success = Success::parse(&object, version).map_err(|why| wrong(&why))?;
    match success.render(own.unwrap_or(version)) {
        Ok(result) => Ok(result),
        // Such versions cannot express that there is no address; the result is passed on.
        Err(_) => Ok(Value::Object(fields)),
    }
}

fn all_of(failures: Vec<Failure>) -> Result<(), Failure> {
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    match failures.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(Failure::new(first.code, texts.join("\n"))),
    }
}
