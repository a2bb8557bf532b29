//! A daemon and a short-lived process at the same attachment. The daemon does not end, so neither may
//! wait for its end.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::common::Directory;
use super::endpoint_world::*;
use engine::Engine;
use engine::port::{Host, Occupied, Store};
use model::*;

const SHORT_LIVED: Process = Process { pid: 99, start: 1 };

/// The short-lived process, which tells when it begins to wait.
struct Other {
    waits: Mutex<Option<Sender<()>>>,
}

impl Host for Other {
    fn me(&self) -> Process {
        SHORT_LIVED
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn is_running(&self, process: &Process) -> bool {
        *process != Process::NONE
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, _: &Process, limit: Duration) -> bool {
        if let Some(waits) = self.waits.lock().unwrap().take() {
            waits.send(()).unwrap();
        }
        let (_never, reported) = channel::<()>();
        // No process ends: all of the time passes.
        let _ = reported.recv_timeout(limit);
        false
    }
}

/// Runs `work` as the short-lived process; the channel reports once it waits.
fn aside<T: Send + 'static>(
    rig: &Arc<Rig>,
    work: impl FnOnce(&Engine<'_>) -> T + Send + 'static,
) -> (std::thread::JoinHandle<T>, Receiver<()>) {
    let (waits, waiting) = channel();
    let rig = rig.clone();
    let run = move || {
        let directory = Directory::default();
        let other = Other { waits: Mutex::new(Some(waits)) };
        work(&Engine::new(&*rig, &*rig, &directory, &other))
    };
    (std::thread::spawn(run), waiting)
}

#[test]
fn who_is_overtaken_says_that_it_is_done() {
    let rig = Arc::new(Rig::new());
    let made = rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap()
    });
    let remover: Arc<Mutex<Option<std::thread::JoinHandle<Result<()>>>>> = Arc::default();
    let (of_rig, of_remover, name) = (rig.clone(), remover.clone(), made.id.network.clone());
    *rig.meanwhile.lock().unwrap() = Some(Box::new(move |_| {
        let (thread, waiting) = aside(&of_rig, move |engine| engine.networks.remove(&name, true));
        waiting.recv().unwrap();
        *of_remover.lock().unwrap() = Some(thread);
    }));
    let error = rig
        .with(|engine| engine.attachments.join(&made.id, &joining("s", model::Handoff::Finish)))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::TryAgain, "{error}");
    let remover = remover.lock().unwrap().take().unwrap();
    remover.join().unwrap().unwrap();
    assert_eq!(rig.kernel(), Kernel::default());
    rig.with(|engine| {
        assert!(
            engine.records.attachments().unwrap().is_empty()
                && engine.records.aliases().unwrap().is_empty()
        );
    });
}

#[test]
fn a_leave_waits_for_a_join() {
    let rig = Arc::new(Rig::new());
    let made = rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap()
    });
    let leaver: Arc<Mutex<Option<std::thread::JoinHandle<Result<()>>>>> = Arc::default();
    let (of_rig, of_leaver, of_id) = (rig.clone(), leaver.clone(), made.id.clone());
    *rig.meanwhile.lock().unwrap() = Some(Box::new(move |_| {
        let (thread, waiting) = aside(&of_rig, move |engine| engine.attachments.leave(&of_id));
        waiting.recv().unwrap();
        *of_leaver.lock().unwrap() = Some(thread);
    }));
    rig.with(|engine| engine.attachments.join(&made.id, &joining("s", Handoff::Finish))).unwrap();
    leaver.lock().unwrap().take().unwrap().join().unwrap().unwrap();
    assert!(rig.kernel().links.is_empty());
    rig.with(|engine| {
        assert_eq!(engine.records.attachment(&made.id).unwrap().unwrap().phase, Phase::Reserved);
    });
}

#[test]
fn who_waits_for_a_detacher_sees_the_record_go() {
    let rig = Arc::new(Rig::new());
    let made = rig.with(|engine| up(engine, &front(), "a", "s"));
    let record = rig.with(|engine| engine.records.attachment(&made).unwrap().unwrap());
    // The daemon is detaching it.
    let by = rig.me();
    let mut leaving = record;
    leaving.phase = Phase::Detaching { by, attacher: None };
    let key = engine::port::Key::Attachment(made.clone(), Layer::Link);
    let txn =
        engine::port::Txn::new().put(key, engine::port::Record::Attachment(Box::new(leaving)));
    assert!(matches!(rig.commit(&txn).unwrap(), engine::port::Outcome::Done(_)));
    let (thread, waiting) = aside(&rig, {
        let made = made.clone();
        move |engine| engine.links.remove(&made)
    });
    waiting.recv().unwrap();
    rig.with(|engine| engine.links.remove(&made)).unwrap();
    thread.join().unwrap().unwrap();
    assert!(rig.kernel().links.is_empty());
}
