//! The formats: App Container images, OCI layouts, and archives of these.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use model::{Error, Result};
use serde_json::{Value, json};

use super::Recipe;
use super::output::{HashingWriter, Output, write, writing};
use super::tar::{EntryKind, Tar};
use super::tree::Tree;
use crate::layout::{MOUNTS, PRIVILEGED};
use crate::manifest::{OCI_INDEX, OCI_MANIFEST};
use crate::{Algorithm, App, Digest, ImageId};

const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

pub(super) fn aci(recipe: &Recipe, to: &Path) -> Result<ImageId> {
    let tree = Tree::of(recipe)?;
    let manifest = aci_manifest(recipe, tree.architecture()).to_string();
    let gzip = GzEncoder::new(Output::beside(to)?, Compression::best());
    let mut tar = Tar::new(HashingWriter::new(gzip, Algorithm::Sha512));
    tar.bytes("manifest", manifest.as_bytes())?;
    tar.directory("rootfs")?;
    tree.pack(&mut tar, "rootfs/")?;
    let (gzip, digest) = tar.finish()?.finish();
    gzip.finish().map_err(|error| writing(to, error))?.finish(to)?;
    Ok(ImageId::new(digest))
}

pub(super) fn layout(recipe: &Recipe, to: &Path) -> Result<ImageId> {
    // A recipe that is refused makes no directory.
    Tree::of(recipe)?;
    let blobs = to.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(|error| writing(&blobs, error))?;
    let made = ImageBlobs::new(recipe, &blobs)?;
    write(&to.join("oci-layout"), LAYOUT)?;
    write(&to.join("index.json"), made.index(recipe).to_string().as_bytes())?;
    Ok(ImageId::new(made.manifest))
}

pub(super) fn archive(recipe: &Recipe, to: &Path) -> Result<ImageId> {
    let parts = Directory::beside(to)?;
    let made = ImageBlobs::new(recipe, &parts.0)?;
    let mut tar = Tar::new(Output::beside(to)?);
    tar.directory("blobs")?;
    tar.directory("blobs/sha256")?;
    let mut digests = [&made.manifest, &made.config, &made.layer];
    digests.sort();
    for digest in digests {
        let path = parts.0.join(digest.hex());
        let reading = |error| Error::os(format!("reading {}", path.display()), error);
        let mut file = fs::File::open(&path).map_err(reading)?;
        let size = file.metadata().map_err(reading)?.len();
        let what = EntryKind::File { size, is_program: false };
        tar.file(&format!("blobs/sha256/{}", digest.hex()), what, &mut file)?;
    }
    tar.bytes("index.json", made.index(recipe).to_string().as_bytes())?;
    tar.bytes("manifest.json", made.docker(recipe).to_string().as_bytes())?;
    tar.bytes("oci-layout", LAYOUT)?;
    tar.finish()?.finish(to)?;
    Ok(ImageId::new(made.manifest))
}

const LAYOUT: &[u8] = b"{\"imageLayoutVersion\":\"1.0.0\"}";

/// The blobs of an OCI image.
struct ImageBlobs {
    architecture: &'static str,
    manifest: Digest,
    manifest_size: usize,
    config: Digest,
    layer: Digest,
}

impl ImageBlobs {
    /// Writes them into `blobs`.
    fn new(recipe: &Recipe, blobs: &Path) -> Result<Self> {
        let tree = Tree::of(recipe)?;
        let temporary = blobs.join("layer");
        let gzip = GzEncoder::new(
            HashingWriter::new(Output::beside(&temporary)?, Algorithm::Sha256),
            Compression::best(),
        );
        let mut tar = Tar::new(HashingWriter::new(gzip, Algorithm::Sha256));
        tree.pack(&mut tar, "")?;
        let (gzip, unpacked) = tar.finish()?.finish();
        let packed = gzip.finish().map_err(|error| writing(&temporary, error))?;
        let (output, layer) = packed.finish();
        let size = output.finish(&blobs.join(layer.hex()))?;
        let config = oci_config(recipe, tree.architecture(), &unpacked).to_string();
        let config_digest = blob(blobs, config.as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": OCI_CONFIG, "digest": config_digest.to_string(),
                       "size": config.len()},
            "layers": [{"mediaType": OCI_LAYER, "digest": layer.to_string(), "size": size}],
        });
        let manifest = manifest.to_string();
        Ok(Self {
            architecture: tree.architecture(),
            manifest: blob(blobs, manifest.as_bytes())?,
            manifest_size: manifest.len(),
            config: config_digest,
            layer,
        })
    }

    fn index(&self, recipe: &Recipe) -> Value {
        json!({
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [{
                "mediaType": OCI_MANIFEST,
                "digest": self.manifest.to_string(),
                "size": self.manifest_size,
                "platform": {"os": "linux", "architecture": self.architecture},
                "annotations": {
                    "io.containerd.image.name": whole(recipe),
                    "org.opencontainers.image.ref.name": recipe.version,
                },
            }],
        })
    }

    /// The file that `docker load` reads.
    fn docker(&self, recipe: &Recipe) -> Value {
        json!([{
            "Config": format!("blobs/sha256/{}", self.config.hex()),
            "Layers": [format!("blobs/sha256/{}", self.layer.hex())],
            "RepoTags": [whole(recipe)],
        }])
    }
}

