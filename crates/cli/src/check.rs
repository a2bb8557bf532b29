//! The result of one check of `spoke doctor`.

use std::path::Path;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Status {
    #[serde(rename = "ok")]
    Ok,
    #[serde(rename = "warn")]
    Warn,
    #[serde(rename = "FAIL")]
    Fail,
}

impl Status {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) status: Status,
    pub(crate) what: String,
    pub(crate) fix: Option<String>,
}

impl Check {
    pub(crate) fn ok(what: impl Into<String>) -> Self {
        Self { status: Status::Ok, what: what.into(), fix: None }
    }

    pub(crate) fn warn(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Warn, what: what.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn fail(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Fail, what: what.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn without_fix(mut self) -> Self {
        self.fix = None;
        self
    }
}

/// The first word of a kernel parameter, or of another small file of the kernel's.
pub(crate) fn parameter(root: &Path, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    Some(text.split_whitespace().next().unwrap_or_default().to_owned())
}
