//! The engine of plugin containers: namespaces, file systems, supervised processes.
