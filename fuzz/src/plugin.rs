//! Whole plugins, from environment and standard input to standard output, over a store in memory
//! and a dataplane that does nothing.

use std::path::Path;

use cni::wire::Environment;
use cni::{Context, Output, Plugin};
use doubles::Memory;
use engine::Engine;
use engine::port::{Prefix, Store};
use model::{Backend, Timestamp};
use serde_json::Value;

use crate::nothing::Nothing;

/// `model::Kind::Bug`, as runtimes see it.
const BUG: u64 = 999;

/// The first line says plugin, command and `CNI_ARGS`; the rest is standard input. Whatever it is,
/// the answer is one JSON object that names its version, an error is not our bug, and DEL leaves
/// no record.
pub fn plugin(bytes: &[u8]) {
    let (head, input) = bytes.split_at(bytes.iter().position(|b| *b == b'\n').unwrap_or(0));
    let head = String::from_utf8_lossy(head);
    let mut words = head.splitn(3, ' ');
    let plugin = Plugin::named(words.next().unwrap_or_default()).unwrap_or(Plugin::Bridge);
    let (command, args) = (words.next().unwrap_or("ADD"), words.next().unwrap_or_default());
    let store = Memory::new();
    let call = |command: &str| called(&store, plugin, (command, args), input);
    judge(&call(command), command);
    if command == "ADD" {
        judge(&call("CHECK"), "CHECK");
        judge(&call("DEL"), "DEL");
        let left = store.list(&Prefix::Attachments).expect("memory does not fail");
        assert!(left.is_empty(), "left: {left:?}");
        let leases = store.list(&Prefix::AllLeases).expect("memory does not fail");
        assert!(leases.is_empty(), "left: {leases:?}");
    }
}

fn called(store: &Memory, plugin: Plugin, (command, args): (&str, &str), input: &[u8]) -> Output {
    let value = |name: &str| match name {
        "CNI_COMMAND" => Some(command.to_owned()),
        "CNI_CONTAINERID" => Some("c".into()),
        "CNI_NETNS" => Some("/ns/one".into()),
        "CNI_IFNAME" => Some("eth0".into()),
        "CNI_PATH" => Some("/nowhere".into()),
        "CNI_ARGS" => Some(args.to_owned()),
        _ => None,
    };
    let engine = Engine::new(store, &Nothing, &Nothing, &Nothing);
    let context = Context {
        engine: &engine,
        backend: Backend::Nftables,
        namespaces: &Nothing,
        now: Timestamp(0),
        allowlist: Path::new("/nowhere"),
        share: &|_| Err(model::Error::unsupported("there is no cluster of hosts here")),
    };
    cni::run(plugin, &Environment::read(value), &mut &*input, &context)
}

fn judge(output: &Output, command: &str) {
    let quiet = output.stdout.is_empty();
    if output.code == 0 && quiet {
        assert!(!matches!(command, "ADD" | "VERSION"), "no answer to {command}");
        return;
    }
    let said: Value = serde_json::from_str(&output.stdout).expect("one JSON document");
    assert!(said["cniVersion"].is_string(), "{said}");
    assert_eq!(said["code"].is_u64(), output.code != 0, "{said}");
    assert_ne!(said["code"], BUG, "{said}");
    if output.code != 0 {
        assert!(said["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{said}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_inputs_are_accepted() {
        for input in crate::corpus("plugin") {
            let text = String::from_utf8(input).unwrap();
            let (head, config) = text.split_once('\n').unwrap();
            let mut words = head.split(' ');
            let plugin = Plugin::named(words.next().unwrap()).unwrap();
            let call = (words.next().unwrap(), words.next().unwrap_or_default());
            let output = called(&Memory::new(), plugin, call, config.as_bytes());
            assert_eq!(output.code, 0, "{head}: {}", output.stdout);
        }
    }
}
