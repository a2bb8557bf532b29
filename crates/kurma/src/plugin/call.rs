//! Calls into plugin containers.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use container::{Bounds, Ended, Ending, Process};
use model::{Error, Kind, PluginName, Result};
use serde_json::Value;

use super::ensure::Fit;
use super::{NetworkingPod, PluginSpec};
use crate::call::{Call, ENVIRONMENT, Verb};
use crate::config::NetworkConfig;
use crate::reply;

/// How much of a plugin's error is reported, in characters.
const REPORTED: usize = 2000;

/// Where images keep CNI plugins, in the order of looking.
pub(crate) const PROGRAMS: [&str; 4] =
    ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni", "/usr/bin"];

/// A call of a program in an image, whose caller knows the program's protocol.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a> {
    /// Which of the image's CNI plugins.
    pub plugin: &'a PluginName,
    /// Its environment besides `PATH`, `HOME` and `CNI_PATH`.
    pub environment: &'a [(&'a str, &'a str)],
    /// Its standard input.
    pub input: &'a [u8],
    /// How long it may take.
    pub limit: Duration,
}

/// The input of a call, its limit, and a file that stays open as long as its processes run.
type How<'a> = (&'a [u8], Duration, Option<BorrowedFd<'a>>);

impl NetworkingPod {
    /// Calls `add` of a network's plugin, and returns its output. The outer error means that
    /// nothing began.
    ///
    /// `lock` is the pod's lock: a plugin whose caller was killed must not work on a pod while
    /// another process does.
    pub(crate) fn add(
        &self,
        network: &NetworkConfig,
        call: &Call,
        lock: BorrowedFd<'_>,
    ) -> Result<Result<Vec<u8>>> {
        self.call(&PluginSpec::network(network), network, (Verb::Add, call, lock))
    }

    /// Calls `del` of a network's plugin as it runs now. `now` is how it is configured now, and
    /// `network` how it was when it was added.
    pub(crate) fn del(
        &self,
        now: &NetworkConfig,
        network: &NetworkConfig,
        call: &Call,
        lock: BorrowedFd<'_>,
    ) -> Result<()> {
        self.call(&PluginSpec::network(now), network, (Verb::Del, call, lock))?.map(drop)
    }

    fn call(
        &self,
        wanted: &PluginSpec,
        network: &NetworkConfig,
        (verb, call, lock): (Verb, &Call, BorrowedFd<'_>),
    ) -> Result<Result<Vec<u8>>> {
        let fit = if verb == Verb::Del { Fit::Any } else { Fit::Exact };
        let limit = network.limit.unwrap_or(self.limits.call);
        let process = process(call.command(verb));
        match self.exec(wanted, fit, &process, (&network.input(), limit, Some(lock)))? {
            Err(error) if error.kind() == Kind::NotFound => {
                let what = format!("the image has no {}", verb.path().display());
                Err(Error::invalid(what))
            }
            ended => Ok(ended.and_then(|ended| verdict(&ended, limit))),
        }
    }

    /// Has the container running in which [`NetworkingPod::direct`] calls programs.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where it does not come up; why the image cannot be had or run.
    pub(crate) fn reach(&self, wanted: &PluginSpec) -> Result<()> {
        self.running(wanted, Fit::Exact, Instant::now() + self.limits.wait).map(drop)
    }

    /// Runs a program of an image in the image's container, and gives how it ended. The image's own
    /// main executable does not run there. The outer error means that nothing began.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where the image has no such plugin; [`Kind::TryAgain`] where the container
    /// does not come up; why the image cannot be had or run.
    pub fn direct(&self, wanted: &PluginSpec, call: &Direct<'_>) -> Result<Result<Ended>> {
        let path = format!("{}:{}", PROGRAMS.join(":"), ENVIRONMENT[0].1);
        let mut env: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path.into()),
            (ENVIRONMENT[1].0.into(), ENVIRONMENT[1].1.into()),
            ("CNI_PATH".into(), PROGRAMS.join(":").into()),
        ];
        env.extend(call.environment.iter().map(|(key, value)| (key.into(), value.into())));
        for directory in PROGRAMS {
            let program = PathBuf::from(directory).join(call.plugin.as_str());
            let process = Process { env: env.clone(), ..Process::new([program]) };
            match self.exec(wanted, Fit::Exact, &process, (call.input, call.limit, None))? {
                Err(error) if error.kind() == Kind::NotFound => {}
                ended => return Ok(ended),
            }
        }
        let (image, places) = (&wanted.image, PROGRAMS.join(", "));
        let what =
            format!("image {image} has no CNI plugin {:?} in {places}", call.plugin.as_str());
        Err(Error::not_found(what))
    }

    /// Runs a process in the container; where that has ended, in the next one. The outer error is
    /// that there is no container.
    fn exec(
        &self,
        wanted: &PluginSpec,
        fit: Fit,
        process: &Process,
        how: How<'_>,
    ) -> Result<Result<Ended>> {
        let ended = self.exec_held(wanted, fit, process, how);
        // This may have been the last call into a container that was replaced meanwhile. It stands as it
        // is, and what cannot be ended now is ended by the next call, or the daemon.
        let _ = self.retire_now(&wanted.key);
        ended
    }

    fn exec_held(
        &self,
        wanted: &PluginSpec,
        fit: Fit,
        process: &Process,
        (input, limit, held): How<'_>,
    ) -> Result<Result<Ended>> {
        let deadline = Instant::now() + self.limits.wait;
        loop {
            let there = self.running(wanted, fit, deadline)?;
            let running = &there.running;
            match running.exec_holding(process, input, &bounds(limit), held) {
                // It was not begun: the container has ended, or is about to.
                Err(error) if error.kind() == Kind::TryAgain => {
                    let remaining = deadline.saturating_duration_since(Instant::now());
                    netlink::process::wait_for_end(&running.process(), remaining);
                    if Instant::now() >= deadline {
                        return Err(self.why_down(wanted));
                    }
                }
                Ok(ended) if ended.status == Ending::Unseen => {
                    return Ok(Err(self.why_cut(wanted, running.process())));
                }
                ended => return Ok(ended),
            }
        }
    }
}

