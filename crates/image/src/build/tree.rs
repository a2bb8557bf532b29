//! The files of an image that is being made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use model::{Error, Result};

use super::tar::{EntryKind, Tar};
use super::{PROGRAM, Recipe, elf};

/// How much of a program is read, in bytes: all of its headers.
const HEAD: u64 = 64 << 10;

/// The first bytes of programs and scripts.
const ELF: &[u8] = b"\x7fELF";
const SCRIPT: &[u8] = b"#!";

/// Directories that runtimes want to mount something at.
const DIRECTORIES: [&str; 8] =
    ["dev", "etc", "proc", "run", "sys", "tmp", "var/lib/cni", "var/lib/kurma/netns"];

/// Paths without a leading slash; parents stand before what is in them.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    architecture: &'static str,
}

#[derive(Clone, Debug)]
enum Node {
    Directory,
    Link(String),
    File(PathBuf),
}

impl Tree {
    /// Everything of a recipe.
    pub(super) fn of(recipe: &Recipe) -> Result<Self> {
        let architecture = architecture(&recipe.program, &head(&recipe.program)?)?;
        let mut tree = Self { nodes: BTreeMap::new(), architecture };
        tree.add(Path::new(PROGRAM), Node::File(recipe.program.clone()))?;
        for link in &recipe.links {
            tree.add(link, Node::Link(relative(link, PROGRAM)?))?;
        }
        for extra in &recipe.files {
            tree.add(&extra.to, Node::File(extra.from.clone()))?;
        }
        for directory in DIRECTORIES {
            tree.directory(directory)?;
        }
        // As on hosts: engines name what is in /run by this path.
        tree.add(Path::new("/var/run"), Node::Link("../run".to_owned()))?;
        for mount in &recipe.app.mount_points {
            tree.directory(&inside(&mount.path)?)?;
        }
        recipe.files.iter().try_for_each(|extra| tree.runs(&extra.from))?;
        Ok(tree)
    }

    /// Refuses a program that could not run in the image.
    fn runs(&self, from: &Path) -> Result<()> {
        let head = head(from)?;
        if head.starts_with(ELF) {
            let its = architecture(from, &head)?;
            return match its == self.architecture {
                true => Ok(()),
                false => Err(Error::invalid(format!(
                    "{} is for {its}, and the image is for {}",
                    from.display(),
                    self.architecture
                ))),
            };
        }
        let Some(line) = head.strip_prefix(SCRIPT) else { return Ok(()) };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let program = line.split_whitespace().next().unwrap_or_default();
        match self.nodes.get(program.trim_start_matches('/')) {
            Some(Node::File(_) | Node::Link(_)) => Ok(()),
            Some(Node::Directory) | None => Err(Error::invalid(format!(
                "{} is a script for {program:?}, which the image does not have: it has no shell",
                from.display()
            ))),
        }
    }

    /// For which processors it is.
    pub(super) fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Writes all of it, below `root` where that is not empty.
    pub(super) fn pack(&self, tar: &mut Tar<impl Write>, root: &str) -> Result<()> {
        for (path, node) in &self.nodes {
            let path = format!("{root}{path}");
            match node {
                Node::Directory => tar.directory(&path)?,
                Node::Link(to) => tar.link(&path, to)?,
                Node::File(from) => pack(tar, &path, from)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, node: Node) -> Result<()> {
        let path = inside(path)?;
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent)?;
        }
        match self.nodes.insert(path.clone(), node) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("/{path} is put into the image twice"))),
        }
    }

    fn directory(&mut self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let node = self.nodes.entry(path[..end].to_owned()).or_insert(Node::Directory);
            if !matches!(node, Node::Directory) {
                return Err(Error::invalid(format!("/{} is no directory", &path[..end])));
            }
        }
        Ok(())
    }
}

/// How a file begins.
fn head(from: &Path) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = open(from)?.take(HEAD).read_to_end(&mut head);
    read.map(|_| head).map_err(|error| reading(from, error))
}

fn architecture(from: &Path, head: &[u8]) -> Result<&'static str> {
    elf::architecture(head).map_err(|error| error.context(from.display()))
}

fn pack(tar: &mut Tar<impl Write>, path: &str, from: &Path) -> Result<()> {
    let mut file = open(from)?;
    let metadata = file.metadata().map_err(|error| reading(from, error))?;
    if !metadata.is_file() {
        return Err(Error::invalid(format!("{} is no file", from.display())));
    }
    file.rewind().map_err(|error| reading(from, error))?;
    let is_program = metadata.permissions().mode() & 0o111 != 0;
    tar.file(path, EntryKind::File { size: metadata.len(), is_program }, &mut file)
}

/// A path without its slash: absolute, and text.
fn inside(path: &Path) -> Result<String> {
    let bad = || Error::invalid(format!("{} is no absolute path in an image", path.display()));
    let is_plain = path.is_absolute()
        && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let text = path.to_str().filter(|text| is_plain && !text.contains('\0')).ok_or_else(bad)?;
    let parts: Vec<&str> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    match parts.is_empty() {
        true => Err(bad()),
        false => Ok(parts.join("/")),
    }
}

/// The text of a link at `from` to `to`, wherever the image's root is.
fn relative(from: &Path, to: &str) -> Result<String> {
    let depth = inside(from)?.matches('/').count();
    Ok(format!("{}{}", "../".repeat(depth), to.trim_start_matches('/')))
}

fn open(path: &Path) -> Result<File> {
    file::open(path).map_err(|error| reading(path, error))
}

fn reading(path: &Path, error: std::io::Error) -> Error {
    file::failed(format!("reading {}", path.display()), error)
}
