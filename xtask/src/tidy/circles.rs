//! Circles among the modules of a crate: of two that name each other, neither can be read alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::Result;

/// How many modules of a crate stand in circles. These numbers only fall: a crate that is not listed has none.
const CIRCLES: [(&str, usize); 2] = [("linux", 3), ("model", 4)];

/// The files that are a crate's root.
const ROOTS: [&str; 2] = ["lib", "main"];

type Graph = BTreeMap<String, BTreeSet<String>>;

pub(super) fn complaints(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("crates");
    let unreadable = |error| format!("{}: {error}", folder.display());
    let mut complaints = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let circling = circling(&graph(&path.join("src"))?);
        let known = CIRCLES.iter().find(|(of, _)| *of == name).map_or(0, |(_, count)| *count);
        complaints.extend(judge(&name, &circling, known));
    }
    Ok(complaints)
}

fn judge(name: &str, circling: &BTreeSet<String>, known: usize) -> Option<String> {
    let modules = circling.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match circling.len() {
        count if count > known => Some(format!(
            "crates/{name}: {count} modules stand in circles, at most {known}: {modules}"
        )),
        count if count < known => Some(format!(
            "crates/{name}: {count} modules stand in circles: write that into xtask/src/tidy/circles.rs"
        )),
        _ => None,
    }
}

/// Which modules each module at the top of a crate names by `crate::` or `super::`, in what ships.
fn graph(source: &Path) -> Result<Graph> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    gather(source, source, &mut texts)?;
    let roots = ROOTS.iter().filter_map(|root| texts.remove(*root)).collect::<Vec<_>>();
    Ok(graph_of(&texts, &roots.join("\n")))
}

/// A name that the root exports out of a module counts as the module's.
fn graph_of(texts: &BTreeMap<String, String>, root: &str) -> Graph {
    let exported = exported(root);
    let home = |name: String| match texts.contains_key(&name) {
        true => Some(name),
        false => exported.get(&name).filter(|module| texts.contains_key(*module)).cloned(),
    };
    let named = texts.iter().map(|(module, text)| {
        (module.clone(), named(text).filter_map(home).filter(|name| name != module).collect())
    });
    named.collect()
}

/// The text of each module with the modules in it.
fn gather(source: &Path, folder: &Path, texts: &mut BTreeMap<String, String>) -> Result<()> {
    let unreadable = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.strip_prefix(source).unwrap_or(&path).to_string_lossy().into_owned();
        if path.is_dir() {
            gather(source, &path, texts)?;
        } else if name.ends_with(".rs") && !name.contains("tests") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            let module = name.split(['/', '.']).next().unwrap_or_default().to_owned();
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            // In a file at the top, `super` is the crate; in a folder's, `super::super`.
            let upwards = "super::".repeat(name.split('/').count());
            let product = product.replace(&upwards, "crate::");
            texts.entry(module).or_default().push_str(&product);
        }
    }
    Ok(())
}

/// The first names behind `crate::`: one, or those between braces.
fn named(text: &str) -> impl Iterator<Item = String> {
    let code = without_comments(text);
    let named: Vec<String> = code.split("crate::").skip(1).flat_map(first_names).collect();
    named.into_iter()
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    code.collect::<Vec<_>>().join("\n")
}

/// What the `use` lines of a crate's root bring into it, each with its module.
fn exported(root: &str) -> BTreeMap<String, String> {
    let code = without_comments(root);
    let trees = code.split(';').filter_map(|item| {
        let (visibility, tree) = item.trim_start().split_once("use ")?;
        let is_use = visibility.is_empty() || visibility.trim_end().ends_with(['b', ')', ']']);
        is_use.then(|| tree.trim_start_matches("self::").trim_start_matches("crate::"))
    });
    let mut exported = BTreeMap::new();
    for tree in trees {
        let Some(module) = first_names(tree).into_iter().next() else { continue };
        let leaves = tree.split(|c: char| matches!(c, '{' | '}' | ',') || c.is_whitespace());
        for name in
            leaves.filter_map(|leaf| leaf.rsplit("::").next()).filter(|name| !name.is_empty())
        {
            exported.insert(name.to_owned(), module.clone());
        }
    }
    exported
}

fn first_names(rest: &str) -> Vec<String> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let first = |text: &str| {
        text.trim_start().split(|c| !is_of_name(c)).next().unwrap_or_default().to_owned()
    };
    let Some(list) = rest.strip_prefix('{') else { return vec![first(rest)] };
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(first(&list[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(first(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// The modules from which a way leads back to themselves.
fn circling(graph: &Graph) -> BTreeSet<String> {
    let returns = |module: &&String| {
        let (mut open, mut seen) = (vec![*module], BTreeSet::new());
        while let Some(at) = open.pop() {
            for next in graph.get(at).into_iter().flatten() {
                if next == *module {
                    return true;
                }
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        false
    };
    graph.keys().filter(returns).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_out_of_nested_lists() {
        let text = "use crate::{a::{b, c}, d};\nlet e = crate::f::g();\n// crate::h\nuse crate::i;";
        assert_eq!(named(text).collect::<Vec<_>>(), ["a", "d", "f", "i"]);
    }

    #[test]
    fn what_the_root_exports_counts_as_its_module() {
        let root = "//! It. Names use crate::z;\nmod a;\npub use a::b::{C, D as E};\npub(crate) use d::F;\n\
            /// What.\npub use self::d::{\n    G,\n};\nuse std::io::H;\nstruct I;";
        let texts = [("a", "crate::{F, I}"), ("d", "crate::E"), ("e", "crate::{H, G::new}")];
        let texts = texts.map(|(module, text)| (module.to_owned(), text.to_owned()));
        let graph = graph_of(&BTreeMap::from(texts), root);
        let edges = graph.iter().map(|(from, to)| (from.as_str(), to.iter().cloned().collect()));
        let edges: Vec<(&str, Vec<String>)> = edges.collect();
        let [a, d] = ["a", "d"].map(|module| vec![module.to_owned()]);
        assert_eq!(edges, [("a", d.clone()), ("d", a), ("e", d)]);
        assert_eq!(circling(&graph).len(), 2);
    }

    #[test]
    fn a_circle_is_found_and_a_way_into_it_is_none() {
        let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")];
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        let found = circling(&graph);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["b", "c"]);
        assert!(judge("x", &found, 2).is_none());
        assert!(judge("x", &found, 1).is_some() && judge("x", &found, 3).is_some());
    }
}
