//! Images of network plugins, in the form that Kurma had: ACI (App Container).

use std::process::Command;

use serde_json::{Value, json};

use crate::World;

/// The host's static busybox under the names that scripts use.
const BUSYBOX: &str = "
mkdir -p rootfs/bin rootfs/opt/network rootfs/tmp
cp /bin/busybox rootfs/bin/
for name in sh cat cut echo env grep head id ip kill ls mkdir mktemp mv nc readlink rm sed setsid \
    sleep stat touch tr true; do ln -s busybox rootfs/bin/$name; done
";

/// What records how it is called, and does what the test says.
const SPY: &str = include_str!("plugin_image/spy.sh");
const SPY_MAIN: &str = include_str!("plugin_image/spy_main.sh");

/// What hands the configuration to a CNI plugin beside it, as Kurma's own image did it: written
/// anew after how that one behaved.
const CNI_ADD: &str = include_str!("plugin_image/cni_add.sh");

/// Where the CNI plugins of the image for them are, with the libraries of all programs.
const CNI: &str = r#"
mkdir -p rootfs/usr/bin
for program in /usr/bin/jq /usr/lib/cni/bridge /usr/lib/cni/host-local /usr/lib/cni/loopback; do
    cp $program rootfs/usr/bin/
    ldd $program | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "rootfs${library%/*}"
        cp -n "$library" "rootfs$library"
    done
done
"#;

/// An image in the making.
#[derive(Clone, Debug)]
pub struct PluginImage {
    manifest: Value,
    /// Shell commands that make `rootfs` in their working directory.
    script: String,
}

impl PluginImage {
    /// An image of this name with busybox and nothing to run.
    pub fn busybox(name: &str) -> Self {
        let labels = json!([{"name": "os", "value": "linux"}, {"name": "arch", "value": "amd64"},
            {"name": "version", "value": "1.0.0"}]);
        let manifest = json!({"acKind": "ImageManifest", "acVersion": "0.7.4", "name": name,
            "labels": labels});
        Self { manifest, script: BUSYBOX.to_owned() }
    }

    /// A plugin that writes down how it is called, as [`crate::kurma::Kurma::calls`] reads it, and
    /// does as [`crate::kurma::Kurma::instruct`] says.
    pub fn spy() -> Self {
        let app = json!({"exec": ["/main"], "user": "0", "group": "0",
            "environment": [{"name": "SPY", "value": "of the image"}]});
        Self::busybox("krm.test/spy")
            .with("app", app)
            .file("rootfs/opt/network/add", SPY)
            .and("ln -s add rootfs/opt/network/del")
            .file("rootfs/main", SPY_MAIN)
    }

    /// A plugin of shell, jq and third-party CNI plugins, as Kurma itself had one.
    pub fn cni() -> Self {
        let app = json!({"exec": ["/opt/network/setup"], "user": "0", "group": "0"});
        Self::busybox("krm.test/cni-netplugin")
            .with("app", app)
            .privileged()
            .and(CNI)
            .file("rootfs/opt/network/add", CNI_ADD)
            .file("rootfs/opt/network/del", &CNI_ADD.replace("=ADD", "=DEL"))
            .file("rootfs/opt/network/setup", "#!/bin/sh\nexec sleep 2147483647 <&-\n")
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.with("name", name.into())
    }

    /// With this in its manifest.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.manifest[key] = value;
        self
    }

    /// Without this in its manifest.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.manifest.as_object_mut().expect("an object").remove(key);
        self
    }

    /// With the isolator that asks for all of the host's privileges.
    #[must_use]
    pub fn privileged(mut self) -> Self {
        self.manifest["app"]["isolators"] = json!([{"name": "os/linux/privileged", "value": true}]);
        self
    }

    /// With more done by a shell in the folder that has `rootfs` and `manifest`.
    #[must_use]
    pub fn and(mut self, script: &str) -> Self {
        self.script += "\n";
        self.script += script;
        self
    }

    /// With an executable file; the path is as in the archive.
    #[must_use]
    pub fn file(self, path: &str, content: &str) -> Self {
        let script = format!(
            "mkdir -p $(dirname {path})\ncat >{path} <<'END-OF-FILE'\n{}\nEND-OF-FILE\n\
             chmod 755 {path}",
            content.trim_end()
        );
        self.and(&script)
    }

    /// Writes it to `path` in `world`, compressed with gzip.
    #[track_caller]
    pub fn write(&self, world: &World, path: &str) {
        self.write_as(world, path, "tar --gzip -cf $target manifest rootfs");
    }

    /// Writes it to `path` in `world` as a script does it that finds `manifest` and `rootfs` in its
    /// folder, and the path in `$target`. The programs in it are of this host, not of the world.
    ///
    /// # Panics
    /// When a program is missing, with what was said.
    #[track_caller]
    pub fn write_as(&self, world: &World, path: &str, archive: &str) {
        let (manifest, target) = (&self.manifest, world.path(path));
        let script = format!(
            "mkdir -p \"$(dirname \"$target\")\"\ncd \"$(mktemp -d)\"\ntrap 'rm -rf \"$PWD\"' EXIT\n\
             umask 022\nmkdir rootfs\n{}\ncat >manifest <<'MANIFEST'\n{manifest}\nMANIFEST\n\
             {archive}",
            self.script
        );
        let mut command = Command::new("bash");
        let done = command.args(["-euc", &script]).env("target", target).output();
        let done = done.expect("bash starts");
        assert!(done.status.success(), "{script}\n{}", String::from_utf8_lossy(&done.stderr));
    }
}
