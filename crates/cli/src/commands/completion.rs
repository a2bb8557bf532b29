//! Completion of command lines: the scripts of shells, and the names of networks and containers that they ask for.
//!
//! A script knows commands and options. For a name it asks the hidden command `spoke complete`, which reads the words as
//! the command line itself does.

use std::collections::BTreeSet;

use clap::{Arg, CommandFactory};
use clap_complete::Shell;
use model::{Error, Result};

use crate::answer::Answer;
use crate::args::Cli;
use crate::context::CommandContext;

/// Asks for names first, and leaves the rest to clap's function.
const BASH: &str = r#"
_spoke_with_names() {
    local names
    names=$("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ -n ${names} ]]; then
        mapfile -t COMPREPLY <<< "${names}"
        return 0
    fi
    _spoke "$@"
}
complete -F _spoke_with_names -o bashdefault -o default spoke
"#;

/// The same in the place of clap's function, which is called otherwise: zsh loads the file by the function's name.
const ZSH: &str = r#"
_spoke() {
    local -a names
    names=(${(f)"$(spoke complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#names} )); then
        compadd -a names
    else
        _spoke_words "$@"
    fi
}
"#;

/// fish puts candidates of several lines together.
const FISH: &str = r#"
function __fish_spoke_names
    set -l words (commandline -opc) (commandline -ct)
    spoke complete -- $words[2..-1] 2>/dev/null
end
complete -c spoke -a "(__fish_spoke_names)"
"#;

/// What zsh's file begins its last part with: whether it is the function that is called.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_spoke\" ]; then";

/// The script of a shell.
pub(crate) fn script(shell: Shell) -> Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "spoke", &mut script);
    let text = String::from_utf8(script)
        .map_err(|cause| Error::bug("a completion script is no text").because(cause))?;
    Ok(Answer::text(match shell {
        Shell::Bash => text + BASH,
        Shell::Fish => text + FISH,
        Shell::Zsh => text.replacen("\n_spoke() {", "\n_spoke_words() {", 1).replacen(
            ZSH_END,
            &format!("{ZSH}\n{ZSH_END}"),
            1,
        ),
        _ => text,
    }))
}

/// What bash makes a word of its own, as a character of COMP_WORDBREAKS: `--network=front` is three words.
const EQUALS: &str = "=";

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Network,
    Container,
    Either,
}

/// The names that the last of these words may become, one on each line; none where it is no name.
pub(crate) fn names(words: &[String], context: &CommandContext) -> Result<Answer> {
    let Some((kind, last)) = wanted(words).zip(words.last()) else {
        return Ok(Answer::default());
    };
    // bash replaces only what stands behind it.
    let start = if last == EQUALS { "" } else { last.as_str() };
    let engine = (context.engine)()?;
    let mut names = BTreeSet::new();
    if kind != Kind::Container {
        let networks = engine.records.networks_and_described()?;
        names.extend(networks.iter().map(|it| it.called().to_string()));
        let titles = engine.records.aliases()?.into_iter().filter_map(|alias| alias.title);
        names.extend(titles.map(|title| title.to_string()));
    }
    if kind != Kind::Network {
        names.extend(engine.records.attachments()?.iter().map(model::Attachment::container_name));
    }
    names.retain(|name| name.starts_with(start) && is_plain(name));
    Ok(Answer::text(names.iter().map(|name| format!("{name}\n")).collect()))
}

/// A shell would take other characters for its own.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    name.bytes().all(is_plain) && !name.starts_with('-')
}

/// What the last word names, by the command and the words before it.
fn wanted(words: &[String]) -> Option<Kind> {
    let mut root = Cli::command();
    root.build();
    let (last, before) = words.split_last()?;
    let (mut command, mut place, mut path) = (&root, 0, Vec::new());
    let mut option: Option<&Arg> = None;
    for word in before {
        // Its value is yet to come.
        if option.is_some() && word == EQUALS {
            continue;
        }
        if option.take().is_some() {
            continue;
        }
        match word.strip_prefix('-') {
            Some(flag) => option = valued(command, flag),
            None => match command.find_subcommand(word) {
                Some(below) => {
                    path.push(below.get_name());
                    (command, place) = (below, 0);
                }
                None => place += 1,
            },
        }
    }
    if let Some(option) = option {
        return kind_of(option);
    }
    // A new network has a new name.
    if last.starts_with('-') || command.has_subcommands() || path == ["network", "create"] {
        return None;
    }
    let is_many = |arg: &&Arg| arg.get_num_args().is_some_and(|count| count.max_values() > 1);
    let at = command.get_positionals().nth(place);
    at.or_else(|| command.get_positionals().last().filter(is_many)).and_then(kind_of)
}

/// The option whose value is the next word.
fn valued<'a>(command: &'a clap::Command, flag: &str) -> Option<&'a Arg> {
    let is_it = |arg: &&Arg| match flag.strip_prefix('-') {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| flag.len() == 1 && flag.starts_with(short)),
    };
    command.get_arguments().find(is_it).filter(|arg| arg.get_action().takes_values())
}

/// By what the manual calls the value.
fn kind_of(arg: &Arg) -> Option<Kind> {
    let id = arg.get_id().as_str().to_ascii_uppercase();
    let name = arg.get_value_names().and_then(|names| names.first());
    match name.map_or(id.as_str(), |name| name.as_str()) {
        "NETWORK" => Some(Kind::Network),
        "CONTAINER" => Some(Kind::Container),
        "CONTAINER|NETWORK" => Some(Kind::Either),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_says_what_a_word_names() {
        for (line, kind) in [
            ("network rm ", Some(Kind::Network)),
            ("network rm front b", Some(Kind::Network)),
            ("network rm --force ", Some(Kind::Network)),
            ("network inspect -f {{.Name}} fr", Some(Kind::Network)),
            ("network connect ", Some(Kind::Network)),
            ("network create ", None),
            ("network create --config-from ", Some(Kind::Network)),
            ("network ", None),
            ("network rm --", None),
            ("network ls -o ", None),
            ("-o json egress show ", Some(Kind::Network)),
            ("limit ", Some(Kind::Container)),
            ("limit --network ", Some(Kind::Network)),
            ("limit --network front w", Some(Kind::Container)),
            ("limit --network =", Some(Kind::Network)),
            ("limit --network = fr", Some(Kind::Network)),
            ("limit --network = front w", Some(Kind::Container)),
            ("limit --network=front w", Some(Kind::Container)),
            ("limit --quota = 1", None),
            ("limit web ", None),
            ("port add ", Some(Kind::Container)),
            ("port add web ", None),
            ("capture ", Some(Kind::Container)),
            ("top web fr", Some(Kind::Either)),
            ("completion ", None),
            ("", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(wanted(&words), kind, "{line}");
        }
        assert_eq!(wanted(&[]), None);
    }

    #[test]
    fn each_script_asks_for_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = script(shell).unwrap().text;
            assert_eq!(text.matches(" complete -- ").count(), 1, "{shell}");
        }
        let zsh = script(Shell::Zsh).unwrap().text;
        assert_eq!(zsh.matches("\n_spoke() {").count(), 1);
        assert_eq!(zsh.matches("\n_spoke_words() {").count(), 1);
        let asks = zsh.find("spoke complete").unwrap();
        assert!(asks < zsh.find(ZSH_END).unwrap(), "it is defined before it is called");
    }
}
