//! The executables of a Kurma network plugin: `/opt/network/add`, `/opt/network/del`, or its main
//! executable, which is also called `/opt/network/setup`.
//!
//! A caller of `add` may read standard output and standard error as one text, so after success
//! nothing but the result is printed. Errors are sentences on standard error.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

use kurma::call::{Call, Verb};
use model::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::wrapped::Wrapped;
use crate::{cli, standard};

/// The directory that the executables are in.
const DIRECTORY: &str = "network";

/// A longer configuration is refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// Which executable a program of this name and with these arguments is, its own name first. By a
/// name without a directory it is one only with the arguments that it must have.
pub(crate) fn called(args: &[OsString]) -> Option<Verb> {
    let path = Path::new(args.first()?);
    let verb = match path.file_name()?.to_str()? {
        "add" => Verb::Add,
        "del" => Verb::Del,
        "setup" => Verb::Setup,
        _ => return None,
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let is_one = match (directory, verb) {
        (Some(directory), _) => directory.file_name() == Some(OsStr::new(DIRECTORY)),
        (None, Verb::Add | Verb::Del) => matches!(args.len(), 3 | 4),
        (None, Verb::Setup) => args.len() == 1,
    };
    is_one.then_some(verb)
}

/// Does what is asked with the configuration on standard input; returns the exit code.
pub(crate) fn run(verb: Verb, args: &[OsString]) -> u8 {
    let arguments = args.get(1..).unwrap_or_default();
    let answered = input().and_then(|text| answer(verb, &text, arguments));
    let written = answered.and_then(|text| {
        let failed = |cause| Error::os("writing the result", cause);
        standard::deliver(&text).map_err(failed)
    });
    match written {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            cli::exit_code(error.kind())
        }
    }
}

fn input() -> Result<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err(Error::invalid("the network's configuration is missing on standard input"));
    }
    let mut text = Vec::new();
    let failed = |cause| Error::os("reading the network's configuration", cause);
    stdin.take(LONGEST + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() as u64 > LONGEST {
        true => Err(Error::invalid("the network's configuration is longer than 1 MiB")),
        false => Ok(text),
    }
}

/// The text to print.
fn answer(verb: Verb, text: &[u8], arguments: &[OsString]) -> Result<String> {
    let wrapped = Wrapped::parse(text)?;
    match verb {
        Verb::Add => {
            let call = Call::read(arguments)?;
            wrapped.validate()?;
            wrapped.add(&call).map(|reply| format!("{}\n", reply.to_value()))
        }
        Verb::Del => wrapped.del(&Call::read(arguments)?).map(|()| String::new()),
        Verb::Setup => {
            wrapped.validate()?;
            wait().map(|()| String::new())
        }
    }
}

/// Waits until the plugin is to end.
fn wait() -> Result<()> {
    let signals = Signals::new([SIGTERM, SIGINT]);
    let mut signals = signals.map_err(|cause| Error::os("listening to signals", cause))?;
    // Any end of the signals ends the wait.
    let _ = signals.forever().next();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn is_an_executable_by_its_place_or_its_arguments() {
        let is = |list: &[&str]| called(&words(list));
        assert_eq!(is(&["/opt/network/add", "/n", "u", "eth0"]), Some(Verb::Add));
        assert_eq!(is(&["/opt/network/del"]), Some(Verb::Del));
        assert_eq!(is(&["/opt/network/setup"]), Some(Verb::Setup));
        assert_eq!(is(&["network/setup"]), Some(Verb::Setup));
        assert_eq!(is(&["add", "/n", "u", ""]), Some(Verb::Add));
        assert_eq!(is(&["setup"]), Some(Verb::Setup));
        assert_eq!(is(&["setup", "x"]), None);
        assert_eq!(is(&["add"]), None);
        assert_eq!(is(&["/usr/bin/add", "/n", "u", "eth0"]), None);
        assert_eq!(is(&["/opt/network/gc", "/n"]), None);
        assert_eq!(is(&[]), None);
    }
}
