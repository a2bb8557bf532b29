//! One call of one plugin: environment, input, time limit, answer.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::time::Duration;

use model::{Error, Kind, NetworkName, Result};
use serde_json::{Map, Value};

use crate::execute::{Input, LIMIT, execute_keeping, find, program_lock, refusal};
use crate::output::Output;
use crate::wire::{Environment, Failure, LONGEST};

/// The context of a trace, which plugins get in their environment (W3C Trace Context, Baggage).
/// What is absent is left as this process has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// `TRACEPARENT`
    pub parent: Option<String>,
    /// `TRACESTATE`
    pub state: Option<String>,
    /// `BAGGAGE`
    pub baggage: Option<String>,
}

/// The plugins that this process is, by the `type` of a configuration: asked with the environment
/// and the standard input of a program, and answering as one. `None` where it is not that plugin.
pub type Native<'a> = dyn Fn(&str, &Environment, &str) -> Option<Output> + 'a;

/// The plugins of this host, as programs in directories. Each call is bounded in time and in its
/// output.
pub struct Programs<'a> {
    /// Where they are, in order.
    pub path: Vec<PathBuf>,
    /// How long one may take.
    pub limit: Duration,
    /// The trace that a call belongs to.
    pub trace: Trace,
    /// The network of Spoke that they make the attachments of. Where they are Spoke's own, what
    /// they make has records beside those.
    pub chain: Option<NetworkName>,
    /// The lock file of plugins that are called one at a time. It stays locked for as long as the
    /// plugin runs, so that a plugin whose caller has died is waited for.
    pub lock: Option<PathBuf>,
    /// Built-in plugins, tried before any program.
    pub native: Option<&'a Native<'a>>,
    /// Receives plugins' standard error.
    pub complaints: &'a dyn Fn(&[u8]),
}

impl<'a> Programs<'a> {
    /// The plugins in `path`; `complaints` receives their standard error.
    pub fn new(path: Vec<PathBuf>, complaints: &'a dyn Fn(&[u8])) -> Self {
        let (trace, chain, lock, native) = (Trace::default(), None, None, None);
        Self { path, limit: LIMIT, trace, chain, lock, native, complaints }
    }

    /// The executable of the plugin, found by its base name only.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where there is none, [`Kind::Invalid`] where that is no base name.
    pub fn find(&self, plugin: &str) -> Result<PathBuf> {
        find(plugin, &self.path)
    }

    /// Calls the plugin of this type and returns what it says when it succeeds.
    pub(super) fn call(
        &self,
        kind: &str,
        environment: &Environment,
        config: &Map<String, Value>,
    ) -> Result<Vec<u8>, Failure> {
        let path: Vec<String> = self.path.iter().map(|dir| dir.display().to_string()).collect();
        let chain = self.chain.as_ref().map(ToString::to_string).unwrap_or_default();
        let environment = Environment { path: path.join(":"), chain, ..environment.clone() };
        let input = Value::Object(config.clone()).to_string();
        let native = self.native.and_then(|native| native(kind, &environment, &input));
        match native {
            Some(output) => self.heard(output),
            None => self.execute(&self.find(kind).map_err(failure)?, &environment, input),
        }
    }

    fn heard(&self, output: Output) -> Result<Vec<u8>, Failure> {
        if !output.stderr.is_empty() {
            (self.complaints)(output.stderr.as_bytes());
        }
        match output.code {
            0 => Ok(output.stdout.into_bytes()),
            code => {
                let (answer, complained) = (output.stdout.as_bytes(), output.stderr.as_bytes());
                Err(refusal(answer, complained, ExitStatus::from_raw(code << 8)))
            }
        }
    }

    /// The same in exactly this environment.
    pub(super) fn execute(
        &self,
        file: &Path,
        environment: &Environment,
        input: String,
    ) -> Result<Vec<u8>, Failure> {
        let more = self.trace.variables();
        let input = match &self.lock {
            Some(lock) => {
                Input::File(program_lock::take(lock, &input, self.limit).map_err(failure)?)
            }
            None => Input::Text(input),
        };
        let process::Output { stdout: answer, stderr: complained, status } =
            execute_keeping(file, environment, &more, input, self.limit).map_err(failure)?;
        if !complained.is_empty() {
            (self.complaints)(&complained);
        }
        if answer.len() as u64 > LONGEST {
            let what = format!("{} printed more than {LONGEST} bytes", file.display());
            return Err(Failure::new(Failure::DECODE, what));
        }
        match status.success() {
            true => Ok(answer),
            false => Err(refusal(&answer, &complained, status)),
        }
    }
}

impl Trace {
    fn variables(&self) -> Vec<(String, String)> {
        let all = [
            ("TRACEPARENT", &self.parent),
            ("TRACESTATE", &self.state),
            ("BAGGAGE", &self.baggage),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }
}

/// The failure for a runtime where no plugin reported one.
pub(super) fn failure(error: Error) -> Failure {
    let code = match error.kind() {
        Kind::Invalid | Kind::Unsupported | Kind::NotFound => Failure::CONFIGURATION,
        Kind::TryAgain => Failure::TRY_AGAIN,
        Kind::Conflict | Kind::Exhausted | Kind::Denied | Kind::Kernel | Kind::Bug => Failure::IO,
    };
    Failure::new(code, error.to_string())
}
