//! The executables of a Kurma network plugin: `/opt/network/add`, `/opt/network/del`, or its main
//! executable, which is also called `/opt/network/setup`.
//!
//! A caller of `add` may read standard output and standard error as one text, so after success
//! nothing but the result is printed. Errors are sentences on standard error.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};

use host::exit;
use kurma::call::{Call, Verb};
use model::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::wrapped::Wrapped;

/// A longer configuration is refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// Does what is asked with the configuration on standard input; returns the exit code.
pub(crate) fn run(verb: Verb, args: &[OsString]) -> u8 {
    let arguments = args.get(1..).unwrap_or_default();
    let answered = input().and_then(|text| answer(verb, &text, arguments));
    let written = answered.and_then(|text| {
        let failed = |cause| Error::os("writing the result", cause);
        exit::deliver(&text).map_err(failed)
    });
    match written {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            exit::exit_code(error.kind())
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
