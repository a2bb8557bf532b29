//! An attachment that is made anew with another address, while healing puts back what it was before.

use engine::port::Driver;
use linux::{Life, Linux};
use model::{Attachment, Firewall, IngressPolicy, Reach, Wiring};

use crate::bed::{Container, attachment, firewall, isolated, published, run};
use crate::bridge_port::checked;

fn at(address: &str, container: &Container) -> Attachment {
    let made = attachment("one", checked(), address, &container.sandbox);
    let publish = model::Publish { reach: Reach::Local, ..published(8080) };
    let firewall = Firewall { ingress: IngressPolicy::Isolated, ..firewall() };
    let wiring = Wiring { publish: Some(publish), firewall: Some(firewall), ..made.wiring.clone() };
    Attachment { wiring, ..made }
}

fn elements() -> String {
    run("nft -s list table inet spoke; nft -s list table bridge spoke")
}

#[test]
fn what_stands_for_its_lost_address_goes() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let (old, new) = (at("10.88.0.2/24", &one), at("10.88.0.4/24", &one));
        linux.attach(&old).unwrap();
        linux.detach(&old).unwrap();
        linux.attach(&new).unwrap();
        let right = elements();
        assert!(linux.restore(&old).unwrap());
        assert!(elements().contains("10.88.0.2"));

        linux.withdraw_addresses(&old, &new).unwrap();
        assert!(!elements().contains("10.88.0.2"), "{}", elements());
        // The port led to the lost address.
        assert!(linux.restore(&new).unwrap());
        assert_eq!(elements(), right);
        linux.withdraw_addresses(&old, &new).unwrap();
        linux.withdraw_addresses(&new, &new).unwrap();
        assert_eq!(elements(), right);

        let two = Container::new();
        let mut next = at("10.88.0.2/24", &two);
        next.id.container = "two".parse().unwrap();
        next.wiring.publish = Some(published(8081));
        linux.attach(&next).unwrap();
        linux.detach(&next).unwrap();
        linux.detach(&new).unwrap();
    });
}
