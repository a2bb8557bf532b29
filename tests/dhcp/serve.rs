//! The part of `spoke serve` that keeps leases: a macvlan container on a link to a real server.

use crate::bed::wait;
use crate::host::Host;

#[test]
fn a_lease_outlives_its_daemon_and_is_regained_after_its_server() {
    let mut host = Host::new();
    host.start_server(6);
    host.start_serve();
    host.call("ADD");
    let address = |host: &Host| host.shows("address").contains("inet 10.7.0.");
    assert!(address(&host), "{}", host.shows("address"));
    host.kill_serve();
    let acks = |host: &Host| host.served().matches("sending ACK").count();
    let offers = |host: &Host| host.served().matches("sending OFFER").count();
    let before = (acks(&host), offers(&host));
    host.start_serve();
    // The one that it is asked for at once, and a renewal.
    wait(|| acks(&host) >= before.0 + 2);
    assert_eq!(offers(&host), before.1, "nothing is begun anew: {}", host.served());
    assert!(address(&host));
    host.stop_server();
    wait(|| host.events("lease-lost").len() == 1);
    assert!(host.events("lease-lost")[0].contains("\"container\":\"c1\""));
    assert!(!address(&host), "{}", host.shows("address"));
    host.start_server(60);
    wait(|| host.events("lease-regained").len() == 1);
    assert!(address(&host), "{}", host.shows("address"));
    assert!(host.shows("route").contains("default via 10.7.0.1"), "{}", host.shows("route"));
    host.call("DEL");
    assert!(!host.shows("address").contains("10.7.0."));
}

#[test]
fn a_daemon_that_has_the_socket_keeps_it_and_serve_goes_on() {
    let mut host = Host::new();
    host.start_server(60);
    let _other = host.start_other();
    host.start_serve();
    wait(|| host.said().contains("DHCP is not served"));
    assert!(host.said().contains("dhcp.sock"), "{}", host.said());
    // It is the other one that is asked.
    host.call("ADD");
    assert!(host.shows("address").contains("inet 10.7.0."), "{}", host.shows("address"));
    host.call("DEL");
    assert_eq!(host.events("started").len(), 1);
}
