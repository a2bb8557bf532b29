//! `CNI_ARGS`: `KEY=value` pairs between semicolons.

use model::{Error, OwnerName, Result, Runtime};

/// The contents of `CNI_ARGS`. All of it is deprecated in favour of the configuration's `args`,
/// which has precedence, but every Kubernetes runtime sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// `IP`: the wanted address, or addresses for the IPAM plugin `static`.
    pub ip: Option<String>,
    /// `GATEWAY`: the gateways, for the IPAM plugin `static`.
    pub gateway: Option<String>,
    /// `MAC`: the wanted hardware address.
    pub mac: Option<String>,
    /// `K8S_POD_NAMESPACE`.
    pub pod_namespace: Option<String>,
    /// `K8S_POD_NAME`.
    pub pod_name: Option<String>,
    /// `IgnoreUnknown`: other keys are no error.
    pub ignore_unknown: bool,
    /// The pairs of other keys.
    pub unknown: Vec<String>,
}

impl Args {
    /// Reads the pairs; a pair that is none is an error.
    pub fn parse(text: &str) -> Result<Self> {
        let mut args = Args::default();
        if text.is_empty() {
            return Ok(args);
        }
        for pair in text.split(';') {
            let invalid = || Error::invalid(format!("ARGS: invalid pair {pair:?}"));
            let (key, value) = pair.split_once('=').ok_or_else(invalid)?;
            if value.contains('=') {
                return Err(invalid());
            }
            args.take(key, value, pair)?;
        }
        Ok(args)
    }

    fn take(&mut self, key: &str, value: &str, pair: &str) -> Result<()> {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            "IP" => self.ip = text(),
            "GATEWAY" => self.gateway = text(),
            "MAC" => self.mac = text(),
            "IgnoreUnknown" => self.ignore_unknown = truth(value, pair)?,
            _ => {
                match key {
                    "K8S_POD_NAMESPACE" => self.pod_namespace = text(),
                    "K8S_POD_NAME" => self.pod_name = text(),
                    _ => {}
                }
                self.unknown.push(pair.to_owned());
            }
        }
        Ok(())
    }

    /// Unknown keys are an error unless the runtime allowed them.
    pub fn strict(self) -> Result<Self> {
        match self.ignore_unknown || self.unknown.is_empty() {
            true => Ok(self),
            false => {
                let unknown: Vec<String> =
                    self.unknown.iter().map(|pair| format!("{pair:?}")).collect();
                Err(Error::invalid(format!("ARGS: unknown args [{}]", unknown.join(" "))))
            }
        }
    }

    /// The runtime that sent this. Podman sends the container's name as that of a pod without a
    /// namespace, which no Kubernetes runtime does.
    pub fn runtime(&self) -> Runtime {
        match (&self.pod_namespace, &self.pod_name) {
            (None, Some(_)) if self.ignore_unknown => Runtime::Podman,
            _ => Runtime::Cni,
        }
    }

    /// The name that outlives the container: the pod's, or with Podman the container's own.
    pub fn owner(&self) -> Option<OwnerName> {
        let name = self.pod_name.as_ref()?;
        let owner = match &self.pod_namespace {
            Some(namespace) => format!("pod/{namespace}/{name}"),
            None => format!("{}/{name}", self.runtime()),
        };
        owner.parse().ok()
    }
}

fn truth(value: &str, pair: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(Error::invalid(format!(
            "ARGS: error parsing value of pair {pair:?}: boolean unmarshal error: invalid input {value}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn says_what_the_reference_says() {
        let error = |text| Args::parse(text).and_then(Args::strict).unwrap_err().to_string();
        assert_eq!(error("IP"), "ARGS: invalid pair \"IP\"");
        assert_eq!(error("A=b=c;IgnoreUnknown=1"), "ARGS: invalid pair \"A=b=c\"");
        assert_eq!(error("IgnoreUnknown=1;"), "ARGS: invalid pair \"\"");
        assert_eq!(error("A=b;C=d"), "ARGS: unknown args [\"A=b\" \"C=d\"]");
        assert_eq!(error("ip=10.9.0.77"), "ARGS: unknown args [\"ip=10.9.0.77\"]");
        assert!(error("IgnoreUnknown=yes").ends_with("boolean unmarshal error: invalid input yes"));
    }

    #[test]
    fn knows_who_calls() {
        let args = Args::parse("IgnoreUnknown=1;K8S_POD_NAME=web").unwrap();
        assert_eq!(args.runtime(), Runtime::Podman);
        assert_eq!(args.owner().unwrap().as_str(), "podman/web");
        let kubernetes = "IgnoreUnknown=true;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-0;IP=";
        let args = Args::parse(kubernetes).unwrap().strict().unwrap();
        assert_eq!((args.runtime(), args.ip.clone()), (Runtime::Cni, None));
        assert_eq!(args.owner().unwrap().as_str(), "pod/prod/web-0");
        assert_eq!(Args::parse("").unwrap().owner(), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = Args::parse(&text).and_then(Args::strict).map(|args| args.owner());
        }
    }
}
