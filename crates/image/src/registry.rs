//! Images of registries (OCI distribution specification 1.1, Docker Registry HTTP API V2).

pub mod challenge;
pub mod credentials;
pub mod manifest;

pub use challenge::Challenge;
pub use credentials::{Credential, Credentials};
