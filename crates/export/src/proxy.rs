//! Whether a request goes through a proxy, and which.

use config::{ExportConfig, Secret};

use crate::address::{Address, BadAddress, Scheme};

/// The proxies.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Address>,
    https: Option<Address>,
    /// Hosts that are reached without, in small letters and without a leading dot.
    direct: Vec<String>,
}

impl Proxies {
    /// From the settings.
    ///
    /// # Errors
    /// The option whose address is none, and why.
    pub fn new(config: &ExportConfig) -> Result<Self, (&'static str, BadAddress)> {
        let direct = config.no_proxy.split(',').map(|host| {
            host.trim().trim_start_matches('.').trim_matches(['[', ']']).to_ascii_lowercase()
        });
        Ok(Self {
            http: proxy(&config.http_proxy)
                .map_err(|why| (config.name_of("CORPROF_HTTP_PROXY"), why))?,
            https: proxy(&config.https_proxy)
                .map_err(|why| (config.name_of("CORPROF_HTTPS_PROXY"), why))?,
            direct: direct.filter(|host| !host.is_empty()).collect(),
        })
    }

    /// The proxy on the way to an address, if there is one.
    #[must_use]
    pub fn on_the_way_to(&self, address: &Address) -> Option<&Address> {
        let proxy = match address.scheme {
            Scheme::Http => self.http.as_ref(),
            Scheme::Https => self.https.as_ref(),
            Scheme::Unix => None,
        };
        proxy.filter(|_| !self.is_direct(address))
    }

    fn is_direct(&self, address: &Address) -> bool {
        let host = address.host.to_ascii_lowercase();
        let is_here = host == "localhost" || host == "::1" || host.starts_with("127.");
        let with_port = format!("{host}:{}", address.port);
        is_here
            || self.direct.iter().any(|direct| {
                let is_below =
                    || host.strip_suffix(direct.as_str()).is_some_and(|rest| rest.ends_with('.'));
                direct == "*" || *direct == host || *direct == with_port || is_below()
            })
    }
}

/// A proxy's address; many write it without `http://`.
fn proxy(text: &Secret) -> Result<Option<Address>, BadAddress> {
    let text = text.reveal();
    if text.is_empty() {
        return Ok(None);
    }
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let address = Address::parse(&with_scheme)?;
    if address.scheme == Scheme::Http { Ok(Some(address)) } else { Err(BadAddress::Scheme) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(http: &str, https: &str, no: &str, to: &str) -> Option<String> {
        let config = ExportConfig {
            http_proxy: Secret::new(http.to_owned()),
            https_proxy: Secret::new(https.to_owned()),
            no_proxy: no.to_owned(),
            ..ExportConfig::default()
        };
        let proxies = Proxies::new(&config).expect("proxies");
        let to = Address::parse(to).expect("an address");
        proxies.on_the_way_to(&to).map(ToString::to_string)
    }

    #[test]
    fn each_scheme_has_its_own() {
        let (one, two) = ("one:3128", "http://u:p@two");
        assert_eq!(way(one, two, "", "http://a"), Some("http://one:3128/".into()));
        assert_eq!(way(one, two, "", "https://a"), Some("http://two/".into()));
        assert_eq!(way(one, "", "", "https://a"), None);
        assert_eq!(way(one, two, "", "unix:///a"), None);
    }

    #[test]
    fn some_hosts_are_reached_without() {
        for (no, to, is_direct) in [
            ("", "http://localhost:4040", true),
            ("", "http://127.0.0.2", true),
            ("", "http://[::1]", true),
            ("a.b", "http://a.b", true),
            (".a.b, x", "http://c.A.b", true),
            ("a.b", "http://xa.b", false),
            ("a.b:81", "http://a.b:81", true),
            ("a.b:81", "http://a.b", false),
            ("*", "http://any", true),
            (",", "http://any", false),
        ] {
            assert_eq!(way("p", "", no, to).is_none(), is_direct, "{no} {to}");
        }
    }

    #[test]
    fn nonsense_names_its_option() {
        let config = ExportConfig {
            https_proxy: Secret::new("socks5://x".into()),
            ..ExportConfig::default()
        };
        let refused = Proxies::new(&config).expect_err("no such proxy");
        assert_eq!(refused, ("CORPROF_HTTPS_PROXY", BadAddress::Scheme));
    }
}
