use std::fs;

use super::*;

fn recipe(directory: &Path) -> Recipe {
    let program = directory.join("program");
    let mut elf = vec![0; 4096];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[18] = 62;
    fs::write(&program, elf).unwrap();
    let extra = directory.join("extra");
    fs::write(&extra, "extra").unwrap();
    let mut recipe = Recipe::plugin("krm.test/spoke", "1.0", &program);
    recipe.files.push(Extra { from: extra, to: "/opt/cni/bin/extra".into() });
    recipe
}

type Make = fn(&Recipe, &Path) -> Result<ImageId>;

#[test]
fn the_same_recipe_makes_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = recipe(directory.path());
    for (name, make) in [("aci", aci as Make), ("archive", archive)] {
        let [one, other] = [1, 2].map(|number| directory.path().join(format!("{name}{number}")));
        let id = make(&recipe, &one).unwrap();
        let modified = fs::File::options().append(true).open(&recipe.program).unwrap();
        modified.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(make(&recipe, &other).unwrap(), id);
        assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap());
        assert!(fs::read(&one).unwrap().len() < 20_000);
    }
    let layout = directory.path().join("layout");
    let id = super::layout(&recipe, &layout).unwrap();
    assert_eq!(super::layout(&recipe, &layout).unwrap(), id);
    assert_eq!(archive(&recipe, &directory.path().join("again")).unwrap(), id);
    let blobs = fs::read_dir(layout.join("blobs/sha256")).unwrap().count();
    assert_eq!(blobs, 3);
}

#[test]
fn mistakes_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let good = recipe(directory.path());
    let before = fs::read_dir(directory.path()).unwrap().count();
    let to = directory.path().join("to");
    let with = |change: &dyn Fn(&mut Recipe)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad
    };
    let extra = |to: &str| Extra { from: good.files[0].from.clone(), to: to.into() };
    for bad in [
        with(&|recipe| recipe.name = "Bad".to_owned()),
        with(&|recipe| recipe.version = "a/b".to_owned()),
        with(&|recipe| recipe.program = "/nonexistent".into()),
        with(&|recipe| recipe.program = good.files[0].from.clone()),
        with(&|recipe| recipe.files[0].to = "relative".into()),
        with(&|recipe| recipe.files[0].to = "/a/../b".into()),
        with(&|recipe| recipe.files[0].to = PROGRAM.into()),
        with(&|recipe| recipe.files[0].from = "/nonexistent".into()),
        with(&|recipe| recipe.files[0].from = "/".into()),
        with(&|recipe| recipe.files.push(extra("/opt/cni/bin/extra/x"))),
        with(&|recipe| recipe.files.push(extra("/opt/cni"))),
        with(&|recipe| recipe.files.push(extra(&format!("/{}", "x".repeat(300))))),
    ] {
        for make in [aci as Make, archive] {
            assert!(make(&bad, &to).is_err(), "{bad:?}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), before, "{bad:?}");
        }
    }
}

/// Nothing is put into an image that could not run there.
#[test]
fn what_cannot_run_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut recipe = recipe(directory.path());
    let to = directory.path().join("to");
    let from = recipe.files[0].from.clone();
    let made = |bytes: &[u8]| {
        fs::write(&from, bytes).unwrap();
        aci(&recipe, &to).map_err(|error| error.to_string())
    };
    let mut elf = fs::read(directory.path().join("program")).unwrap();
    made(&elf).unwrap();
    (elf[32], elf[54], elf[56], elf[64]) = (64, 56, 1, 3);
    let dynamic = made(&elf).unwrap_err();
    let (path, says) = (from.display().to_string(), "CGO_ENABLED=0");
    assert!(dynamic.contains(&path) && dynamic.contains(says), "{dynamic}");
    (elf[18], elf[64]) = (183, 0);
    let other = made(&elf).unwrap_err();
    assert!(other.contains("is for arm64, and the image is for amd64"), "{other}");
    let script = made(b"#! /bin/sh -e\nexit\n").unwrap_err();
    assert!(script.contains("\"/bin/sh\""), "{script}");
    made(b"#!/usr/bin/spoke x\n").unwrap();
    made(b"#!/opt/cni/bin/extra\n").unwrap();
    made(b"a table\n").unwrap();
    recipe.files.clear();
    aci(&recipe, &to).unwrap();
}

#[test]
fn tar_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = recipe(directory.path());
    let to = directory.path().join("image.aci");
    aci(&recipe, &to).unwrap();
    let listed = std::process::Command::new("tar").arg("-tvzf").arg(&to).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    for line in [
        "rootfs/opt/network/add -> ../../usr/bin/spoke",
        "rootfs/opt/cni/bin/extra",
        "rootfs/run/spoke/",
        "1970-01-01",
    ] {
        assert!(listed.contains(line), "{line} in\n{listed}");
    }
}
