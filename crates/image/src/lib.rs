//! Images of plugins: where they come from, what is in them, and how one is made.
