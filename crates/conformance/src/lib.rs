//! The conformance kit: it drives a third-party plugin through its protocol, as its engines do, and
//! reports violations; it can also stand between an engine and a plugin, and record their messages.
//!
//! The checks are data: the scripts in `cases`, in the language that `script` explains. The kit writes
//! and reads raw JSON on purpose: a lenient decoder would hide faults of an answer, and Spoke's own
//! codec cannot check itself.

mod cni;
mod docker;
mod exchange;
mod http;
mod record;
mod replay;
mod report;
mod run;
mod sandbox;
mod script;
mod statement;
mod words;

pub use cni::{CniTestSpec, list_cni, test_cni};
pub use docker::{PluginTestSpec, list_plugin, test_plugin};
pub use record::Recorder;
pub use replay::{against, serve};
pub use report::{Report, Row, Verdict};
