//! Networks whose plugins run out of images, where there are any.

use std::path::Path;

use container::Engine;
use kurma::plugin::{self, Standing};
use kurma::pod::{Record, Stage};
use kurma::{PodId, PodNetworks, Pods};
use model::{Error, Result};
use rustix::process::geteuid;

use crate::check::{Check, Status, parameter};
use crate::context::CommandContext;

/// The settings that forbid users to have namespaces.
const FORBIDDEN: [(&str, &str); 3] = [
    ("user.max_user_namespaces", "0"),
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
];

pub(super) fn checks(context: &CommandContext) -> Vec<Check> {
    let networks = match context.kurma.networks() {
        Ok(networks) => networks,
        Err(error) => {
            let what = format!("pods have no networks: {error}");
            return vec![Check::fail(what, "spoke kurma validate")];
        }
    };
    let is_used = context.kurma.directories().plugins().exists();
    if networks.is_empty() && !is_used {
        return Vec::new();
    }
    let mut checks: Vec<Check> = networks
        .refused()
        .map(|refused| Check::fail(refused.error.to_string(), "spoke kurma validate"))
        .collect();
    checks.extend(engines(context, &networks));
    if !geteuid().is_root() {
        // Namespaces of unprivileged users are their own.
        checks.extend(forbidden(&context.root));
    } else if is_used {
        checks.extend(running(context, &networks).unwrap_or_else(|error| {
            vec![Check::fail(format!("plugins out of images: {error}"), "spoke kurma status")]
        }));
    }
    if checks.is_empty() {
        checks.push(Check::ok("nothing is wrong with networks out of images"));
    }
    checks
}

/// Plugins that do not run although they should, and their pending calls.
fn running(context: &CommandContext, networks: &PodNetworks) -> Result<Vec<Check>> {
    let plugins = context.kurma.pod()?;
    let status = plugins.status(networks)?;
    let mut checks: Vec<Check> = status.iter().filter_map(of_plugin).collect();
    checks.extend(status.iter().filter_map(of_image));
    match Pods::new(&plugins, networks).list() {
        Ok(pods) => {
            checks.extend(pods.records.iter().filter_map(of_pod));
            checks.extend(pods.unreadable.iter().map(unreadable));
        }
        Err(error) => {
            let what = format!("pods of plugins out of images cannot be listed: {error}");
            checks.push(Check::fail(what, "spoke kurma pods"));
        }
    }
    Ok(checks)
}

fn of_plugin(plugin: &plugin::Status) -> Option<Check> {
    let name = &plugin.name;
    let how = match plugin.standing {
        Standing::Waiting => "ends again and again",
        Standing::Failed => "does not run",
        Standing::Running { .. } if plugin.is_elsewhere => "cannot serve",
        Standing::Running { .. } => {
            let what =
                format!("the plugin of network {name} runs, but: {}", plugin.error.as_ref()?);
            return Some(Check::warn(what, format!("spoke kurma up {name}")));
        }
        // For a refused one, the configuration's error explains more.
        Standing::Stopped | Standing::Refused => return None,
    };
    let error = plugin.error.as_deref().unwrap_or("it has ended");
    let what = format!(
        "the plugin of network {name} {how}: {error} (started again so far: {})",
        plugin.restarts
    );
    Some(Check::fail(what, format!("spoke kurma up {name}")))
}

/// An image that was fetched since, and does not run.
fn of_image(plugin: &plugin::Status) -> Option<Check> {
    let (name, how) = (&plugin.name, plugin.outdated()?);
    let what = format!("the plugin {name} does not run the image {} of now: {how}", plugin.image);
    Some(Check::warn(what, format!("spoke kurma restart {name}")))
}

fn of_pod(pod: &Record) -> Option<Check> {
    let pending = pod.attachments.iter().filter(|_| pod.stage == Stage::Going);
    let pending: Vec<String> = pending
        .map(|attachment| {
            format!("del of network {} ({})", attachment.network.name, attachment.error())
        })
        .collect();
    if pending.is_empty() {
        return None;
    }
    let what = format!("pod {} is gone, and a cleanup is pending: {}", pod.pod, pending.join(", "));
    let force = format!("if that plugin is lost: spoke kurma deprovision --force {}", pod.pod);
    Some(Check::warn(what, format!("spoke kurma gc; {force}")))
}

fn unreadable((pod, error): &(PodId, Error)) -> Check {
    let what = format!("the record of pod {pod} cannot be read: {error}");
    let note = format!("if the pod does not run any more: spoke kurma deprovision --force {pod}");
    Check::noted(Status::Fail, what, note)
}

/// Programs that are to run plugin containers and are not there.
fn engines(context: &CommandContext, networks: &PodNetworks) -> Vec<Check> {
    let mut programs: Vec<String> = match context.kurma.engine() {
        Engine::Native => Vec::new(),
        Engine::Runtime(program) => vec![program.display().to_string()],
    };
    programs.extend(networks.networks().filter_map(|network| network.sandboxing.engine.clone()));
    programs.retain(|program| program != "native");
    programs.sort();
    programs.dedup();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &String| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    let missing = programs.iter().filter(|program| !is_there(program));
    missing
        .map(|program| {
            let what = format!("plugins are to be run by {program}, which is not in PATH");
            Check::fail(what, format!("install {program}, or set \"engine\" to \"native\""))
        })
        .collect()
}

/// Why a user's plugins cannot be run.
fn forbidden(root: &Path) -> Vec<Check> {
    let is_so = |(name, value): &&(&str, &str)| {
        let path = format!("proc/sys/{}", name.replace('.', "/"));
        parameter(root, &path).as_deref() == Some(value)
    };
    let check = |(name, value): &(&str, &str)| {
        let what = format!("{name} is {value}: users cannot run plugins out of images");
        let other = if *value == "0" { "1" } else { "0" };
        let fix = match *name {
            "user.max_user_namespaces" => format!("sysctl -w {name}=10000"),
            _ => format!("sysctl -w {name}={other}"),
        };
        Check::fail(what, fix)
    };
    FORBIDDEN.iter().filter(is_so).map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_need_namespaces() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, value: &str| {
            crate::test_file::put(&root.path().join("proc/sys"), path, value);
        };
        put("user/max_user_namespaces", "100\n");
        put("kernel/apparmor_restrict_unprivileged_userns", "0\n");
        assert_eq!(forbidden(root.path()), []);
        put("user/max_user_namespaces", "0\n");
        put("kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let fixes: Vec<_> = forbidden(root.path()).into_iter().filter_map(|it| it.fix).collect();
        let expected = [
            "sysctl -w user.max_user_namespaces=10000",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ];
        assert_eq!(fixes, expected);
    }
}
