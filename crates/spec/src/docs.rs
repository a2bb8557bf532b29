//! The manual's tables, from the table of options. `cargo xtask options` writes them; a test
//! compares.

use crate::{FrontEnd, NetworkOption, Value, neutron, options, ovs};

/// The beginning of a generated table.
pub const BEGIN: &str = "<!-- options: written by `cargo xtask options` -->\n";
/// Its end.
pub const END: &str = "<!-- end of the options -->";

/// What a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The options of a front end.
    Of(FrontEnd),
    /// Those of Neutron's networks.
    Neutron,
    /// Those of Open vSwitch's segments.
    Ovs,
}

/// The pages with such a table, and what it is of.
pub const PAGES: [(&str, Listing); 5] = [
    ("docker.md", Listing::Of(FrontEnd::Docker)),
    ("podman.md", Listing::Of(FrontEnd::Podman)),
    ("cni.md", Listing::Of(FrontEnd::Cni)),
    ("neutron.md", Listing::Neutron),
    ("ovs.md", Listing::Ovs),
];

/// The page with its table between the marks; none where the page has no marks.
pub fn document(page: &str, of: Listing) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let table = match of {
        Listing::Of(front) => table(front),
        Listing::Neutron => of_neutron(),
        Listing::Ovs => of_ovs(),
    };
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

fn table(front: FrontEnd) -> String {
    let rows = options(front).filter_map(|option| row(option, front));
    std::iter::once(heading(front).to_owned()).chain(rows).collect()
}

fn of_neutron() -> String {
    let heading = "| Docker, Podman: `-o` (CLI: `--opt`, also without `neutron.`) | CNI | meaning |\n\
                   |---|---|---|\n";
    let row = |option: &neutron::NeutronOption| {
        let keys: Vec<String> = option.keys.iter().map(|key| format!("`{key}`")).collect();
        let cni = if option.cni.is_empty() { String::new() } else { format!("`{}`", option.cni) };
        format!("| {} | {cni} | {} |\n", keys.join(", "), option.meaning)
    };
    std::iter::once(heading.to_owned()).chain(neutron::OPTIONS.iter().map(row)).collect()
}

fn of_ovs() -> String {
    let heading = "| Docker, Podman: `-o` (CLI: `--opt`, without `ovs.`) | CNI, in `ovs` | meaning | default |\n\
                   |---|---|---|---|\n";
    let row = |option: &ovs::OvsOption| {
        let ovs::OvsOption { name, meaning, default } = option;
        format!("| `{}{name}` | `{name}` | {meaning} | {default} |\n", ovs::OVS_PREFIX)
    };
    std::iter::once(heading.to_owned()).chain(ovs::OPTIONS.iter().map(row)).collect()
}

fn heading(front: FrontEnd) -> &'static str {
    match front {
        FrontEnd::Docker => {
            "| key, Docker's own in parentheses | value | default |\n|---|---|---|\n"
        }
        FrontEnd::Podman => "| `-o` | value | default |\n|---|---|---|\n",
        FrontEnd::Cni => "| option | value | default |\n|---|---|---|\n",
        FrontEnd::CommandLine => "| flag | value | default |\n|---|---|---|\n",
    }
}

/// The line of an option; none where it is explained beside the table.
fn row(option: &NetworkOption, front: FrontEnd) -> Option<String> {
    let own = option.differs.iter().find(|(of, _, _)| *of == front);
    let (meaning, default) =
        own.map_or((option.meaning, option.default), |(_, meaning, default)| (*meaning, *default));
    if meaning.is_empty() {
        return None;
    }
    let (name, others) = option.names(front).split_first()?;
    let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(" ({})", others.join(", ")),
    };
    let words = option.value.words();
    let is_word = words.contains(&default);
    let default = if is_word { format!("`{default}`") } else { default.to_owned() };
    let words = words.iter().filter(|word| word.parse::<u8>().is_err());
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    let words = match (&option.value, front) {
        (Value::Flag(_) | Value::Not(_), FrontEnd::Cni) => String::new(),
        (_, _) if words.is_empty() => String::new(),
        (_, _) => format!(": {}", words.join(", ")),
    };
    Some(format!("| `{name}`{others} | {meaning}{words} | {default} |\n"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_manual_s_tables_are_those_of_the_options() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (page, of) in PAGES {
            let there = fs::read_to_string(docs.join(page)).unwrap();
            let wanted = document(&there, of).unwrap();
            assert!(there == wanted, "docs/{page}: run `cargo xtask options`");
        }
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page =
            document(&format!("a\n{BEGIN}old\n{END}\nb\n"), Listing::Of(FrontEnd::Podman)).unwrap();
        assert!(page.starts_with("a\n") && page.ends_with("\nb\n") && !page.contains("old"));
        assert!(page.contains("| `hairpin` | of the bridge's ports: `true`, `false` | `true` |"));
        assert_eq!(document("nothing", Listing::Neutron), None);
    }
}
