//! How a plugin speaks HTTP: engines take any of it, but a drop-in speaks as the original does.

use model::{Error, Kind};

/// Content types, and the status of an error.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The content type of what went well.
    pub done: &'static str,
    /// The content type of what did not.
    pub failed: &'static str,
    /// The status of a request that was understood and failed; what is none counts as 500.
    pub status: fn(&Error) -> u16,
}

impl Default for Manner {
    /// That of a plugin of the protocol's version 1.2.
    fn default() -> Self {
        Self { done: JSON, failed: JSON, status: reported }
    }
}

const JSON: &str = "application/vnd.docker.plugins.v1.2+json";

/// A request that was understood is answered with 200 and an error's text, so that the engine
/// shows the text and nothing else.
fn reported(error: &Error) -> u16 {
    match error.kind() {
        Kind::Invalid
        | Kind::Unsupported
        | Kind::NotFound
        | Kind::Conflict
        | Kind::Exhausted
        | Kind::TryAgain
        | Kind::Denied
        | Kind::Kernel => 200,
        Kind::Bug => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bugs_are_no_answer() {
        let status = |error: &Error| (Manner::default().status)(error);
        assert_eq!(status(&Error::conflict("taken").with_status(409)), 200);
        assert_eq!(status(&Error::bug("broken")), 500);
    }
}
