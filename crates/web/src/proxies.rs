//! Proxies, named as everywhere: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.

use std::net::IpAddr;

use ipnet::IpNet;
use model::{Error, Result};
use ureq::{Proxy, ProxyProtocol};

/// The proxies for servers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    except: Vec<Exception>,
}

/// Hosts that are reached directly.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Everybody,
    /// A host, or a domain with all hosts in it.
    Domain(String),
    Net(IpNet),
}

impl Proxies {
    /// The proxies in the environment, whose variables `variable` returns. Lower-case names come
    /// first.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            variable(name)
                .or_else(|| variable(&name.to_ascii_uppercase()))
                .filter(|value| !value.trim().is_empty())
        };
        let all = either("all_proxy");
        let except = either("no_proxy").unwrap_or_default();
        Self {
            http: either("http_proxy").or_else(|| all.clone()),
            https: either("https_proxy").or(all),
            except: except.split(',').filter_map(Exception::read).collect(),
        }
    }

    /// The proxy for this scheme and host.
    fn of(&self, scheme: &str, host: &str) -> Option<&str> {
        let proxy = match scheme {
            "https" => self.https.as_deref(),
            _ => self.http.as_deref(),
        };
        proxy.filter(|_| !self.except.iter().any(|exception| exception.holds(host)))
    }

    /// The same for the library that speaks to it.
    ///
    /// # Errors
    /// `Invalid` where it is no URL; `Unsupported` where the proxy is not one of HTTP.
    pub(crate) fn way(&self, scheme: &str, host: &str) -> Result<Option<Proxy>> {
        let Some(given) = self.of(scheme, host) else { return Ok(None) };
        let proxy = Proxy::new(given).map_err(|cause| {
            Error::invalid(format!("the environment's {scheme}_proxy is no URL: {cause}"))
        })?;
        match proxy.protocol() {
            ProxyProtocol::Http | ProxyProtocol::Https => Ok(Some(proxy)),
            // Built without them, the library panics.
            other => Err(Error::unsupported(format!(
                "the environment's {scheme}_proxy is one of {other}: name one of HTTP, or except \
                 {host} by no_proxy"
            ))),
        }
    }
}

impl Exception {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            return Some(Exception::Everybody);
        }
        let net = text.parse::<IpNet>().ok();
        if let Some(net) = net.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)) {
            return Some(Exception::Net(net));
        }
        let host = text.trim_start_matches('*').trim_start_matches('.');
        let host = host.split(':').next().unwrap_or(host);
        (!host.is_empty()).then(|| Exception::Domain(host.to_ascii_lowercase()))
    }

    fn holds(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        match self {
            Exception::Everybody => true,
            Exception::Domain(domain) => {
                let rest = host.strip_suffix(domain.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            Exception::Net(net) => host.parse::<IpAddr>().is_ok_and(|host| net.contains(&host)),
        }
    }
}

impl std::fmt::Debug for Proxies {
    /// A proxy's URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_set = |proxy: &Option<String>| proxy.is_some();
        f.debug_struct("Proxies")
            .field("http", &is_set(&self.http))
            .field("https", &is_set(&self.https))
            .field("except", &self.except)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    fn proxies(pairs: &[(&str, &str)]) -> Proxies {
        let owned: Vec<(String, String)> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Proxies::of_environment(move |name| {
            owned.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let proxies = proxies(&[
            ("http_proxy", "http://proxy:3128"),
            ("NO_PROXY", "localhost, .example.com,10.0.0.0/8,192.0.2.7,cloud:5000,"),
        ]);
        for host in ["localhost", "a.example.com", "example.com", "10.1.2.3", "192.0.2.7", "cloud"]
        {
            assert_eq!(proxies.of("http", host), None, "{host}");
        }
        for host in ["example.org", "notexample.com", "11.0.0.1", "[fd00::1]"] {
            assert_eq!(proxies.of("http", host), Some("http://proxy:3128"), "{host}");
        }
        assert_eq!(proxies.of("https", "example.org"), None);
    }

    #[test]
    fn tells_no_password() {
        let proxies = proxies(&[("all_proxy", "http://me:secret@proxy"), ("no_proxy", "*")]);
        assert!(!format!("{proxies:?}").contains("secret"));
        assert_eq!(proxies.of("https", "anybody"), None);
    }

    #[test]
    fn one_of_another_kind_is_refused() {
        let way = |proxy: &str| {
            let way = proxies(&[("all_proxy", proxy)]).way("http", "example.org");
            way.map(|proxy| proxy.is_some()).map_err(|error| error.kind())
        };
        assert_eq!(way("http://proxy:3128"), Ok(true));
        assert_eq!(way("socks4://proxy:1080"), Err(Kind::Unsupported));
        assert_eq!(way("socks5://proxy:1080"), Err(Kind::Unsupported));
        assert_eq!(way("http://"), Err(Kind::Invalid));
    }
}
