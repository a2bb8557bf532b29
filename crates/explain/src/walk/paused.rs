//! A container whose programs are stopped: packets arrive, and no program answers.

use model::Runtime;
use netlink::diag::Taking;

use super::{Hop, Site, Walked, Walker};
use crate::frozen::Frozen;
use crate::port::Space;

/// The length of a container's id, and of its start that people write.
const ID: usize = 64;
const SHORT: usize = 12;

impl Walker<'_> {
    /// That who begins is not stopped as a whole.
    pub(super) fn runs(&mut self, site: &Site) -> Walked<()> {
        let Some(space) = site.space() else { return Ok(()) };
        match self.ask(|kernel| kernel.frozen(space, None))? {
            Some(frozen) => Err(self.paused(site, &frozen, "it sends nothing")),
            None => Ok(()),
        }
    }

    /// That the program which listens is not stopped.
    pub(super) fn is_awake(&mut self, space: Space, heard: &[Taking]) -> Walked<()> {
        let Some(site) = self.site_in(space).cloned() else { return Ok(()) };
        for taking in heard {
            if let Some(frozen) = self.ask(|kernel| kernel.frozen(space, Some(taking.inode)))? {
                let what = "packets arrive, and no program answers";
                return Err(self.paused(&site, &frozen, what));
            }
        }
        Ok(())
    }

    fn paused(&mut self, site: &Site, frozen: &Frozen, so: &str) -> super::Stop {
        let what = format!("{} is paused (control group {}): {so}", site.name, frozen.group);
        self.fail(Hop::new("paused", what).fixed(resume(site, frozen)))
    }
}

/// The command that lets a container go on: its runtime's, which has to know of it.
fn resume(site: &Site, frozen: &Frozen) -> String {
    let name = site.name.rsplit('/').next().unwrap_or(&site.name);
    // Of several containers in one namespace only the group says which one it is.
    let id = || id_in(&frozen.group).map(|id| id.split_at(SHORT).0);
    let name = if frozen.is_all { Some(name) } else { id() };
    let program = match site.runtime {
        Runtime::Docker => Some("docker"),
        Runtime::Podman => Some("podman"),
        _ if frozen.group.contains("libpod-") => Some("podman"),
        _ => None,
    };
    let name = if site.runtime == Runtime::Cni { id() } else { name };
    match (program, name) {
        (Some(program), Some(name)) => format!("{program} unpause {name}"),
        _ => {
            let (file, value) = &frozen.thaw;
            format!("sh -c 'echo {value} >{}'", file.display())
        }
    }
}

/// A container's id in the name of its control group.
fn id_in(group: &str) -> Option<&str> {
    let mut words = group.split(|c: char| !c.is_ascii_alphanumeric());
    words.rfind(|word| word.len() == ID && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::Standing;

    #[test]
    fn the_runtime_resumes_what_it_paused() {
        let id = "a1".repeat(32);
        let resumed = |runtime, group: String, is_all| {
            let (standing, path) = (Standing::Gone("it is a test".to_owned()), String::new());
            let name = "x/web".to_owned();
            let site = Site { name, runtime, standing, path, plugs: Vec::new() };
            let thaw = (format!("/sys/fs/cgroup{group}/cgroup.freeze").into(), "0");
            resume(&site, &Frozen { group, thaw, is_all })
        };
        let docker = format!("/system.slice/docker-{id}.scope");
        let podman = format!("/machine.slice/libpod-{id}.scope/container");
        for (runtime, group, is_all, command) in [
            (Runtime::Docker, docker.clone(), true, "docker unpause web"),
            (Runtime::Docker, docker, false, "docker unpause a1a1a1a1a1a1"),
            (Runtime::Podman, podman.clone(), true, "podman unpause web"),
            (Runtime::Cni, podman, true, "podman unpause a1a1a1a1a1a1"),
            (
                Runtime::Spoke,
                "/x".to_owned(),
                true,
                "sh -c 'echo 0 >/sys/fs/cgroup/x/cgroup.freeze'",
            ),
        ] {
            assert_eq!(resumed(runtime, group, is_all), command, "{runtime}");
        }
    }
}
