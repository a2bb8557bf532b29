//! The README's table of runtimes and back ends, from what the tests print.

use std::fs;
use std::path::Path;

use crate::{Result, cargo};

const BEGIN: &str = "<!-- matrix: written by `cargo xtask matrix` -->\n";
const END: &str = "<!-- end of the matrix -->";
const ROWS: [&str; 5] = ["Docker", "CNI", "Podman", "Kurma", "command line"];
const COLUMNS: [&str; 5] =
    ["kernel", "Neutron", "foreign CNI plugin", "foreign Docker plugin", "plugin out of an image"];

/// Runs the tests of the matrix, and writes their table into the README.
pub(crate) fn matrix(root: &Path) -> Result<()> {
    let mut tests = cargo(&["test", "--package", "tests", "--test", "matrix", "--quiet"]);
    let done = tests.args(["--", "--show-output"]).output();
    let done = done.map_err(|error| format!("cargo test: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let path = root.join("README.md");
    let readme = fs::read_to_string(&path).map_err(|error| format!("README.md: {error}"))?;
    let table = table(&said);
    let new = with(&readme, &table).ok_or(format!("README.md has no {BEGIN}"))?;
    fs::write(&path, new).map_err(|error| format!("README.md: {error}"))?;
    println!("{table}");
    let failed = "matrix: some cells failed; `make test` says why";
    if done.status.success() { Ok(()) } else { Err(failed.into()) }
}

/// The document with this between the marks; none where it has no marks.
fn with(readme: &str, table: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

/// A line `cell: ROW | COLUMN | WHAT` of a test that passed is a cell.
fn table(said: &str) -> String {
    let cells: Vec<[&str; 3]> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cell: "))
        .filter_map(|cell| cell.split(" | ").collect::<Vec<_>>().try_into().ok())
        .collect();
    let mut table =
        format!("| | {} |\n|---|{}\n", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
    for row in ROWS {
        let cell = |column: &&str| {
            let cell = cells.iter().find(|[of, on, _]| *of == row && on == column);
            cell.map_or("fails", |[_, _, what]| what)
        };
        let cells: Vec<&str> = COLUMNS.iter().map(cell).collect();
        table += &format!("| {row} | {} |\n", cells.join(" | "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_what_a_test_said() {
        let said = "noise\ncell: Docker | kernel | bridge\ncell: CNI | Neutron | a port\n";
        let table = table(said);
        assert!(table.contains("| Docker | bridge | fails | fails | fails | fails |"), "{table}");
        assert!(table.contains("| CNI | fails | a port | fails | fails | fails |"), "{table}");
        assert_eq!(table.lines().count(), 7);
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let readme = format!("a\n{BEGIN}old\n{END}\nb\n");
        let new = with(&readme, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}new\n{END}\nb\n"));
        assert_eq!(with("nothing", "new"), None);
    }
}
