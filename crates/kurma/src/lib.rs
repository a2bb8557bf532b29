//! Kurma's network plugins, both ends: the executables of a plugin, and the networking pod that runs
//! plugins out of their images.
