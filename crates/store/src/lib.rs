//! Where records are kept: embedded files for one host, memory for tests.
