//! Spoke as a managed plugin of Docker, which keeps it beside its images and starts it itself.

use serde_json::json;
use tests::{Engine, Plugins, Release};

/// Everything that is said of networks, and every file and interface that could be left.
const LEFT: &str = r#"
find /run/spoke /var/lib/spoke -type f ! -name lock ! -name '*.lock' ! -name events ! -path '*/calls/*' ! -path '*/namespaces/*'
ip -o link show | grep -o ' \(sp\|veth\)[^:@]*' || true
nft list tables | grep -w spoke || true
{ iptables-save; ip6tables-save; } 2>/dev/null | grep -w spoke || true"#;

/// An engine with the plugin, enabled.
pub(crate) struct Managed {
    pub(crate) engine: Engine,
}

impl Managed {
    /// None where this engine cannot be had. `config` is the configuration in the plugin's root.
    #[track_caller]
    pub(crate) fn new(release: Release, config: &str) -> Option<Self> {
        if !release.is_there() {
            return None;
        }
        let managed = Self { engine: Engine::new(release, &Plugins::subject(), &[]) };
        managed.sh(&format!(
            "mkdir -p /var/lib/spoke
             /opt/cni/bin/spoke docker plugin /world/plugin
             cat >/world/plugin/rootfs/etc/spoke/config.toml <<'CONF'\n{config}\nCONF"
        ));
        managed.docker("plugin create spoke /world/plugin");
        managed.docker("plugin enable spoke");
        Some(managed)
    }

    /// What `docker ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn docker(&self, arguments: &str) -> String {
        let done = self.engine.try_docker(arguments);
        let said = format!("docker {arguments}\n{}{}", done.stdout, done.stderr);
        assert_eq!(done.status, 0, "{said}\n{}", self.engine.log());
        done.stdout.trim().to_owned()
    }

    /// What a script in the engine's world prints.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        self.engine.world().sh(script)
    }

    /// Waits until `script` succeeds in the world.
    #[track_caller]
    pub(crate) fn until(&self, script: &str) {
        let script = format!("timeout 30 bash -c 'until {script}; do sleep 0.05; done'");
        let done = self.engine.world().try_sh(&script);
        assert_eq!(done.status, 0, "never: {script}\n{}", self.engine.log());
    }

    /// Waits until the plugin has said that it answered `call`.
    #[track_caller]
    pub(crate) fn until_called(&self, call: &str) {
        self.until(&format!("grep -q \"answered .*call={call} .*result=ok\" /world/dockerd.log"));
    }

    /// Takes the plugin away; nothing of it is left.
    #[track_caller]
    pub(crate) fn end(self) {
        assert_eq!(self.sh(LEFT), "", "{}", self.engine.log());
        self.docker("plugin disable spoke");
        self.docker("plugin rm spoke");
        assert_eq!(self.docker("plugin ls -q"), "");
        assert_eq!(self.sh("/opt/cni/bin/spoke network ls -q"), "");
    }
}

/// A network of both of its drivers; the name of a managed plugin has a tag.
pub(crate) const CREATE: &str = "network create -d spoke:latest --ipam-driver spoke:latest";

#[track_caller]
fn managed(release: Release) {
    let Some(mut managed) = Managed::new(release, "") else { return };
    managed.docker(&format!("{CREATE} --subnet 10.85.0.0/24 front"));
    let always = json!({"StopTimeout": 0, "HostConfig": {"RestartPolicy": {"Name": "always"}}});
    managed.engine.run("one", "front", always);
    managed.docker(
        "run -d --name two --stop-timeout 0 --network front -p 8085:80 busybox httpd -f -h /www",
    );
    let engine = &managed.engine;
    engine.ping("one", "two");
    engine.ping("one", "10.85.0.1");
    assert_eq!(engine.get("/networks/front")["Driver"], "spoke:latest");
    assert_eq!(engine.endpoint("one", "front")["IPAddress"], "10.85.0.2");
    let page = managed
        .sh(r"exec 3<>/dev/tcp/127.0.0.1/8085; printf 'GET / HTTP/1.0\r\n\r\n' >&3; tail -n 1 <&3");
    assert_eq!(page, "a page\n");
    // It is the same book that the host's commands and CNI open.
    assert!(managed.sh("/opt/cni/bin/spoke ps").contains("10.85.0.2/24"));
    let refused = engine.try_docker("plugin disable spoke");
    assert_ne!(refused.status, 0, "it is in use");

    managed.engine.stop();
    managed.engine.start(&[]);
    let mut events = managed.engine.events();
    while managed.engine.container("one")["State"]["Running"] != true {
        events.until(|event| event["Action"] == "start");
    }
    managed.engine.ping("one", "10.85.0.1");
    managed.docker("start two");
    managed.engine.ping("one", "two");
    managed.docker("rm -f one two");
    managed.docker("network rm front");
    managed.end();
}

#[test]
fn managed_20_10() {
    managed(Release::V20_10);
}

#[test]
fn managed_28_5() {
    managed(Release::V28_5);
}
