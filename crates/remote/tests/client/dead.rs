//! Plugins that are not there, restart, or are there again.

use std::thread;
use std::time::{Duration, Instant};

use libnetwork::{Answer, Call};
use model::Kind;
use remote::calls::{Calls, Fate};

use crate::scripted::{Act, Scene, any_address, at, dead_socket, leave, p};

const TIMEOUT: Duration = Duration::from_secs(20);
/// As long as a plugin that restarts is waited for.
const RESTART: Duration = Duration::from_secs(2);

fn fine(_: &str, _: usize) -> Act {
    Act::Say(200, "{}")
}

#[test]
fn a_missing_plugin_is_reported_with_the_places_that_were_searched() {
    let scene = Scene::new();
    let begin = Instant::now();
    let failed = scene.plugins(TIMEOUT).call(&p(), &leave()).unwrap_err();
    assert_eq!((failed.kind(), failed.fate), (Kind::NotFound, Fate::Unsent));
    let text = failed.to_string();
    for place in ["run/p.sock", "run/p/p.sock", "etc/p.spec", "etc/p/p.json", "lib/p.json"] {
        assert!(text.contains(&scene.at(place).display().to_string()), "{text}");
    }
    assert!(begin.elapsed() < RESTART, "{:?}", begin.elapsed());
}

#[test]
fn the_dead_fail_at_once_after_the_first_time() {
    let scene = Scene::new();
    dead_socket(&scene.socket());
    let plugins = scene.plugins(TIMEOUT);
    let failed = plugins.call(&p(), &leave()).unwrap_err();
    assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Unsent), "{failed}");
    for _ in 0..4 {
        let begin = Instant::now();
        for _ in 0..10 {
            let failed = plugins.call(&p(), &any_address()).unwrap_err();
            assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Unsent));
            assert!(failed.to_string().contains("does not answer at unix://"), "{failed}");
        }
        assert!(begin.elapsed() < RESTART, "{:?}", begin.elapsed());
    }
    scene.serve(fine);
    assert_eq!(plugins.call(&p(), &leave()).unwrap(), Answer::Done {});
}

#[test]
fn a_new_description_is_tried_at_once() {
    let scene = Scene::new();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(scene.at("etc/p.spec"), format!("tcp://{unused}")).unwrap();
    let plugins = scene.plugins(TIMEOUT);
    for _ in 0..2 {
        assert_eq!(plugins.call(&p(), &leave()).unwrap_err().kind(), Kind::TryAgain);
    }
    std::fs::create_dir(scene.at("run/elsewhere")).unwrap();
    scene.serve(fine);
    std::fs::rename(scene.socket(), scene.at("run/elsewhere/x.sock")).unwrap();
    let url = format!("unix://{}", scene.at("run/elsewhere/x.sock").display());
    std::fs::write(scene.at("etc/p.spec"), url).unwrap();
    assert_eq!(plugins.call(&p(), &leave()).unwrap(), Answer::Done {});
}

#[test]
fn who_restarts_is_waited_for_and_asked_anew() {
    let scene = Scene::with(fine);
    let plugins = scene.plugins(TIMEOUT);
    plugins.call(&p(), &leave()).unwrap();
    let before = plugins.life(&p()).unwrap();
    assert_eq!(scene.count("Plugin.Activate"), 1);
    std::fs::remove_file(scene.socket()).unwrap();
    let call = Call::DeleteEndpoint(at());
    let answered = thread::scope(|scope| {
        let waiting = scope.spawn(|| plugins.call(&p(), &call));
        thread::sleep(Duration::from_millis(300));
        scene.serve(fine);
        waiting.join().unwrap()
    });
    assert_eq!(answered.unwrap(), Answer::Done {});
    assert_eq!(scene.count("Plugin.Activate"), 2);
    assert_ne!(plugins.life(&p()).unwrap(), before);
    plugins.call(&p(), &leave()).unwrap();
    assert_eq!(scene.count("Plugin.Activate"), 2);
}

#[test]
fn who_hangs_is_waited_for_by_one_at_a_time() {
    let timeout = Duration::from_secs(2);
    let scene = Scene::with(|_, _| Act::Hang);
    let plugins = scene.plugins(timeout);
    plugins.profile(&p()).unwrap();
    assert_eq!(plugins.call(&p(), &leave()).unwrap_err().fate, Fate::Unknown);
    let begin = Instant::now();
    assert_eq!(plugins.call(&p(), &leave()).unwrap_err().fate, Fate::Unsent);
    assert!(begin.elapsed() < timeout);
}

#[test]
fn who_was_removed_is_missed_once() {
    let scene = Scene::with(fine);
    let plugins = scene.plugins(TIMEOUT);
    plugins.call(&p(), &leave()).unwrap();
    std::fs::remove_file(scene.socket()).unwrap();
    assert_eq!(plugins.call(&p(), &leave()).unwrap_err().kind(), Kind::NotFound);
    let begin = Instant::now();
    assert_eq!(plugins.call(&p(), &leave()).unwrap_err().kind(), Kind::NotFound);
    assert!(begin.elapsed() < RESTART);
    scene.serve(fine);
    assert_eq!(plugins.call(&p(), &leave()).unwrap(), Answer::Done {});
}

#[test]
fn a_description_that_is_of_no_use_is_reported_at_once() {
    let scene = Scene::new();
    std::fs::write(scene.at("etc/p.spec"), "nowhere").unwrap();
    let begin = Instant::now();
    let failed = scene.plugins(TIMEOUT).call(&p(), &leave()).unwrap_err();
    assert_eq!((failed.kind(), failed.fate), (Kind::Invalid, Fate::Unsent));
    assert!(begin.elapsed() < RESTART, "{:?}", begin.elapsed());
}

#[test]
fn who_is_back_in_the_same_place_is_not_kept_waiting() {
    let scene = Scene::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(scene.at("etc/p.spec"), format!("tcp://{free}")).unwrap();
    let plugins = scene.plugins(TIMEOUT);
    assert_eq!(plugins.call(&p(), &leave()).unwrap_err().kind(), Kind::TryAgain);
    let reported = plugins.call(&p(), &leave()).unwrap_err().to_string();
    assert!(reported.contains("it is tried again in 0."), "{reported}");
}
