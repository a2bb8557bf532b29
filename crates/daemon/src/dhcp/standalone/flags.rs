//! The flags of the reference's daemon, as Go's package `flag` reads them: with one dash or two, and
//! their value behind `=` or in the next argument.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use dhcp::Pace;
use model::text::truth;
use model::{Error, Result};

pub(super) const USAGE: &str = "Usage of daemon:
  -broadcast
    \tbroadcast DHCP leases
  -hostprefix string
    \toptional prefix to host root
  -pidfile string
    \toptional path to write daemon PID to
  -resendmax duration
    \toptional dhcp client resend max duration (default 1m2s)
  -resendtimeout duration
    \toptional dhcp client resend timeout, no more retries after this timeout (default 3m28s)
  -socketpath string
    \toptional dhcp server socketpath
  -timeout duration
    \toptional dhcp client timeout duration (default 10s)
";

/// The values of the flags.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) pidfile: Option<PathBuf>,
    pub(super) prefix: String,
    pub(super) socket: PathBuf,
    pub(super) pace: Pace,
}

impl Flags {
    /// `None` where help is asked for.
    pub(super) fn parse(arguments: &[OsString]) -> Result<Option<Self>> {
        let mut flags = Self {
            pidfile: None,
            prefix: String::new(),
            socket: cni::dhcp::SOCKET.into(),
            pace: Pace { give_up: Duration::from_secs(208), ..Pace::default() },
        };
        let mut rest = arguments.iter().map(|argument| argument.to_string_lossy());
        while let Some(argument) = rest.next() {
            let Some(flag) = argument.strip_prefix('-') else { break };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, mut value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            match name {
                "" => break,
                "h" | "help" => return Ok(None),
                "broadcast" => {}
                _ => value = value.or_else(|| rest.next().map(Into::into)),
            }
            flags.set(name, value)?;
        }
        Ok(Some(flags))
    }

    fn set(&mut self, name: &str, value: Option<String>) -> Result<()> {
        if name == "broadcast" {
            self.pace.broadcast = match value.as_deref() {
                None => true,
                Some(given) => truth(given).ok_or_else(|| refused(name, given))?,
            };
            return Ok(());
        }
        let value =
            value.ok_or_else(|| Error::invalid(format!("flag needs an argument: -{name}")))?;
        let duration = || duration(&value).ok_or_else(|| refused(name, &value));
        match name {
            "pidfile" => self.pidfile = Some(value).filter(|path| !path.is_empty()).map(Into::into),
            "hostprefix" => self.prefix = value,
            "socketpath" if !value.is_empty() => self.socket = value.into(),
            "socketpath" => {}
            "timeout" => self.pace.timeout = duration()?,
            "resendmax" => self.pace.resend_max = duration()?,
            "resendtimeout" => self.pace.give_up = duration()?,
            _ => {
                let what = format!("flag provided but not defined: -{name}\n{USAGE}");
                return Err(Error::invalid(what));
            }
        }
        Ok(())
    }
}

fn refused(name: &str, value: &str) -> Error {
    Error::invalid(format!("invalid value {value:?} for flag -{name}"))
}

/// A duration as Go writes it: `1m2.5s`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    if text == "0" {
        return Some(Duration::ZERO);
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (value, after) = rest.split_at(number);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += value.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    Duration::try_from_secs_f64(total).ok().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Flags>> {
        let arguments: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        Flags::parse(&arguments)
    }

    #[test]
    fn reads_what_the_reference_reads() {
        let text = "-pidfile=/run/p --hostprefix /host -socketpath /s.sock -broadcast \
                    -timeout 500ms -resendmax 1m2.5s -resendtimeout 1h";
        let flags = parse(text).unwrap().unwrap();
        assert_eq!(flags.pidfile, Some("/run/p".into()));
        assert_eq!((flags.prefix.as_str(), flags.socket), ("/host", "/s.sock".into()));
        assert_eq!(
            flags.pace,
            Pace {
                timeout: Duration::from_millis(500),
                resend_max: Duration::from_millis(62_500),
                give_up: Duration::from_secs(3600),
                broadcast: true,
            }
        );
        assert_eq!(parse("-broadcast=false").unwrap().unwrap().pace.give_up.as_secs(), 208);
        assert!(parse("-h").unwrap().is_none());
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["-nothing", "-timeout", "-timeout 5", "-timeout s", "-broadcast=maybe"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
