//! Callers that are root in a user namespace only, or nowhere: a user's Podman, nerdctl or containerd.

use std::fs;
use std::path::Path;

use config::StoreConfig;
use model::Error;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Set by Podman for what it executes as a user (containers/storage).
const PODMAN_USER: &str = "_CONTAINERS_ROOTLESS_UID";

/// The mapping of the host's own user namespace (user_namespaces(7)).
const WHOLE: [&str; 3] = ["0", "0", "4294967295"];

/// Whether the caller is no root, or says that it is a user's. Root of an unprivileged machine container is neither.
pub(crate) fn is_declared() -> bool {
    !geteuid().is_root() || std::env::var_os(PODMAN_USER).is_some_and(|uid| uid != "0")
}

/// Whether a user calls who may not write the records of this host. Where both folders are the user's own, as in the
/// namespace of a rootless containerd, Spoke works as for root.
pub(crate) fn is_shut_out(store: &StoreConfig) -> bool {
    let is_denied = is_denied(&store.state) || is_denied(&store.runtime);
    is_denied && (is_declared() || is_in_user_namespace())
}

/// Why Spoke does nothing for such a caller.
pub(crate) fn refusal() -> Error {
    Error::unsupported(
        "Spoke connects root's containers only: it changes this host's network, which a rootless runtime may \
         not; run the runtime as root, or use a network of its own there (podman run --network slirp4netns, or \
         pasta)",
    )
}

/// Whether a folder may not be written, or not be made. A read-only one is another matter: DEL works there.
fn is_denied(folder: &Path) -> bool {
    for existing in folder.ancestors() {
        match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
            Err(Errno::NOENT) => {}
            done => return done == Err(Errno::ACCESS),
        }
    }
    false
}

/// What cannot be read is no reason to refuse a caller.
fn is_in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| !map.split_ascii_whitespace().eq(WHOLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run as root, whom nothing is denied.
    #[test]
    fn root_is_not_shut_out() {
        let root = tempfile::tempdir().unwrap();
        let store = |state: &str| StoreConfig {
            runtime: root.path().join("run/spoke"),
            state: root.path().join(state),
        };
        std::fs::write(root.path().join("file"), "").unwrap();
        for state in ["", "var/lib/spoke", "file/spoke"] {
            assert!(!is_shut_out(&store(state)), "{state}");
        }
    }
}
