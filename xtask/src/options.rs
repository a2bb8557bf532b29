//! The manual's tables of options, from `crates/spec`.

use std::fs;
use std::path::Path;

use crate::Result;

/// Writes them. `spec`'s test compares.
pub(crate) fn options(root: &Path) -> Result<()> {
    for (page, of) in spec::PAGES {
        let path = root.join("docs").join(page);
        let there = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let new = spec::document(&there, of).ok_or(format!("{page} has no {}", spec::BEGIN))?;
        fs::write(&path, new).map_err(|error| format!("{page}: {error}"))?;
    }
    Ok(())
}
