//! Whole plugins, from environment and standard input to standard output, over a store in memory
//! and a dataplane that does nothing.

use std::path::Path;
use std::time::Duration;

use cni::wire::Environment;
use cni::{Context, Found, Namespaces, Output, Plugin};
use engine::port::{Driver, Granted, Host, Ipam, Prefix, Presence, Store, Stray};
use engine::{Engine, Members};
use model::{Attached, Attachment, Backend, Error, Network, Process, Result, Timestamp};
use serde_json::Value;
use store::Memory;

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

/// A kernel, an address source, a host and its namespaces that agree to everything.
struct Nothing;

impl Driver for Nothing {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        Ok(Attached {
            addresses: attachment.addresses.clone(),
            routes: attachment.routes.clone(),
            dns: attachment.dns.clone(),
            ..Attached::default()
        })
    }

    fn detach(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn check(&self, _: &Attachment, _: &Attached) -> Result<()> {
        Ok(())
    }

    fn presence(&self, _: &Attachment) -> Presence {
        Presence::Alive
    }

    fn restore(&self, _: &Attachment) -> model::Result<()> {
        Ok(())
    }

    fn hardware_address(&self, _: &Attachment) -> Option<model::Mac> {
        None
    }

    fn up(&self, _: &Network) -> model::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn strays(&self, _: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<(Stray, Presence)>> {
        Ok(Vec::new())
    }

    fn remove_stray(&self, _: &Stray) -> Result<()> {
        Ok(())
    }
}

impl Ipam for Nothing {
    fn lease(&self, attachment: &Attachment) -> Result<Granted> {
        match &attachment.ipam {
            model::Ipam::Foreign(_) => Err(Error::unsupported("nothing is executed here")),
            _ => Ok(Granted::Chosen),
        }
    }

    fn release(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn check(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn gc(&self, _: &Network, _: &Members) -> Result<()> {
        Ok(())
    }

    fn status(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }
}

impl Host for Nothing {
    fn me(&self) -> Process {
        Process { pid: 1, start: 1 }
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn is_running(&self, _: &Process) -> bool {
        true
    }

    fn occupied(&self) -> model::Result<Vec<engine::port::Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, _: &Process, _: Duration) -> bool {
        false
    }
}

impl Namespaces for Nothing {
    fn look(&self, _: &Path) -> Result<Found> {
        Ok(Found::Other(2))
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
