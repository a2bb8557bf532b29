//! Which parts of a container's lasting name identify it in a command.

/// In front of the names of pods that CNI's runtimes send: `pod/NAMESPACE/NAME`.
const POD: &str = "pod/";

/// Whether a word means the container with this lasting name: the name, the part behind its last slash, or a pod as
/// Kubernetes writes it (`NAMESPACE/NAME`).
pub fn is_owner_called(owner: &str, word: &str) -> bool {
    owner == word || owner.rsplit('/').next() == Some(word) || owner.strip_prefix(POD) == Some(word)
}

#[cfg(test)]
mod tests {
    use super::is_owner_called;

    #[test]
    fn a_pod_is_called_with_and_without_its_namespace() {
        for word in ["web", "prod/web", "pod/prod/web"] {
            assert!(is_owner_called("pod/prod/web", word), "{word}");
        }
        for word in ["prod", "pod/web", "test/web", "od/web", "pod", "eb", "", "pod/prod"] {
            assert!(!is_owner_called("pod/prod/web", word), "{word}");
        }
        assert!(is_owner_called("podman/web", "web") && !is_owner_called("podman/web", "man/web"));
        assert!(!is_owner_called("", "web"));
    }
}
