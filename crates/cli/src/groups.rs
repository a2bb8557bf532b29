//! The groups of commands in `spoke --help`, by task.

use std::ffi::OsString;
use std::fmt::Write;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use model::text::nearest;
use spec::{FrontEnd, NetworkOption, Value, find};

use crate::args::Cli;

/// Commands below their headings.
const GROUPS: &[(&str, &[&str])] = &[
    ("Networks", &["network", "endpoint", "ipam", "host"]),
    (
        "See what is there",
        &["ps", "top", "flows", "capture", "dns", "explain", "events", "denied", "web"],
    ),
    ("Change what runs", &["port", "limit", "egress", "firewall"]),
    (
        "Runtimes and clouds",
        &["docker", "podman", "cni", "kurma", "kuryr", "neutron", "dhcp", "plugin"],
    ),
    ("Keep the host in order", &["doctor", "gc", "backup", "restore"]),
    ("Daemon and shell", &["serve", "completion", "version"]),
];

/// What is in none of them.
const OTHER: &str = "Other commands";

/// The command line, as it was typed.
///
/// # Errors
/// What clap says of a wrong one, and where help or the version is wanted.
pub(super) fn parse(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let template = template(&command);
    command = command.help_template(template);
    let is_create = args.windows(2).any(|words| words == CREATE);
    let mut matches = match command.try_get_matches_from_mut(args) {
        Err(wrong) if is_create => return Err(of_other_front_ends(wrong)),
        matches => matches?,
    };
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The command whose options other front ends give as `-o KEY=VALUE`.
const CREATE: [&str; 2] = ["network", "create"];

/// With the flag that is meant, where a network's option is given as Docker and Podman have it.
fn of_other_front_ends(mut wrong: clap::Error) -> clap::Error {
    let given = match (wrong.get(ContextKind::InvalidArg), wrong.get(ContextKind::InvalidValue)) {
        (Some(ContextValue::String(arg)), Some(ContextValue::String(given)))
            if arg.starts_with("--output") =>
        {
            given.split_once('=').map(|(key, _)| key.to_owned())
        }
        _ => None,
    };
    if let Some(key) = given {
        let tip = StyledStr::from(tip(&key));
        wrong.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    wrong
}

fn tip(key: &str) -> String {
    let others = [FrontEnd::Docker, FrontEnd::Podman];
    let known = |front: FrontEnd| spec::options(front).flat_map(move |it| it.names(front));
    let nearest = nearest(key, others.into_iter().flat_map(known).copied());
    let option = nearest.and_then(|name| others.into_iter().find_map(|front| find(front, name)));
    let flag_of = |option: &'static NetworkOption| match option.value {
        // Each front end has words of its own for it, in a row of its own.
        Value::Ingress(..) => {
            let mut flags = spec::options(FrontEnd::CommandLine);
            flags.find(|it| matches!(it.value, Value::Ingress(..)))?.cli.first()
        }
        _ => option.cli.first(),
    };
    match option.and_then(flag_of) {
        Some(flag) => format!("-o is --output here; a network's options are flags: '--{flag}'"),
        None => "-o is --output here; a network's options are flags, and --opt of its driver's"
            .to_owned(),
    }
}

/// clap's own help has one list of commands.
fn template(command: &clap::Command) -> String {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        let named = names.iter().filter_map(|name| command.find_subcommand(name));
        add(&mut text, heading, named);
    }
    let is_grouped = |name| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    add(&mut text, OTHER, shown.filter(|it| !is_grouped(it.get_name())));
    text + "\nOptions:\n{options}{after-help}"
}

fn add<'a>(text: &mut String, heading: &str, commands: impl Iterator<Item = &'a clap::Command>) {
    for (number, command) in commands.enumerate() {
        if number == 0 {
            let _ = writeln!(text, "\n{heading}:");
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {:<10}  {about}", command.get_name());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn help(args: &[&str]) -> String {
        let error = parse(args.iter().map(OsString::from).collect()).unwrap_err();
        error.render().to_string()
    }

    #[test]
    fn each_command_is_listed_once_below_a_heading() {
        let text = help(&["spoke", "--help"]);
        let command = Cli::command();
        for shown in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let line = |line: &&str| line.starts_with(&format!("  {} ", shown.get_name()));
            assert_eq!(text.lines().filter(line).count(), 1, "{}\n{text}", shown.get_name());
        }
        assert!(!text.contains(OTHER), "{text}");
        for (heading, names) in GROUPS {
            assert!(text.contains(&format!("\n\n{heading}:\n")), "{text}");
            let missing = names.iter().find(|name| command.find_subcommand(name).is_none());
            assert_eq!(missing, None, "{heading}");
        }
        let names: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(!text.contains("\n  ports ") && !text.contains("\n  man "), "{text}");
    }

    #[test]
    fn no_line_of_the_list_is_longer_than_a_terminal() {
        let text = help(&["spoke", "--help"]);
        let list = text.split("Options:").next().unwrap_or_default();
        let long: Vec<&str> = list.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{long:?}");
    }

    #[test]
    fn no_arguments_and_a_wrong_one_are_answered_as_before() {
        assert!(help(&["spoke"]).contains("Networks:\n  network "));
        assert!(help(&["spoke", "network", "--help"]).contains("Commands:\n  ls "));
        for (option, tip) in [
            ("isolation=container", "options are flags: '--ingress'"),
            ("isolate=true", "options are flags: '--ingress'"),
            ("com.docker.network.driver.mtu=1400", "options are flags: '--mtu'"),
            ("egres=none", "options are flags: '--egress'"),
            ("colour=red", "and --opt of its driver's"),
        ] {
            let wrong = help(&["spoke", "network", "create", "-o", option, "front"]);
            assert!(wrong.contains(tip) && wrong.contains("tip: -o is --output here"), "{wrong}");
        }
        let wrong = help(&["spoke", "network", "create", "-o", "jsn", "front"]);
        assert!(!wrong.contains("--output here"), "{wrong}");
        let wrong = help(&["spoke", "netwerk"]);
        assert!(wrong.contains("'network'") && wrong.contains("Usage: spoke"), "{wrong}");
    }
}
