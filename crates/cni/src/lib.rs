//! CNI, all versions: the plugins that runtimes execute, and foreign plugins that we execute.
