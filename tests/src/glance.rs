//! A pause between two looks.

use std::thread;
use std::time::Duration;

/// How long it is.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

/// Between two looks at what cannot be waited for. Without it a test that waits has a processor to itself, which
/// what it waits for needs.
pub fn glance() {
    thread::sleep(GLANCE);
}
