//! How often runtimes' files are read to find a network.

use std::cell::Cell;
use std::time::Duration;

use engine::Engine;
use engine::port::{Described, Host, Occupied};
use model::{Kind, NetworkName, Process, Result, Timestamp};

use super::common::{World, book};

/// A machine with one file that describes `front`.
struct Files<'a> {
    world: &'a World,
    read: Cell<usize>,
}

impl Host for Files<'_> {
    fn described(&self) -> Vec<Described> {
        self.read.set(self.read.get() + 1);
        let network = book("10.1.0.0/16");
        let (name, file) = (network.name.clone(), "/front.json".to_owned());
        vec![Described { name, by: "Podman", file, network: Some(Box::new(network)) }]
    }

    fn me(&self) -> Process {
        self.world.machine.me()
    }

    fn now(&self) -> Timestamp {
        self.world.machine.now()
    }

    fn is_running(&self, process: &Process) -> bool {
        self.world.machine.is_running(process)
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        self.world.machine.occupied()
    }

    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool {
        self.world.machine.wait_for_end(process, limit)
    }
}

#[test]
fn the_files_of_runtimes_are_read_once_for_one_answer() {
    let world = World::new();
    let files = Files { world: &world, read: Cell::new(0) };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &files);
    let name = |text: &str| text.parse::<NetworkName>().unwrap();

    let unknown = engine.records.network(&name("back")).unwrap_err();
    assert_eq!((unknown.kind(), files.read.take()), (Kind::NotFound, 1));
    let described = engine.records.network(&name("front")).unwrap_err();
    assert!(described.to_string().contains("is not made yet: Podman has it"), "{described}");
    assert_eq!(files.read.take(), 1);
    assert_eq!(engine.records.network_or_described(&name("front")).unwrap().name, name("front"));
    assert_eq!(files.read.take(), 1);
    assert!(engine.records.network_or_described(&name("back")).is_err());
    assert_eq!(files.read.take(), 1);
}
