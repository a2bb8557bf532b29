//! The error object (CNI 1.1.0 §5, "Error").

use std::fmt;

use model::{Error, Kind};
use serde_json::{Map, Value, json};

use super::node::Object;
use super::{Command, Version};

/// A failure as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code that the runtime branches on.
    pub code: u32,
    /// One sentence.
    pub msg: String,
    /// More about it; may be empty.
    pub details: String,
}

impl Failure {
    /// The version of the configuration is not supported.
    pub const VERSION: u32 = 1;
    /// A necessary environment variable is missing or wrong.
    pub const ENVIRONMENT: u32 = 4;
    /// Something could not be read or written.
    pub const IO: u32 = 5;
    /// The configuration is not JSON of the right shape.
    pub const DECODE: u32 = 6;
    /// The configuration is wrong.
    pub const CONFIGURATION: u32 = 7;
    /// `CNI_NETNS` is no network namespace, or the plugin's own (as the reference library has it).
    pub const NAMESPACE: u32 = 8;
    /// The same call may succeed later.
    pub const TRY_AGAIN: u32 = 11;
    /// All other errors (as in the reference library).
    pub const INTERNAL: u32 = 999;
    /// STATUS: no container can be attached now.
    pub const UNAVAILABLE: u32 = 50;
    /// ADD: something is missing that it needs; CHECK: something of the attachment. Only in Spoke.
    pub const MISSING: u32 = 104;

    /// A failure without details.
    pub fn new(code: u32, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// Puts what was being done in front of the sentence.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.msg = format!("{doing}: {}", self.msg);
        self
    }

    /// Adds details.
    #[must_use]
    pub fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The failure for the runtime after `command`. A delegated plugin's error is passed on as it
    /// is.
    pub fn of(error: &Error, command: Command) -> Self {
        let delegate = std::error::Error::source(error).and_then(|s| s.downcast_ref::<Failure>());
        match delegate {
            Some(failure) => failure.clone(),
            None => Self::new(code(error.kind(), command), error.to_string()),
        }
    }

    /// The kind of a delegated plugin's failure.
    pub fn kind(&self) -> Kind {
        match self.code {
            1 | 2 => Kind::Unsupported,
            3 => Kind::NotFound,
            4 | 6 | 7 | 8 => Kind::Invalid,
            11 | 50 | 51 => Kind::TryAgain,
            101 => Kind::Conflict,
            102 => Kind::Exhausted,
            103 => Kind::Denied,
            _ => Kind::Kernel,
        }
    }

    /// The error that a delegated plugin's failure is to the engine.
    pub fn into_error(self, doing: impl fmt::Display) -> Error {
        Error::new(self.kind(), doing.to_string()).because(self)
    }

    /// The object as JSON. The specification wants `cniVersion` in it; the reference omits it.
    pub fn render(&self, version: Version) -> Value {
        let mut object = Map::new();
        object.insert("cniVersion".into(), json!(version.as_str()));
        object.insert("code".into(), json!(self.code));
        object.insert("msg".into(), json!(self.msg));
        if !self.details.is_empty() {
            object.insert("details".into(), json!(self.details));
        }
        Value::Object(object)
    }

    /// Reads another plugin's output, if it is an error object.
    pub fn parse(object: &Object<'_>) -> Option<Self> {
        let code = object.integer("code").ok()??;
        let text = |key| object.text(key).ok().flatten().unwrap_or_default().to_owned();
        Some(Self { code: u32::try_from(code).ok()?, msg: text("msg"), details: text("details") })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.details.is_empty() {
            true => f.write_str(&self.msg),
            false => write!(f, "{}; {}", self.msg, self.details),
        }
    }
}

impl std::error::Error for Failure {}

/// The one place where kinds become codes. 100 and above are Spoke's.
fn code(kind: Kind, command: Command) -> u32 {
    if command == Command::Status {
        return status_code(kind);
    }
    match kind {
        Kind::Invalid => Failure::CONFIGURATION,
        Kind::Unsupported => 2,
        // To the runtime 3 means that there is nothing to DEL: a failed CHECK does not say so, nor
        // a failed ADD, because the plugins before it in the list have made something.
        Kind::NotFound if matches!(command, Command::Add | Command::Check) => Failure::MISSING,
        Kind::NotFound => 3,
        Kind::Conflict => 101,
        Kind::Exhausted => 102,
        Kind::TryAgain => 11,
        Kind::Denied => 103,
        Kind::Kernel => Failure::IO,
        Kind::Bug => 999,
    }
}

/// An error that keeps the next ADD from working is "not available"; only one that will never pass
/// is reported as what it is.
fn status_code(kind: Kind) -> u32 {
    match kind {
        Kind::Invalid => Failure::CONFIGURATION,
        Kind::Unsupported => 2,
        Kind::NotFound
        | Kind::Conflict
        | Kind::Exhausted
        | Kind::TryAgain
        | Kind::Denied
        | Kind::Kernel => Failure::UNAVAILABLE,
        Kind::Bug => 999,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_says_its_version() {
        let failure = Failure::new(7, "no").details("field x");
        let expected = json!({"cniVersion": "0.4.0", "code": 7, "msg": "no", "details": "field x"});
        assert_eq!(failure.render(Version::V040), expected);
    }

    #[test]
    fn where_something_is_missing_there_is_still_something_to_delete() {
        let missing = Error::not_found("no chain");
        assert_eq!(Failure::of(&missing, Command::Check).code, 104);
        assert_eq!(Failure::of(&missing, Command::Add).code, 104);
        assert_eq!(Failure::of(&missing, Command::Gc).code, 3);
    }

    #[test]
    fn a_full_pool_is_unavailable_in_status_only() {
        let full = Error::exhausted("full");
        assert_eq!(Failure::of(&full, Command::Status).code, 50);
        assert_eq!(Failure::of(&full, Command::Add).code, 102);
    }

    #[test]
    fn what_a_delegate_said_goes_through() {
        let given = Failure::new(123, "dhcp: no lease");
        let error = given.clone().into_error("executing dhcp");
        assert_eq!(error.kind(), Kind::Kernel);
        assert_eq!(Failure::of(&error, Command::Add), given);
    }
}
