//! What the compiler does not check.

mod circles;
mod layers;
mod licences;
mod literals;
mod order;
mod pages;
mod sources;
mod words;

use std::path::Path;

use serde_json::Value;

use crate::{Result, cargo};

/// A package as Cargo sees it.
struct Package {
    name: String,
    licence: String,
    /// Part of this workspace.
    own: bool,
    /// What it needs to run: neither for its build nor for its tests.
    needs: Vec<String>,
}

/// Every complaint about the tree at `root`, as one error.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    let packages = packages()?;
    let mut complaints = layers::complaints(&packages);
    complaints.extend(licences::complaints(root, &packages)?);
    complaints.extend(circles::complaints(root)?);
    complaints.extend(pages::complaints(root)?);
    complaints.extend(sources::complaints(root)?);
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn packages() -> Result<Vec<Package>> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(array(&metadata["packages"]).iter().map(package).collect())
}

fn package(json: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let needed = array(&json["dependencies"]).iter().filter(|need| need["kind"].is_null());
    Package {
        name: text(&json["name"]),
        licence: text(&json["license"]),
        own: json["source"].is_null(),
        needs: needed.map(|need| text(&need["name"])).collect(),
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
