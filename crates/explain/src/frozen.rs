//! Which programs of a namespace are stopped by the freezer of control groups (cgroups(7)): `docker pause` does so.
//!
//! The kernel goes on answering for their sockets: it takes connections until the queue is full, and echo requests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Programs of a namespace that are stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Their control group, below its hierarchy.
    pub group: String,
    /// The file that holds them, and what is written into it to let them go on.
    pub thaw: (PathBuf, &'static str),
    /// Whether they are all programs of the namespace.
    pub is_all: bool,
}

/// The processes of each network namespace, by its inode.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    by_netns: BTreeMap<u64, Vec<u32>>,
}

/// Where hierarchies are mounted: of version 1, then of version 2, alone or beside others.
const V1: &str = "/sys/fs/cgroup/freezer";
const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

impl Processes {
    /// Of this host, as they are now. One that ends meanwhile is left out.
    pub(crate) fn read() -> Self {
        let mut all = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(pid) = pid else { continue };
            if let Ok(netns) = fs::metadata(format!("/proc/{pid}/ns/net")) {
                all.by_netns.entry(netns.ino()).or_default().push(pid);
            }
        }
        all
    }

    /// What holds the one of a namespace that has this socket, or all of them.
    pub(crate) fn frozen(&self, netns: u64, socket: Option<u32>) -> Option<Frozen> {
        let pids = self.by_netns.get(&netns)?;
        let mut known = BTreeMap::new();
        let groups: Vec<(u32, Option<Frozen>)> = pids
            .iter()
            .filter_map(|pid| {
                let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
                let held = known.entry(text).or_insert_with_key(|text| held(text));
                Some((*pid, held.clone()))
            })
            .collect();
        if let Some((_, Some(first))) = groups.first()
            && groups.iter().all(|(_, held)| held.is_some())
        {
            return Some(Frozen { is_all: true, ..first.clone() });
        }
        let socket = socket?;
        let mut held = groups.into_iter().filter_map(|(pid, held)| Some((pid, held?)));
        held.find(|(pid, _)| has_socket(*pid, socket)).map(|(_, held)| held)
    }
}

/// What holds a process with this `/proc/PID/cgroup`.
fn held(groups: &str) -> Option<Frozen> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.split(',').any(|it| it == "freezer") {
            return holder(Path::new(V1), group, ("freezer.self_freezing", "freezer.state")).map(
                |file| Frozen { group: group.to_owned(), thaw: (file, "THAWED"), is_all: false },
            );
        }
        let files = ("cgroup.freeze", "cgroup.freeze");
        let mut tops = V2.iter().filter(|_| controllers.is_empty());
        let file = tops.find_map(|top| holder(Path::new(top), group, files))?;
        Some(Frozen { group: group.to_owned(), thaw: (file, "0"), is_all: false })
    })
}

/// The group or the nearest one above it that is stopped by itself: the file that lets it go on.
fn holder(top: &Path, group: &str, (state, thaw): (&str, &str)) -> Option<PathBuf> {
    let group = top.join(group.trim_start_matches('/'));
    let mut groups = group.ancestors().take_while(|it| it.starts_with(top));
    let is_stopped =
        |it: &&Path| fs::read_to_string(it.join(state)).is_ok_and(|value| value.trim() == "1");
    groups.find(is_stopped).map(|it| it.join(thaw))
}

fn has_socket(pid: u32, inode: u32) -> bool {
    let wanted = format!("socket:[{inode}]");
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link.as_os_str() == wanted.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_is_stopped_is_found_above() {
        let top = tempfile::tempdir().unwrap();
        let inner = top.path().join("pod/one");
        fs::create_dir_all(&inner).unwrap();
        let files = ("cgroup.freeze", "cgroup.freeze");
        assert_eq!(holder(top.path(), "/pod/one", files), None);
        fs::write(inner.join("cgroup.freeze"), "0\n").unwrap();
        let pod = top.path().join("pod/cgroup.freeze");
        fs::write(&pod, "1\n").unwrap();
        assert_eq!(holder(top.path(), "/pod/one", files), Some(pod));
        assert_eq!(holder(top.path(), "/other", files), None);
    }

    #[test]
    fn this_test_is_not_stopped() {
        let netns = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let all = Processes::read();
        assert!(all.by_netns[&netns].contains(&std::process::id()));
        assert_eq!(all.frozen(netns, None), None);
    }
}
