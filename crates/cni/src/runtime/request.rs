//! A plugin's standard input: its own fields, and those that the list and the runtime add.

use serde_json::{Map, Value, json};

use super::{NetworkList, PluginConfig, Target};

/// The plugin's configuration in a list.
pub(super) fn of_plugin(list: &NetworkList, plugin: &PluginConfig) -> Map<String, Value> {
    let mut config = plugin.fields().clone();
    config.insert("name".into(), json!(list.name.as_str()));
    config.insert("cniVersion".into(), json!(list.version.as_str()));
    config
}

/// The same for one attachment.
pub(super) fn of_attachment(
    list: &NetworkList,
    plugin: &PluginConfig,
    target: &Target,
    previous: Option<&Value>,
) -> Map<String, Value> {
    let mut config = of_plugin(list, plugin);
    if let Some(previous) = previous {
        config.insert("prevResult".into(), previous.clone());
    }
    let has = |capability: &str| {
        let argument = target.capabilities.get(capability)?;
        Some((capability.to_owned(), argument.clone()))
    };
    let runtime: Map<String, Value> = plugin.capabilities().filter_map(has).collect();
    if !runtime.is_empty() {
        config.insert("runtimeConfig".into(), Value::Object(runtime));
    }
    config
}

/// The same for GC, with the attachments that are valid where that is known. libcni once wrote
/// the key otherwise than the specification, and plugins read either.
pub(super) fn of_gc(
    list: &NetworkList,
    plugin: &PluginConfig,
    valid: Option<&[(model::ContainerId, model::IfName)]>,
) -> Map<String, Value> {
    let mut config = of_plugin(list, plugin);
    if let Some(valid) = valid {
        let one = |(container, ifname): &(model::ContainerId, model::IfName)| json!({"containerID": container.as_str(), "ifname": ifname.as_str()});
        let valid: Vec<Value> = valid.iter().map(one).collect();
        config.insert("cni.dev/valid-attachments".into(), json!(valid));
        config.insert("cni.dev/attachments".into(), json!(valid));
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_plugin_says_it_can_is_sent() {
        let list = NetworkList::parse(
            br#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"x","name":"own","k":[1],
            "capabilities":{"mac":true,"ips":false,"portMappings":true}}]}"#,
        )
        .unwrap();
        let mut target = Target::new("c".parse().unwrap(), "/n", "eth0".parse().unwrap());
        let Value::Object(capabilities) = json!({"mac": "m", "ips": [], "aliases": []}) else {
            panic!("an object")
        };
        target.capabilities = capabilities;
        let previous = json!({"ips": []});
        let reported = of_attachment(&list, &list.plugins[0], &target, Some(&previous));
        let expected = json!({"type": "x", "name": "n", "k": [1], "cniVersion": "1.0.0",
            "capabilities": {"mac": true, "ips": false, "portMappings": true},
            "prevResult": {"ips": []}, "runtimeConfig": {"mac": "m"}});
        assert_eq!(Value::Object(reported), expected);
    }

    #[test]
    fn what_is_not_known_is_not_sent() {
        let list = NetworkList::parse(br#"{"name":"n","plugins":[{"type":"x"}]}"#).unwrap();
        assert!(!of_gc(&list, &list.plugins[0], None).contains_key("cni.dev/attachments"));
        let reported = of_gc(&list, &list.plugins[0], Some(&[]));
        assert_eq!(reported["cni.dev/valid-attachments"], json!([]));
    }
}
