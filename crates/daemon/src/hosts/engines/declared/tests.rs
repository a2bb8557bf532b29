use super::*;

#[test]
fn a_network_that_no_engine_ever_listed_is_reported() {
    let record = Record {
        id: "0123456789abcdef".parse().unwrap(),
        subnets: Vec::new(),
        hosts: "all".parse().unwrap(),
        engines: BTreeSet::new(),
        transport: TransportChoice::default(),
        names: false,
        sticky: false,
        rules: model::SharedRules::OPEN,
        name: None,
    };
    let asked = DeclaredNetwork::new(record.clone());
    let error = asked.given_up().unwrap().to_string();
    assert!(error.contains("[docker]") && error.contains("0123456789ab,"), "{error}");
    // It was removed in Docker since then.
    assert!(DeclaredNetwork { made: None, ..asked }.given_up().is_none());
    let declared = Record { name: "front".parse().ok(), ..record };
    assert!(DeclaredNetwork::new(declared).given_up().is_none());
}
