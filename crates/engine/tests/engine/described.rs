//! How often runtimes' files are read to find a network.

use engine::port::Described;
use model::{Kind, NetworkName};

use super::common::{World, book};

#[test]
fn the_files_of_runtimes_are_read_once_for_one_answer() {
    let (world, network) = (World::new(), book("10.1.0.0/16"));
    let (name, file) = (network.name.clone(), "/front.json".to_owned());
    let described = Described { name, by: "Podman", file, network: Some(Box::new(network)) };
    world.machine.files.replace(vec![described]);
    let (engine, read) = (world.engine(), &world.machine.read);
    let name = |text: &str| text.parse::<NetworkName>().unwrap();

    let unknown = engine.records.network(&name("back")).unwrap_err();
    assert_eq!((unknown.kind(), read.take()), (Kind::NotFound, 1));
    let described = engine.records.network(&name("front")).unwrap_err();
    assert!(described.to_string().contains("is not made yet: Podman has it"), "{described}");
    assert_eq!(read.take(), 1);
    assert_eq!(engine.records.network_or_described(&name("front")).unwrap().name, name("front"));
    assert_eq!(read.take(), 1);
    assert!(engine.records.network_or_described(&name("back")).is_err());
    assert_eq!(read.take(), 1);
}
