//! The kernel dataplane: what to do (pure), and doing it.
