//! The conformance kit: drives a third-party plugin through its protocol, as its engines do,
//! and says what it violates; stands between an engine and a plugin, and writes down what they say.
//!
//! What is checked is data: the scripts in `kit/cases`, whose words [`script`] explains. The kit
//! writes and reads raw JSON on purpose: what is wrong with an answer must not be lost by reading
//! it leniently, and a codec of ours is no judge of itself.

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
mod words;

pub(crate) use cni::{CniTestSpec, test_cni};
pub(crate) use docker::{PluginTestSpec, test_plugin};
pub(crate) use record::Recorder;
pub(crate) use replay::{against, serve};
pub(crate) use report::{Report, Row, Verdict, list_cni, list_plugin};