/// Blobs that are on their way into an archive; gone with this value.
struct Directory(PathBuf);

impl Directory {
    fn beside(to: &Path) -> Result<Self> {
        let name = to.file_name().map(|name| name.to_string_lossy().into_owned());
        let path = to.with_file_name(format!(
            ".{}.blobs.{}",
            name.unwrap_or_default(),
            std::process::id()
        ));
        fs::create_dir(&path).map_err(|error| writing(&path, error))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The directory is useless; the first failure is reported already.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn blob(blobs: &Path, bytes: &[u8]) -> Result<Digest> {
    let digest = Digest::of(Algorithm::Sha256, bytes);
    write(&blobs.join(digest.hex()), bytes)?;
    Ok(digest)
}

fn whole(recipe: &Recipe) -> String {
    format!("{}:{}", recipe.name, recipe.version)
}

/// App Container specification 0.8, "Image Manifest Schema".
fn aci_manifest(recipe: &Recipe, architecture: &str) -> Value {
    let app = &recipe.app;
    let architecture = match architecture {
        "386" => "i386",
        "arm64" => "aarch64",
        "arm" => "armv7l",
        other => other,
    };
    let pairs = app.environment.iter();
    let environment: Vec<Value> =
        pairs.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let mounts = app
        .mount_points
        .iter()
        .map(|mount| json!({"name": mount.name, "path": mount.path, "readOnly": mount.read_only}));
    let mut inner = json!({
        "exec": app.exec,
        "user": or_root(&app.user),
        "group": or_root(&app.group),
        "environment": environment,
        "mountPoints": mounts.collect::<Vec<_>>(),
        "isolators": match app.isolators.privileged {
            true => json!([{"name": "os/linux/privileged", "value": true}]),
            false => json!([]),
        },
    });
    if let Some(directory) = &app.working_directory {
        inner["workingDirectory"] = json!(directory);
    }
    json!({
        "acKind": "ImageManifest",
        "acVersion": "0.8.11",
        "name": recipe.name,
        "labels": [
            {"name": "version", "value": recipe.version},
            {"name": "os", "value": "linux"},
            {"name": "arch", "value": architecture},
        ],
        "app": inner,
    })
}

/// OCI image specification 1.1, config.md.
fn oci_config(recipe: &Recipe, architecture: &str, unpacked: &Digest) -> Value {
    let app = &recipe.app;
    let pairs = app.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let mut config = json!({
        "Entrypoint": app.exec,
        "User": format!("{}:{}", or_root(&app.user), or_root(&app.group)),
        "Env": pairs.collect::<Vec<_>>(),
        "Labels": labels(app),
    });
    if let Some(directory) = &app.working_directory {
        config["WorkingDir"] = json!(directory);
    }
    json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [unpacked.to_string()]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "spoke"}],
    })
}

fn labels(app: &App) -> Value {
    let mounts = app.mount_points.iter().map(|mount| {
        let end = if mount.read_only { ":ro" } else { "" };
        format!("{}:{}{end}", mount.name, mount.path.display())
    });
    let mounts: Vec<String> = mounts.collect();
    let mut labels = json!({ MOUNTS: mounts.join(",") });
    if app.isolators.privileged {
        labels[PRIVILEGED] = json!("true");
    }
    labels
}

fn or_root(name: &str) -> &str {
    if name.is_empty() { "0" } else { name }
}
