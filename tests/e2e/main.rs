//! Real runtimes on the plugins under test.
