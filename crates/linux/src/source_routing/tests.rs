use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn view() -> View {
    let direct = Route { source: Some(address("10.9.0.2")), ..route("10.9.0.0/24", None) };
    let own = [
        route("0.0.0.0/0", Some("10.9.0.1")),
        direct,
        route("fd00::/64", None),
        route("fe80::/64", None),
    ];
    let other = Route { link: Some(9), ..route("10.8.0.0/24", None) };
    let taken = Route { table: 101, ..other };
    View {
        link: 2,
        addresses: vec![(net("10.9.0.2/24"), Some(address("10.9.0.1"))), (net("fd00::2/64"), None)],
        rules: vec![Rule::from(address("10.8.0.2"), 100)],
        routes: own.into_iter().chain([other, taken]).collect(),
    }
}

fn route(dst: &str, gateway: Option<&str>) -> Route {
    Route::new(net(dst), gateway.map(address), Some(2))
}

fn shown(routes: &[Route]) -> Vec<String> {
    let show = |route: &Route| {
        let via = route.gateway.map_or_else(String::new, |via| format!(" via {via}"));
        let source = route.source.map_or_else(String::new, |source| format!(" src {source}"));
        format!("{}{via}{source} table {}", route.dst, route.table)
    };
    routes.iter().map(show).collect()
}

#[test]
fn each_address_gets_a_free_table_with_the_interfaces_routes() {
    let plan = view().plan(&SourceRouting::default());
    let rules = [Rule::from(address("10.9.0.2"), 102), Rule::from(address("fd00::2"), 103)];
    assert_eq!(plan.rules, rules);
    let routes = [
        "10.9.0.0/24 src 10.9.0.2 table 102",
        "0.0.0.0/0 via 10.9.0.1 table 102",
        "0.0.0.0/0 via 10.9.0.1 table 102",
        "fd00::/64 table 103",
    ];
    assert_eq!(shown(&plan.routes), routes);
    let dropped = [
        "0.0.0.0/0 via 10.9.0.1 table 254",
        "10.9.0.0/24 src 10.9.0.2 table 254",
        "fd00::/64 table 254",
    ];
    assert_eq!(shown(&plan.dropped), dropped);
}

#[test]
fn a_table_has_the_routes_of_its_own_subnet_and_those_of_none() {
    let mut view = view();
    view.addresses = ["10.9.0.2/24", "10.10.0.2/24"].map(|subnet| (net(subnet), None)).to_vec();
    let direct = Route { source: Some(address("10.10.0.2")), ..route("10.10.0.0/24", None) };
    let own = [direct, route("10.7.0.0/16", Some("10.10.0.9")), route("10.6.0.1/32", None)];
    view.routes.extend(own);
    let plan = view.plan(&SourceRouting::default());
    let routes = [
        "10.9.0.0/24 src 10.9.0.2 table 102",
        "10.6.0.1/32 table 102",
        "0.0.0.0/0 via 10.9.0.1 table 102",
        "10.10.0.0/24 src 10.10.0.2 table 103",
        "10.6.0.1/32 table 103",
        "10.7.0.0/16 via 10.10.0.9 table 103",
    ];
    assert_eq!(shown(&plan.routes), routes);
}

#[test]
fn a_given_table_is_only_led_to() {
    let given = SourceRouting { table: Some(77), ..SourceRouting::default() };
    let plan = view().plan(&given);
    assert!(plan.routes.is_empty() && plan.dropped.is_empty());
    assert!(plan.rules.iter().all(|rule| rule.table == 77));
    let gateways = vec![address("10.9.0.254")];
    let plan = view().plan(&SourceRouting { gateways, source_hints: true, ..given });
    assert_eq!(shown(&plan.routes), ["0.0.0.0/0 via 10.9.0.254 src 10.9.0.2 table 77"]);
}

#[test]
fn what_was_begun_is_completed() {
    let mut view = view();
    let started = view.plan(&SourceRouting::default());
    view.rules.extend(&started.rules);
    view.routes.extend(&started.routes);
    view.verify(&SourceRouting::default(), &"eth0".parse().unwrap()).unwrap();
    let plan = view.plan(&SourceRouting::default());
    assert!(plan.rules.is_empty());
    assert!(plan.routes.iter().all(|route| [102, 103].contains(&route.table)));
    view.routes.retain(|route| route.table != 102);
    let error = view.verify(&SourceRouting::default(), &"eth0".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("table 102"), "{error}");
    view.rules.clear();
    let error = view.verify(&SourceRouting::default(), &"eth0".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("rule from 10.9.0.2"), "{error}");
}