/// A process with the environment of calls.
pub(super) fn process(command: impl IntoIterator<Item = OsString>) -> Process {
    let env = ENVIRONMENT.map(|(key, value)| (key.into(), value.into()));
    Process { env: env.into(), ..Process::new(command) }
}

pub(super) fn bounds(limit: Duration) -> Bounds {
    Bounds { limit, stdout: reply::LONGEST + 1, stderr: reply::LONGEST }
}

/// The output of a successful call, or why it failed.
pub(super) fn verdict(ended: &Ended, limit: Duration) -> Result<Vec<u8>> {
    let (kind, how) = match ended.status {
        Ending::Exited(0) if ended.stdout.len() > reply::LONGEST => {
            return Err(Error::invalid("it printed more than 1 MiB"));
        }
        Ending::Exited(0) => return Ok(ended.stdout.clone()),
        Ending::Exited(code) => (Kind::Kernel, format!("exited {code}")),
        Ending::Signaled(signal) => (Kind::TryAgain, format!("ended by signal {signal}")),
        Ending::TimedOut => {
            let seconds = limit.as_secs_f32();
            (Kind::TryAgain, format!("took longer than {seconds} s and was ended"))
        }
        Ending::Unseen => (Kind::TryAgain, "ended with its container".to_owned()),
    };
    let words = words(ended);
    let what = if words.is_empty() { how } else { format!("{how}: {words}") };
    Err(Error::new(kind, what))
}

/// The error on either output: as CNI writes it, or text.
fn words(ended: &Ended) -> String {
    let error: Option<Value> = serde_json::from_slice(&ended.stdout).ok();
    let field = |name: &str| error.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let answer = match (field("msg"), field("details")) {
        (Some(message), Some(details)) if !details.is_empty() => format!("{message}; {details}"),
        (Some(message), _) => message,
        (None, _) => String::from_utf8_lossy(&ended.stdout).trim().to_owned(),
    };
    let complained = String::from_utf8_lossy(&ended.stderr);
    let both = [answer.as_str(), complained.trim()];
    let both: Vec<&str> = both.into_iter().filter(|text| !text.is_empty()).collect();
    printable(&both.join("; "))
}

/// On one line, bounded, and harmless to terminals.
pub(super) fn printable(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(REPORTED)
        .flat_map(char::escape_debug)
        .collect::<String>()
        .replace("\\'", "'")
        .replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: Ending, stdout: &str, stderr: &str) -> Ended {
        Ended { status, stdout: stdout.into(), stderr: stderr.into(), truncated: false }
    }

    fn answer(status: Ending, stdout: &str, stderr: &str) -> String {
        verdict(&ended(status, stdout, stderr), Duration::from_secs(60)).unwrap_err().to_string()
    }

    #[test]
    fn a7_a8_how_a_call_ended() {
        let fine = ended(Ending::Exited(0), "{}", "chatter");
        assert_eq!(verdict(&fine, Duration::ZERO).unwrap(), b"{}");
        assert_eq!(answer(Ending::Exited(3), "out text\n", ""), "exited 3: out text");
        assert_eq!(
            answer(Ending::Exited(3), "out", "it's \"err\"\nmore\n"),
            "exited 3: out; it's \"err\" more"
        );
        assert_eq!(answer(Ending::Exited(1), "", ""), "exited 1");
        let cni = r#"{"cniVersion":"0.2.0","code":100,"msg":"no","details":"way"}"#;
        assert_eq!(answer(Ending::Exited(1), cni, ""), "exited 1: no; way");
        assert_eq!(answer(Ending::Signaled(9), "", ""), "ended by signal 9");
        assert_eq!(answer(Ending::TimedOut, "", "x"), "took longer than 60 s and was ended: x");
        let much = ended(Ending::Exited(0), &"x".repeat(reply::LONGEST + 1), "");
        assert!(verdict(&much, Duration::ZERO).is_err());
    }

    #[test]
    fn what_a_plugin_says_is_bounded_and_printable() {
        let error = answer(Ending::Exited(1), &"\u{1b}[2J".repeat(5000), "");
        assert!(error.len() < 10 * REPORTED && !error.contains('\u{1b}'), "{error}");
    }
}
