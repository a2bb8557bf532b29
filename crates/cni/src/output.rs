//! What a plugin prints, and its exit code.

use model::{AttachmentId, Layer};

/// The output of a plugin for its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// For standard output: one JSON object, or nothing.
    pub stdout: String,
    /// For standard error: for people.
    pub stderr: String,
    /// The exit code.
    pub code: i32,
    /// The process that prints this must then call [`Attachments::answered`](engine::Attachments::answered) with these, in this order.
    pub unreported: Vec<(AttachmentId, Layer)>,
}
