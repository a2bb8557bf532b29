//! One error for several.

use model::{Error, Kind, Result};

/// One error for all: the first one's kind, every sentence.
pub(crate) fn all_of(failures: Vec<Error>) -> Result<()> {
    let kind = failures.first().map_or(Kind::Bug, Error::kind);
    let sentences: Vec<String> = failures.iter().map(ToString::to_string).collect();
    match sentences.is_empty() {
        true => Ok(()),
        false => Err(Error::new(kind, sentences.join("; "))),
    }
}
