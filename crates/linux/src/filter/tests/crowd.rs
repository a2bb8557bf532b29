use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::Instant;

use model::{Kind, PortMap, Protocol};

use super::space::{Space, alive};
use crate::filter::{
    Elements, Open, allow_forwarding, ensure, find_owned, install, list_owners, remove, verify,
};

fn container(number: u16) -> Elements {
    let [high, low] = number.to_be_bytes();
    let address: IpAddr = [10, 1, high, low].into();
    let bridge = "br0".parse().unwrap();
    let mut elements = Elements::new(format!("container-{number}").parse().unwrap());
    let port = PortMap {
        host: None,
        host_port: NonZeroU16::new(10_000 + number).unwrap(),
        container_port: NonZeroU16::new(80).unwrap(),
        protocol: Protocol::Tcp,
    };
    elements.publish(&port, address).hairpin(&bridge, address);
    elements.home(&bridge, address).masquerade(address);
    elements
}

#[test]
fn all_at_once_without_a_table() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP");
    std::thread::scope(|scope| {
        for number in 0..64 {
            let space = &space;
            scope.spawn(move || {
                let mut socket = space.socket();
                let bridge = "br0".parse().unwrap();
                install(&mut socket, &container(number), alive).unwrap();
                while let Err(error) = allow_forwarding(&mut socket, &bridge, Open::default(), &[])
                {
                    assert_eq!(error.kind(), Kind::TryAgain, "{error}");
                }
            });
        }
    });
    let mut socket = space.socket();
    assert_eq!(list_owners(&mut socket).unwrap().len(), 64);
    let rules = space.run("nft list table inet spoke");
    assert_eq!(rules.matches("jump published").count(), 1, "{rules}");
    assert_eq!(space.run("iptables-nft -S FORWARD | grep -c -- '-j SPOKE-FORWARD'").trim(), "1");
    assert_eq!(space.run("iptables-nft -S SPOKE-FORWARD | grep -c br0").trim(), "2");
}

#[test]
fn the_same_port_goes_to_one() {
    let space = Space::new();
    let taken: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16u8)
            .map(|number| {
                let space = &space;
                scope.spawn(move || {
                    let mut elements = Elements::new(format!("c{number}").parse().unwrap());
                    let port = PortMap {
                        host: None,
                        host_port: NonZeroU16::new(80).unwrap(),
                        container_port: NonZeroU16::new(80).unwrap(),
                        protocol: Protocol::Udp,
                    };
                    elements.publish(&port, [10, 1, 0, number].into());
                    match install(&mut space.socket(), &elements, alive) {
                        Ok(()) => 1,
                        Err(error) => {
                            assert_eq!(error.kind(), Kind::Conflict, "{error}");
                            0
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(taken, 1);
}

/// Prints what an addition and a removal cost as the table grows; run it with `--ignored`.
#[test]
#[ignore = "a measurement"]
fn cost_by_size() {
    let space = Space::new();
    let mut socket = space.socket();
    let mut lap = Instant::now();
    ensure(&mut socket).unwrap();
    println!("the table: {:?}", lap.elapsed());
    lap = Instant::now();
    ensure(&mut socket).unwrap();
    println!("looking for it: {:?}", lap.elapsed());
    lap = Instant::now();
    for number in 0..20_000 {
        install(&mut socket, &container(number), alive).unwrap();
        if matches!(number, 99 | 199 | 999 | 1_099 | 9_899 | 9_999 | 19_899 | 19_999) {
            println!("{number}: {:?} per ADD", lap.elapsed() / 100);
        }
        if number % 100 == 99 {
            lap = Instant::now();
        }
    }
    lap = Instant::now();
    verify(&mut socket, &container(7)).unwrap();
    println!("CHECK: {:?}", lap.elapsed());
    lap = Instant::now();
    find_owned(&mut socket, container(7).owner()).unwrap();
    println!("finding without a record: {:?}", lap.elapsed());
    lap = Instant::now();
    for number in (0..20_000).rev() {
        remove(&mut socket, &container(number)).unwrap();
        if number % 100 == 0 {
            if matches!(number, 19_800 | 10_000 | 1_000 | 0) {
                println!("{number}: {:?} per DEL", lap.elapsed() / 100);
            }
            lap = Instant::now();
        }
    }
}
