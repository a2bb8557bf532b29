//! The image that containers run.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

/// The host's static busybox under all its names, and a page to serve.
const BUILD: &str = r#"
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
mkdir -p image/{bin,etc,proc,sys,dev,tmp,www}
cp /bin/busybox image/bin
for applet in $(busybox --list); do [ $applet = busybox ] || ln -s busybox image/bin/$applet; done
echo "root:x:0:0:root:/:/bin/sh" >image/etc/passwd
echo "root:x:0:" >image/etc/group
echo "a page" >image/www/index.html
tar -C image -c .
"#;

/// The image as a tar archive: made once per process.
pub(super) fn archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        assert!(fs::exists("/bin/busybox").is_ok_and(|is| is), "busybox-static (make test)");
        let done = Command::new("bash").args(["-euc", BUILD]).output().expect("bash starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    })
}
