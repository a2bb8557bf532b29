//! Authentication: `Authorization` headers, and tokens (the distribution project's "Token
//! Authentication Specification" and "OAuth 2 Token Authentication").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Error, Kind, Result};
use serde::Deserialize;

use super::{Challenge, Credential};
use crate::Url;
use crate::transport::{Call, Transport};

/// A longer answer is refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// A longer token is refused, in bytes.
const LONGEST_TOKEN: usize = 64 << 10;

/// A registry's request for authentication.
pub(super) struct AuthenticationRequest<'a> {
    /// Where that was.
    pub(super) url: &'a Url,
    /// Its `WWW-Authenticate` headers.
    pub(super) challenges: &'a str,
    /// The requested scope: no more than needed, whatever the registry asks for.
    pub(super) scope: String,
}

#[derive(Deserialize)]
struct Wire {
    token: Option<String>,
    access_token: Option<String>,
}

/// The value of `Authorization`.
///
/// # Errors
/// [`Denied`](Kind::Denied) when credentials are needed and there are none, or they are refused.
pub(super) fn authorization(
    transport: &Transport,
    asked: &AuthenticationRequest<'_>,
    who: Option<&Credential>,
) -> Result<String> {
    match (Challenge::read(asked.challenges), who) {
        (Some(Challenge::Bearer { realm, service, .. }), who) => {
            let realm: Url = realm.parse()?;
            let who = who.map(|who| trust(asked.url, &realm).map(|()| who)).transpose()?;
            token(transport, (&realm, asked.url), &query(asked, service.as_deref()), who)
        }
        (Some(Challenge::Basic), Some(Credential::Password { name, password })) => {
            Ok(basic(name, password))
        }
        (Some(Challenge::Basic), _) => Err(Error::new(
            Kind::Denied,
            "it wants a name and a password: podman login --authfile FILE, and name FILE as auth",
        )),
        (None, _) => Err(Error::new(
            Kind::Denied,
            "it answers 401 without a WWW-Authenticate challenge that is known",
        )),
    }
}

/// A password is sent only to a host that the registry names over TLS, or to the registry's own
/// host: an attacker on plain HTTP could name any host.
fn trust(registry: &Url, realm: &Url) -> Result<()> {
    let name = |url: &Url| crate::transport::name(url.host()).to_owned();
    match (registry.is_secure() && realm.is_secure()) || name(registry) == name(realm) {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Denied,
            format!("{realm} gets no password, as {} is not asked with TLS", registry.host()),
        )),
    }
}

fn token(
    transport: &Transport,
    (realm, from): (&Url, &Url),
    query: &str,
    who: Option<&Credential>,
) -> Result<String> {
    let bytes = match who {
        Some(Credential::Identity(identity)) => {
            let form = format!(
                "grant_type=refresh_token&client_id=spoke&refresh_token={}&{query}",
                escaped(identity)
            );
            transport.bytes(&Call { form: Some(&form), ..Call::named_by(realm, from) }, LONGEST)?
        }
        who => {
            let separator = if realm.path().contains('?') { '&' } else { '?' };
            let path = format!("{}{separator}{query}", realm.path());
            let url = Url::new(realm.is_secure(), realm.host(), &path)?;
            let basic = who.and_then(|who| match who {
                Credential::Password { name, password } => Some(basic(name, password)),
                Credential::Identity(_) => None,
            });
            let authorization = basic.as_deref();
            transport.bytes(&Call { authorization, ..Call::named_by(&url, from) }, LONGEST)?
        }
    };
    let wire: Option<Wire> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let token = wire.and_then(|wire| wire.token.or(wire.access_token));
    let is_plain = |token: &String| {
        token.len() <= LONGEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match token.filter(is_plain) {
        Some(token) => Ok(format!("Bearer {token}")),
        None => Err(Error::invalid(format!("{realm} gives no token"))),
    }
}

fn query(asked: &AuthenticationRequest<'_>, service: Option<&str>) -> String {
    let scope = format!("scope={}", escaped(&asked.scope));
    match service {
        Some(service) => format!("service={}&{scope}", escaped(service)),
        None => scope,
    }
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// For a query or a form.
fn escaped(text: &str) -> String {
    web::escape(text, b"-._~:/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_asked_for_than_needed() {
        let url = "https://a/v2/".parse().unwrap();
        let asked = AuthenticationRequest {
            url: &url,
            challenges: "",
            scope: "repository:a/b:pull".to_owned(),
        };
        assert_eq!(query(&asked, Some("x y&z")), "service=x%20y%26z&scope=repository:a/b:pull");
        assert_eq!(query(&asked, None), "scope=repository:a/b:pull");
        assert_eq!(basic("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }

    #[test]
    fn passwords_go_to_no_other_server() {
        let trusts = |registry: &str, realm: &str| {
            trust(&registry.parse().unwrap(), &realm.parse().unwrap()).is_ok()
        };
        assert!(trusts("https://quay.io/v2/", "https://quay.io/token"));
        assert!(trusts("https://registry-1.docker.io/v2/", "https://auth.docker.io/token"));
        assert!(trusts("http://localhost:5000/v2/", "http://localhost:5001/token"));
        assert!(!trusts("http://a.example:5000/v2/", "https://b.example/token"));
        assert!(!trusts("https://a.example/v2/", "http://b.example/token"));
    }
}
