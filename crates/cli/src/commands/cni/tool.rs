//! Called as `cnitool`: the arguments, the environment and the output of CNI's reference program.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use ::cni::runtime::{
    CACHE, CONFIGURATIONS, Cache, Programs, Runtime, Target, Valid, container_of, load, parse_args,
};
use model::{Error, Result};

use super::{absolute, capabilities, complain, indented, reported};

const USAGE: &str = "\
cnitool: Add, check, remove, gc or status network interfaces from a network namespace
  cnitool add    <net> <netns>
  cnitool check  <net> <netns>
  cnitool del    <net> <netns>
  cnitool gc     <net> <netns>
  cnitool status <net> <netns>

Flags:
  -i, --ifname string   Interface name (defaults to env var CNI_IFNAME or 'eth0')
";

/// The arguments.
struct Typed {
    verb: String,
    network: String,
    netns: PathBuf,
    ifname: Option<String>,
}

/// Does what the arguments (its own name first) say, in the environment that `variable` knows;
/// returns the exit code.
pub fn run(
    args: &[OsString],
    variable: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let Some(typed) = parse(args) else {
        let _ = err.write_all(USAGE.as_bytes());
        return 1;
    };
    match perform(&typed, variable) {
        Ok(text) => match host::exit::write(out, &text) {
            Ok(_) => 0,
            Err(error) => {
                let _ = writeln!(err, "{error}");
                1
            }
        },
        Err(error) => {
            let _ = writeln!(err, "{error}");
            1
        }
    }
}

fn parse(args: &[OsString]) -> Option<Typed> {
    let mut words = Vec::new();
    let mut ifname = None;
    let mut rest = args.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-i" | "--ifname") => ifname = Some(rest.next()?.to_str()?.to_owned()),
            Some("-h" | "--help") => return None,
            Some(text) if text.starts_with("--ifname=") => {
                ifname = text.get(9..).map(str::to_owned)
            }
            Some(text) if text.starts_with("-i") => ifname = text.get(2..).map(str::to_owned),
            _ => words.push(word),
        }
    }
    let mut words = words.into_iter();
    let verb = words.next()?.to_str()?.to_owned();
    let network = words.next()?.to_str()?.to_owned();
    Some(Typed { verb, network, netns: words.next()?.into(), ifname })
}

fn perform(typed: &Typed, variable: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    let get = |name: &str| variable(name).filter(|value| !value.is_empty());
    let directory = get("NETCONFPATH").unwrap_or_else(|| CONFIGURATIONS.to_owned());
    let list = load(Path::new(&directory), &typed.network)?;
    let capabilities = capabilities(&get("CAP_ARGS").unwrap_or_default())?;
    let args = parse_args(&get("CNI_ARGS").unwrap_or_default())?;
    let given = typed.ifname.clone().filter(|name| !name.is_empty());
    let ifname = given.or_else(|| get("CNI_IFNAME")).unwrap_or_else(|| "eth0".to_owned());
    let netns = absolute(&typed.netns)?;
    let target = Target {
        args,
        capabilities,
        ..Target::new(container_of(&netns)?, netns.display().to_string(), ifname.parse()?)
    };
    let path = get("CNI_PATH").unwrap_or_default();
    let path = path.split(':').filter(|directory| !directory.is_empty()).map(PathBuf::from);
    let (programs, cache) =
        (Programs::new(path.collect(), &complain), Cache::new(Path::new(CACHE)));
    let runtime = Runtime { programs: &programs, cache: &cache };
    let done = match typed.verb.as_str() {
        "add" => runtime.add(&list, &target).map(|result| indented(&result)),
        "del" => runtime.del(&list, &target).map(|()| String::new()),
        "check" => runtime.check(&list, &target).map(|()| String::new()),
        "gc" => runtime.gc(&list, Valid::Unknown).map(|()| String::new()),
        "status" => runtime.status(&list).map(|()| String::new()),
        other => {
            let what = format!("unknown command {other:?} for \"cnitool\"");
            return Err(Error::invalid(what));
        }
    };
    done.map_err(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(args: &[&str], variables: &[(&str, &str)]) -> (u8, String) {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(&args, &variable, &mut out, &mut err);
        (code, String::from_utf8(err).unwrap())
    }

    #[test]
    fn says_what_the_reference_says() {
        let (code, outcome) = tool(&["cnitool", "add", "n"], &[]);
        assert_eq!((code, outcome.as_str()), (1, USAGE));
        let root = tempfile::tempdir().unwrap();
        let list = r#"{"name":"n","cniVersion":"0.3.1","plugins":[{"type":"absent"}]}"#;
        std::fs::write(root.path().join("n.conflist"), list).unwrap();
        let directory = ("NETCONFPATH", root.path().to_str().unwrap());
        let outcome = |args: &[&str], more: (&str, &str)| {
            let (code, outcome) = tool(args, &[directory, more]);
            assert_eq!(code, 1);
            outcome
        };
        let all = |verb| ["cnitool", verb, "n", "/nowhere"];
        assert_eq!(
            outcome(&all("check"), ("CNI_PATH", "/a:/b")),
            "configuration version \"0.3.1\" does not support the CHECK command\n"
        );
        assert_eq!(outcome(&all("add"), ("CNI_ARGS", "x")), "invalid CNI_ARGS pair \"x\"\n");
        assert_eq!(
            outcome(&["cnitool", "del", "m", "/nowhere"], ("CNI_PATH", "/a")),
            format!("no net configuration with name \"m\" in {}\n", directory.1)
        );
        assert_eq!(
            outcome(&all("explode"), ("CNI_PATH", "/a")),
            "unknown command \"explode\" for \"cnitool\"\n"
        );
        assert!(outcome(&["cnitool", "del", "-i", "a/b", "n", "/x"], ("A", "b")).contains("a/b"));
    }
}
