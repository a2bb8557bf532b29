//! A call from its arguments to its exit code.

use std::io::Read;
use std::path::PathBuf;

use model::{Error, Result};
use serde_json::{Value, json};

use crate::context::Context;
use crate::many;
use crate::wire::Exec;
use crate::{create, setup};

/// The version of the interface (netavark `plugin::API_VERSION`).
const API_VERSION: &str = "1.0.0";

/// A larger document is refused: Podman's own are some kilobytes.
const LARGEST: u64 = 1 << 20;

/// The command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Check and complete a new network.
    Create,
    /// Attach a container whose namespace is at this path.
    Setup(PathBuf),
    /// Detach it.
    Teardown(PathBuf),
    /// Print the versions.
    Info,
}

impl Verb {
    /// The verb that these arguments (without the program's name) are, if they are one's: the
    /// command line has none of these names.
    pub fn parse(arguments: &[String]) -> Option<Self> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match arguments.as_slice() {
            ["create"] => Some(Verb::Create),
            ["info"] => Some(Verb::Info),
            ["setup", netns] => Some(Verb::Setup(netns.into())),
            ["teardown", netns] => Some(Verb::Teardown(netns.into())),
            _ => None,
        }
    }
}

/// The output of the plugin for its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// For standard output: one JSON object, or nothing.
    pub stdout: String,
    /// The exit code.
    pub code: u8,
}

impl Output {
    /// As netavark reads an error: `{"error": …}`, and exit code 1.
    pub fn error(error: &Error) -> Self {
        Self { stdout: json!({"error": error.to_string()}).to_string(), code: 1 }
    }

    fn of(value: &Value) -> Self {
        Self { stdout: value.to_string(), code: 0 }
    }
}

/// The answer to a call that needs nothing to work with.
pub fn introduce(verb: &Verb) -> Option<Output> {
    let versions = json!({"version": env!("CARGO_PKG_VERSION"), "api_version": API_VERSION});
    (*verb == Verb::Info).then(|| Output::of(&versions))
}

/// Does what `verb` says with the document in `input`.
pub fn run(verb: &Verb, input: &mut dyn Read, context: &Context<'_>) -> Output {
    if let Some(output) = introduce(verb) {
        return output;
    }
    answer(verb, input, context).unwrap_or_else(|error| Output::error(&error))
}

fn answer(verb: &Verb, input: &mut dyn Read, context: &Context<'_>) -> Result<Output> {
    let document = read(input)?;
    match verb {
        Verb::Info => Ok(Output::default()),
        Verb::Create => {
            let many = many::read(&document)?;
            let document = match &many {
                Some(many) => {
                    (context.declare)(many)?;
                    many::joined(many, document)
                }
                None => document,
            };
            let created = create::create(document, context)?;
            Ok(Output::of(&created))
        }
        Verb::Setup(netns) => {
            let status = setup::setup(&Exec::read(&document)?, netns, context)?;
            Ok(Output::of(&status.render()))
        }
        Verb::Teardown(netns) => {
            setup::teardown(&Exec::read(&document)?, netns, context)?;
            Ok(Output::default())
        }
    }
}

fn read(input: &mut dyn Read) -> Result<Value> {
    let mut text = Vec::new();
    let read = input.take(LARGEST + 1).read_to_end(&mut text);
    read.map_err(|cause| Error::os("reading standard input", cause))?;
    if text.len() as u64 > LARGEST {
        return Err(Error::invalid("standard input is larger than 1 MiB"));
    }
    serde_json::from_slice(&text).map_err(|cause| {
        Error::invalid("standard input is not the JSON that netavark gives to a plugin")
            .because(cause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(line: &str) -> Option<Verb> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Verb::parse(&words)
    }

    #[test]
    fn only_the_plugin_s_own_words_are_verbs() {
        assert_eq!(verb("setup /run/netns/x"), Some(Verb::Setup("/run/netns/x".into())));
        assert_eq!((verb("create"), verb("info")), (Some(Verb::Create), Some(Verb::Info)));
        for other in ["", "ps", "setup", "create front", "network create front", "info --help"] {
            assert_eq!(verb(other), None, "{other}");
        }
    }

    #[test]
    fn tells_its_versions() {
        let shown = introduce(&Verb::Info).unwrap();
        assert!(shown.code == 0 && shown.stdout.contains("\"api_version\":\"1.0.0\""), "{shown:?}");
        assert_eq!(introduce(&Verb::Create), None);
    }

    #[test]
    fn an_error_is_as_netavark_reads_it() {
        let shown = Output::error(&Error::invalid("a \"quoted\" reason"));
        assert_eq!(shown.stdout, r#"{"error":"a \"quoted\" reason"}"#);
        assert_eq!(shown.code, 1);
    }

    #[test]
    fn what_is_read_is_bounded() {
        let mut endless = std::io::repeat(b' ');
        assert!(read(&mut endless).unwrap_err().to_string().contains("1 MiB"));
        assert!(read(&mut &b""[..]).unwrap_err().to_string().contains("netavark"));
    }
}
