//! A check of `spoke doctor`: the kernel has the parts that attachments consist of. The check loads and makes
//! nothing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::check::{Check, parameter};

/// A part of the kernel, and a function that only it has.
const PARTS: [(&str, &str); 3] =
    [("veth", "veth_newlink"), ("bridge", "br_dev_newlink"), ("nf_tables", "nf_tables_newtable")];

pub(super) fn checks(root: &Path) -> Vec<Check> {
    let release = parameter(root, "proc/sys/kernel/osrelease").unwrap_or_default();
    let missing: Vec<&str> = PARTS
        .iter()
        .filter(|(module, function)| !is_present(root, &release, module, function))
        .map(|(module, _)| *module)
        .collect();
    if missing.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|(module, _)| *module).collect();
        return vec![Check::ok(format!("kernel {release}: {}", names.join(" ")))];
    }
    let check = |module: &&str| {
        let what = format!("kernel {release} has no {module}, neither built in nor as a module");
        Check::fail(what, format!("modprobe {module}, or install the kernel's modules"))
    };
    missing.iter().map(check).collect()
}

fn is_present(root: &Path, release: &str, module: &str, function: &str) -> bool {
    let modules = root.join("lib/modules").join(release);
    root.join("sys/module").join(module).exists()
        || ["modules.builtin", "modules.dep"]
            .iter()
            .any(|list| has_line(&modules.join(list), |line| lists(line, module)))
        || has_line(&root.join("proc/kallsyms"), |line| names(line, function))
}

fn lists(line: &str, module: &str) -> bool {
    let file = line.split(':').next().unwrap_or(line);
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_prefix(module).is_some_and(|rest| rest.starts_with(".ko"))
}

fn names(line: &str, function: &str) -> bool {
    line.split_whitespace().nth(2) == Some(function)
}

fn has_line(path: &Path, wanted: impl Fn(&str) -> bool) -> bool {
    let Ok(file) = File::open(path) else { return false };
    BufReader::new(file).lines().map_while(Result::ok).any(|line| wanted(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_lists() {
        assert!(lists("kernel/drivers/net/veth.ko.xz: kernel/net/x.ko", "veth"));
        assert!(!lists("kernel/drivers/net/veth2.ko:", "veth"));
        assert!(names("0000000000000000 t veth_newlink\t[veth]", "veth_newlink"));
    }
}
