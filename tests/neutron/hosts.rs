//! Several hosts of one Neutron.

use serde_json::json;
use tests::neutron_lab::ApiLab;

use crate::bed::host_name;
use crate::calls::Calls;

#[test]
fn the_last_host_of_a_network_ends_its_pool() {
    let project = ApiLab::shared().project();
    let (network, _) = project.network("operators", "10.120.0.0/24");
    let name = host_name(&project);
    let hosts = ["a", "b"].map(|host| Calls::of(&project, &format!("{name}-{host}")));
    let options = json!({"neutron.net.uuid": network});
    let docker = hosts.each_ref().map(|host| host.network("10.120.0.0/24", &options));
    let before = hosts[1].start(&docker[1].0, &docker[1].1);
    hosts[0].remove_network(&docker[0].0, &docker[0].1);
    let after = hosts[1].start(&docker[1].0, &docker[1].1);
    for (ends, address) in [before, after] {
        hosts[1].stop(&ends, &docker[1].1, &address);
    }
    hosts[1].remove_network(&docker[1].0, &docker[1].1);
    for host in &hosts {
        host.is_clean();
    }
}

#[test]
fn a_host_collects_nothing_of_another() {
    let project = ApiLab::shared().project();
    let name = host_name(&project);
    let hosts = ["a", "b"].map(|host| Calls::of(&project, &format!("{name}-{host}")));
    let (network, pool) = hosts[0].network("10.121.0.0/24", &json!({}));
    let (ends, address) = hosts[0].start(&network, &pool);
    let before = project.everything();
    for _ in 0..3 {
        hosts[1].gc();
    }
    assert_eq!(project.everything().changes(&before), Vec::<String>::new());
    hosts[0].stop(&ends, &pool, &address);
    hosts[0].remove_network(&network, &pool);
    hosts[0].is_clean();
}
