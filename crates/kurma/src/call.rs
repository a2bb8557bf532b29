//! A call of a plugin: what the executables below `/opt/network` are given (Kurma Network
//! Specification, "The Container and The API").

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{ContainerId, Error, IfName, Result};

/// Where a plugin's executables are in its image.
pub const EXECUTABLES: &str = "/opt/network";

/// The name of the directory that they are in.
const DIRECTORY: &str = "network";

/// How long a call may take, unless the configuration says otherwise.
pub const LIMIT: Duration = Duration::from_secs(60);

/// All of the environment of a call.
pub const ENVIRONMENT: [(&str, &str); 2] =
    [("PATH", "/sbin:/usr/sbin:/bin:/usr/bin"), ("HOME", "/root")];

/// Which executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Connects a pod.
    Add,
    /// Undoes that.
    Del,
    /// Prepares the plugin: only in images without a main executable.
    Setup,
}

impl Verb {
    /// Which executable a program of this name and with these arguments is, its own name first. By a
    /// name without a directory it is one only with the arguments that it must have.
    pub fn of_process(args: &[OsString]) -> Option<Self> {
        let path = Path::new(args.first()?);
        let verb = match path.file_name()?.to_str()? {
            "add" => Self::Add,
            "del" => Self::Del,
            "setup" => Self::Setup,
            _ => return None,
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let is_one = match (directory, verb) {
            (Some(directory), _) => directory.file_name() == Some(OsStr::new(DIRECTORY)),
            (None, Self::Add | Self::Del) => matches!(args.len(), 3 | 4),
            (None, Self::Setup) => args.len() == 1,
        };
        is_one.then_some(verb)
    }

    /// The executable's base name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Del => "del",
            Self::Setup => "setup",
        }
    }

    /// The executable's path in the image.
    pub fn path(self) -> PathBuf {
        PathBuf::from(format!("{EXECUTABLES}/{}", self.name()))
    }
}

/// The command-line parameters of `add` and `del`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The pod's network namespace.
    pub netns: PathBuf,
    /// Which pod.
    pub container: ContainerId,
    /// The interface to make in it, where the configuration names one.
    pub interface: Option<IfName>,
}

impl Call {
    /// The command line, with the executable first: always three arguments, the last empty where
    /// there is no interface.
    pub fn command(&self, verb: Verb) -> Vec<OsString> {
        let interface = self.interface.as_ref().map_or("", IfName::as_str);
        let container = self.container.as_str().into();
        vec![verb.path().into(), self.netns.clone().into(), container, interface.into()]
    }

    /// Reads the arguments behind the executable's name.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where there are not two or three, or one is not what it should be.
    pub fn read(arguments: &[OsString]) -> Result<Self> {
        let (netns, container, interface) = match arguments {
            [netns, container] => (netns, container, None),
            [netns, container, interface] => (netns, container, Some(interface)),
            _ => {
                return Err(Error::invalid(format!(
                    "{} arguments: give a network namespace's path, the container's UUID, and the \
                 interface to make",
                    arguments.len()
                )));
            }
        };
        let netns = PathBuf::from(netns);
        if !netns.is_absolute() {
            let what = format!("network namespace {}: give its whole path", netns.display());
            return Err(Error::invalid(what));
        }
        let interface = match interface {
            Some(interface) if !interface.is_empty() => Some(text(interface)?.parse()?),
            _ => None,
        };
        Ok(Self { netns, container: text(container)?.parse()?, interface })
    }
}

fn text(argument: &OsString) -> Result<&str> {
    let not_text = || Error::invalid(format!("argument {} is no text", argument.display()));
    argument.to_str().ok_or_else(not_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

    fn read(arguments: &[&str]) -> Result<Call> {
        Call::read(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn there_are_three_arguments_always() {
        let call = read(&["/n", POD]).unwrap();
        assert_eq!(call.command(Verb::Del), ["/opt/network/del", "/n", POD, ""]);
        let call = read(&["/n", POD, "eth0"]).unwrap();
        assert_eq!(call.command(Verb::Add), ["/opt/network/add", "/n", POD, "eth0"]);
    }

    #[test]
    fn reads_what_it_writes() {
        let call = read(&["/n", POD, ""]).unwrap();
        assert_eq!(Call::read(&call.command(Verb::Add)[1..]).unwrap(), call);
        for bad in [
            &[][..],
            &["/n"],
            &["/n", POD, "e", "x"],
            &["n", POD],
            &["/n", "a b"],
            &["/n", POD, "an-interface-too-long"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn is_an_executable_by_its_place_or_its_arguments() {
        let is = |list: &[&str]| Verb::of_process(&words(list));
        assert_eq!(is(&["/opt/network/add", "/n", "u", "eth0"]), Some(Verb::Add));
        assert_eq!(is(&["/opt/network/del"]), Some(Verb::Del));
        assert_eq!(is(&["/opt/network/setup"]), Some(Verb::Setup));
        assert_eq!(is(&["network/setup"]), Some(Verb::Setup));
        assert_eq!(is(&["add", "/n", "u", ""]), Some(Verb::Add));
        assert_eq!(is(&["setup"]), Some(Verb::Setup));
        assert_eq!(is(&["setup", "x"]), None);
        assert_eq!(is(&["add"]), None);
        assert_eq!(is(&["/usr/bin/add", "/n", "u", "eth0"]), None);
        assert_eq!(is(&["/opt/network/gc", "/n"]), None);
        assert_eq!(is(&[]), None);
    }
}
