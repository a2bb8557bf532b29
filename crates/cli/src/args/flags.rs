//! The flags of a network, from the table of options that all front ends share.

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use model::IfName;
use spec::{Driver, FrontEnd, NetworkOption, NetworkSpec, Value, options};

const FRONT: FrontEnd = FrontEnd::CommandLine;

/// The values of the flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkFlags {
    pub(crate) spec: NetworkSpec,
    /// The options that were given, in the order of the table, by name.
    given: Vec<(&'static str, &'static NetworkOption)>,
}

impl NetworkFlags {
    /// The first that networks of this driver do not have.
    pub(crate) fn foreign(&self, driver: Driver) -> Option<(&'static str, &'static NetworkOption)> {
        self.given.iter().find(|(_, option)| !option.is_of(driver)).copied()
    }
}

impl NetworkFlags {
    /// The first that only networks have that this host routes.
    pub(crate) fn of_routed(&self) -> Option<&'static str> {
        self.given.iter().find(|(_, option)| option.is_of_routed).map(|(name, _)| *name)
    }

    /// The first that was given besides these.
    pub(crate) fn besides(
        &self,
        these: &[&str],
        or: impl Fn(&str) -> bool,
    ) -> Option<&'static str> {
        let mut given = self.given.iter().map(|(name, _)| *name);
        given.find(|name| !these.contains(name) && !or(name))
    }
}

impl Args for NetworkFlags {
    fn augment_args(command: Command) -> Command {
        named().fold(command, |command, (name, option)| command.arg(arg(name, option)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NetworkFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (name, option) in named() {
            let Some(text) = text(matches, name, option) else { continue };
            let put = option.value.put(&mut self.spec, &text);
            let refused = |why| Error::raw(clap::error::ErrorKind::ValueValidation, why);
            if !put.map_err(refused)? {
                return Err(refused(format!("--{name} {text}: another option says otherwise\n")));
            }
            self.given.push((name, option));
        }
        Ok(())
    }
}

fn named() -> impl Iterator<Item = (&'static str, &'static NetworkOption)> {
    options(FRONT).flat_map(|option| option.cli.iter().map(move |name| (*name, option)))
}

fn arg(name: &'static str, option: &'static NetworkOption) -> Arg {
    let arg = Arg::new(name).long(name).help(option.help);
    let arg = match option.excludes {
        "" => arg,
        other => arg.conflicts_with(other),
    };
    let words = option.value.words();
    match option.value {
        Value::Flag(_) | Value::Not(_) => arg.action(ArgAction::SetTrue),
        Value::Trusted(_) => arg
            .value_name(option.metavar)
            .action(ArgAction::Append)
            .value_parser(|text: &str| text.parse::<IfName>().map(|_| text.to_owned())),
        _ if words.is_empty() => arg.value_name(option.metavar).value_parser(checked(option)),
        _ => arg
            .value_name(option.metavar)
            .default_value(option.default)
            .value_parser(PossibleValuesParser::new(words)),
    }
}

fn checked(option: &'static NetworkOption) -> ValueParser {
    ValueParser::new(move |text: &str| {
        option.value.put(&mut NetworkSpec::default(), text).map(|_| text.to_owned())
    })
}

/// The value, if it is not the default.
fn text(
    matches: &ArgMatches,
    name: &'static str,
    option: &'static NetworkOption,
) -> Option<String> {
    match option.value {
        Value::Flag(_) | Value::Not(_) => matches.get_flag(name).then(|| "true".to_owned()),
        Value::Trusted(_) => {
            let devices: Vec<&str> = matches.get_many(name)?.map(String::as_str).collect();
            Some(devices.join(":"))
        }
        _ => matches.get_one::<String>(name).filter(|text| *text != option.default).cloned(),
    }
}
