//! What processes tell each other.

use std::fs;
use std::time::{Duration, Instant};

use libnetwork::Answer;
use model::Kind;
use remote::calls::Calls;

use crate::scripted::{Act, Scene, dead_socket, leave, p};

fn fine(_: &str, _: usize) -> Act {
    Act::Say(200, "{}")
}

#[test]
fn a_life_is_asked_once_by_all_processes() {
    let scene = Scene::with(fine);
    let profile = scene.process().profile(&p()).unwrap();
    for _ in 0..3 {
        let process = scene.process();
        assert_eq!(process.call(&p(), &leave()).unwrap(), Answer::Done {});
        assert_eq!(process.profile(&p()).unwrap(), profile);
    }
    assert_eq!(scene.count("Plugin.Activate"), 1);
    assert_eq!(scene.heard.lock().unwrap().len(), 4 + 3);
    scene.serve(fine);
    scene.process().call(&p(), &leave()).unwrap();
    assert_eq!(scene.count("Plugin.Activate"), 2);
}

#[test]
fn notes_of_no_use_are_passed_over() {
    let scene = Scene::with(fine);
    scene.process().profile(&p()).unwrap();
    let path = scene.at("notes/p.manifest");
    let good = fs::read_to_string(&path).unwrap();
    let bad = [
        String::new(),
        "{".repeat(100_000),
        good.replace("Implements", "Implem\\u00"),
        good.replace("IpamDriver.GetCapabilities", "x"),
        good.replace("\"when\":1", "\"when\":9"),
        good.replace("\"when\":1", "\"when\":0"),
        good.replace("unix://", "unix:///"),
    ];
    for (count, bad) in bad.iter().enumerate() {
        assert_ne!(*bad, good);
        fs::write(&path, bad).unwrap();
        scene.process().call(&p(), &leave()).unwrap();
        assert_eq!(scene.count("Plugin.Activate"), 2 + count, "{bad}");
    }
}

#[test]
fn the_dead_fail_at_once_in_every_process_after_the_first() {
    let scene = Scene::with(fine);
    scene.process().call(&p(), &leave()).unwrap();
    fs::remove_file(scene.socket()).unwrap();
    dead_socket(&scene.socket());
    assert_eq!(scene.process().call(&p(), &leave()).unwrap_err().kind(), Kind::TryAgain);
    let begin = Instant::now();
    for _ in 0..10 {
        let failed = scene.process().call(&p(), &leave()).unwrap_err();
        assert_eq!(failed.kind(), Kind::TryAgain);
        assert!(failed.to_string().contains("does not answer at unix://"), "{failed}");
    }
    // One that is asked again is waited for as long as a restart takes: 2 s each time, 20 s in all.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    scene.serve(fine);
    scene.process().call(&p(), &leave()).unwrap();
}

#[test]
fn who_hangs_is_waited_for_by_one_process_at_a_time() {
    let scene = Scene::with(|_, _| Act::Hang);
    let timeout = Duration::from_secs(2);
    let process = || scene.plugins(timeout).noting(scene.at("notes"));
    assert!(process().call(&p(), &leave()).is_err());
    let begin = Instant::now();
    assert_eq!(process().call(&p(), &leave()).unwrap_err().kind(), Kind::TryAgain);
    assert!(begin.elapsed() < timeout, "{:?}", begin.elapsed());
}
