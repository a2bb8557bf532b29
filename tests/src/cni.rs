//! The runtime's part: executing plugins as the CNI specification says.

use std::process::Command;

use serde_json::{Value, json};

use crate::Plugins;
use crate::world::{Output, World};

/// One attachment's side of the protocol: who and where, and what the runtime remembers.
#[derive(Clone, Debug)]
pub struct Cni<'a> {
    /// Where all of it is.
    pub world: &'a World,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_NETNS`.
    pub netns: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`, unless empty.
    pub args: String,
    /// Capability arguments, given to each plugin that announces the capability.
    pub runtime: Value,
    /// The result of the last ADD.
    pub result: Option<Value>,
}

/// What a plugin answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub output: Output,
}

impl Answer {
    /// Whether it succeeded.
    pub fn ok(&self) -> bool {
        self.output.status == 0
    }

    /// Its standard output: one JSON document, or `None` for nothing.
    ///
    /// # Panics
    /// When it is anything else.
    #[track_caller]
    pub fn json(&self) -> Option<Value> {
        let text = self.output.stdout.trim();
        let parse =
            |text| serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {self:?}"));
        (!text.is_empty()).then(|| parse(text))
    }
}

impl<'a> Cni<'a> {
    /// Container `c1` with interface `eth0`, in a network namespace of that name.
    pub fn new(world: &'a World) -> Self {
        Self::container(world, "c1")
    }

    /// The container `id` with interface `eth0`, in a network namespace of that name.
    pub fn container(world: &'a World, id: &str) -> Self {
        Self {
            world,
            container: id.into(),
            netns: world.netns(id),
            ifname: "eth0".into(),
            args: String::new(),
            runtime: json!({}),
            result: None,
        }
    }

    /// Executes one plugin with `stdin` as it is.
    pub fn execute(&self, plugin: &str, verb: &str, stdin: &str) -> Answer {
        self.execute_under(&[], plugin, verb, stdin)
    }

    /// The same as the argument of another program.
    pub fn execute_under(&self, over: &[&str], plugin: &str, verb: &str, stdin: &str) -> Answer {
        let (program, words) = words(over, plugin);
        let set = |command: &mut Command| {
            command.args(words);
            self.given(command, verb);
        };
        Answer { output: self.world.output(program, set, stdin) }
    }

    /// One plugin, with its environment, as the argument of the program `over`, if there is one.
    pub fn command(&self, over: &[&str], plugin: &str, verb: &str) -> Command {
        let (program, words) = words(over, plugin);
        let mut command = self.world.command(program);
        command.args(words);
        self.given(&mut command, verb);
        command
    }

    fn given(&self, command: &mut Command, verb: &str) {
        let given = [
            ("CNI_COMMAND", verb),
            ("CNI_CONTAINERID", &self.container),
            ("CNI_NETNS", &self.netns),
            ("CNI_IFNAME", &self.ifname),
            ("CNI_ARGS", &self.args),
            ("CNI_PATH", Plugins::MOUNT),
        ];
        command.envs(given.into_iter().filter(|(_, value)| !value.is_empty()));
    }

    /// Executes one plugin with exactly this environment and standard input.
    pub fn raw(&self, plugin: &str, env: &[(&str, &str)], stdin: &str) -> Answer {
        let set = |command: &mut Command| {
            command.envs(env.iter().copied());
        };
        let plugin = format!("{}/{plugin}", Plugins::MOUNT);
        Answer { output: self.world.output(plugin, set, stdin) }
    }

    /// ADD of every plugin of `list` in order; stops at the first refusal. Remembers the result.
    pub fn add(&mut self, list: &Value) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut last = None;
        for plugin in plugins(list) {
            let answer = self.call(list, plugin, "ADD", last.as_ref());
            let ok = answer.ok();
            last = ok.then(|| answer.json()).flatten();
            answers.push(answer);
            if !ok {
                return answers;
            }
        }
        self.result = last;
        answers
    }

    /// CHECK of every plugin of `list` in order; stops at the first refusal.
    pub fn check(&self, list: &Value) -> Vec<Answer> {
        self.each(list, "CHECK", plugins(list).iter())
    }

    /// DEL of every plugin of `list` in reverse; stops at the first refusal.
    pub fn del(&self, list: &Value) -> Vec<Answer> {
        self.each(list, "DEL", plugins(list).iter().rev())
    }

    /// STATUS, GC or VERSION of every plugin of `list` in order; stops at the first refusal.
    pub fn ask(&self, list: &Value, verb: &str) -> Vec<Answer> {
        self.each(list, verb, plugins(list).iter())
    }

    fn each<'p>(
        &self,
        list: &Value,
        verb: &str,
        plugins: impl Iterator<Item = &'p Value>,
    ) -> Vec<Answer> {
        let mut answers = Vec::new();
        for plugin in plugins {
            answers.push(self.call(list, plugin, verb, self.result.as_ref()));
            if !answers.iter().all(Answer::ok) {
                break;
            }
        }
        answers
    }

    fn call(&self, list: &Value, plugin: &Value, verb: &str, previous: Option<&Value>) -> Answer {
        let config = self.config(list, plugin, verb, previous);
        self.execute(plugin["type"].as_str().unwrap_or_default(), verb, &config.to_string())
    }

    /// The plugin's object with what the runtime adds (CNI 1.1.0 §3).
    pub fn config(
        &self,
        list: &Value,
        plugin: &Value,
        verb: &str,
        previous: Option<&Value>,
    ) -> Value {
        let mut config = plugin.clone();
        for key in ["name", "cniVersion", "cni.dev/valid-attachments"] {
            if let Some(value) = list.get(key) {
                config[key] = value.clone();
            }
        }
        if let Some(previous) = previous.filter(|_| verb == "ADD" || remembers(list)) {
            config["prevResult"] = previous.clone();
        }
        let announced = |key: &String| plugin["capabilities"][key] == json!(true);
        let given =
            self.runtime.as_object().into_iter().flatten().filter(|(key, _)| announced(key));
        for (key, value) in given {
            config["runtimeConfig"][key] = value.clone();
        }
        config
    }
}

/// A plugin's path, or a program that is given it: which, and its arguments.
fn words(over: &[&str], plugin: &str) -> (String, Vec<String>) {
    let plugin = format!("{}/{plugin}", Plugins::MOUNT);
    let mut words: Vec<String> = over.iter().map(|word| (*word).to_owned()).collect();
    words.push(plugin);
    let program = words.remove(0);
    (program, words)
}

fn plugins(list: &Value) -> &[Value] {
    list["plugins"].as_array().map_or(&[], Vec::as_slice)
}

/// From 0.4.0 on, CHECK and DEL are given the result of ADD.
fn remembers(list: &Value) -> bool {
    !matches!(list["cniVersion"].as_str().unwrap_or(""), "" | "0.1.0" | "0.2.0" | "0.3.0" | "0.3.1")
}
