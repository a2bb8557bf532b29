//! What Podman says of a network that is made: its options are anybody's words.

use doubles::Memory;
use engine::Engine;
use model::{Backend, Timestamp};
use podman::{Context, Verb};
use serde_json::Value;

use crate::nothing::Nothing;

/// The document of `create`. The answer is one JSON object: the document again, or a short
/// error. What was answered is answered again as it is.
pub fn podman(bytes: &[u8]) {
    let Some(made) = create(bytes) else { return };
    let again = create(made.to_string().as_bytes());
    assert_eq!(again, Some(made), "Podman keeps what it got");
}

fn create(bytes: &[u8]) -> Option<Value> {
    let store = Memory::new();
    let engine = Engine::new(&store, &Nothing, &Nothing, &Nothing);
    let (backend, now) = (Backend::Nftables, Timestamp(0));
    let declare = &|_: &podman::ManyHosts| Ok(());
    let context = Context { engine: &engine, backend, now, declare, networks: &[] };
    let output = podman::run(&Verb::Create, &mut &*bytes, &context);
    let said: Value = serde_json::from_str(&output.stdout).expect("one JSON document");
    match said["error"].as_str() {
        Some(error) if output.code == 1 => {
            assert!(error.len() < 8192, "{error}");
            None
        }
        _ => {
            assert_eq!(output.code, 0, "{said}");
            Some(said)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_networks_are_made() {
        for input in crate::corpus("podman") {
            assert!(create(&input).is_some(), "{}", input.escape_ascii());
        }
    }
}
