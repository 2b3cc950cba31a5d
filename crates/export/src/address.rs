//! Where a request goes: `http://host:port/path`, `https://…` or `unix:///path/of/a/socket`.

use std::fmt;
use std::path::PathBuf;

use config::{Secret, tags};

/// How a place is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// With TLS.
    Https,
    /// Over a socket that is a file.
    Unix,
}

/// A place to send to. Shown, it has neither user nor query, which may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// How to speak.
    pub scheme: Scheme,
    /// The host's name or number, without brackets; empty for a socket.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path with its query; begins with `/`.
    pub path: String,
    /// The socket's file.
    pub socket: PathBuf,
    /// `user:password`, if they are in the address, without percent-encoding.
    pub user: Secret,
}

/// Why a text is no address; the text itself may have a password, so it is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAddress {
    /// Neither `http://`, `https://` nor `unix://`.
    Scheme,
    /// Nothing where the host should be.
    NoHost,
    /// A port that is none.
    Port,
    /// Blanks or control characters.
    Letters,
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "it begins with neither http://, https:// nor unix://",
            Self::NoHost => "it has no host",
            Self::Port => "its port is no number from 1 to 65535",
            Self::Letters => "it has a blank or a control character in it",
        })
    }
}

impl std::error::Error for BadAddress {}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let text = text.trim();
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(BadAddress::Letters);
        }
        let (scheme, rest) = text.split_once("://").ok_or(BadAddress::Scheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" => Self::of_host(Scheme::Http, 80, rest),
            "https" => Self::of_host(Scheme::Https, 443, rest),
            "unix" => Self::of_socket(rest),
            _ => Err(BadAddress::Scheme),
        }
    }

    fn of_socket(path: &str) -> Result<Self, BadAddress> {
        if !path.starts_with('/') {
            return Err(BadAddress::NoHost);
        }
        Ok(Self {
            scheme: Scheme::Unix,
            host: String::new(),
            port: 0,
            path: "/".to_owned(),
            socket: PathBuf::from(path),
            user: Secret::default(),
        })
    }

    fn of_host(scheme: Scheme, usual_port: u16, rest: &str) -> Result<Self, BadAddress> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(BadAddress::NoHost)?,
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        if host.is_empty() {
            return Err(BadAddress::NoHost);
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => usual_port,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port > 0).ok_or(BadAddress::Port)?
            }
            _ => return Err(BadAddress::Port),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            path,
            socket: PathBuf::new(),
            user: Secret::new(tags::decoded(user)),
        })
    }

    /// The same place with a path after its own.
    #[must_use]
    pub fn join(&self, path: &str) -> Self {
        let own = self.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        Self { path: format!("{own}{path}"), ..self.clone() }
    }

    /// Host and port as they are written in a request.
    #[must_use]
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.scheme, self.port) {
            (Scheme::Unix, _) => "localhost".to_owned(),
            (Scheme::Http, 80) | (Scheme::Https, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.split('?').next().unwrap_or_default();
        match self.scheme {
            Scheme::Http => write!(f, "http://{}{path}", self.authority()),
            Scheme::Https => write!(f, "https://{}{path}", self.authority()),
            Scheme::Unix => write!(f, "unix://{}{path}", self.socket.display()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_secrets() {
        for (text, shown) in [
            ("http://a", "http://a/"),
            ("HTTPS://a:443/x?key=secret#y", "https://a/x"),
            ("http://user:secret@a:8080/p", "http://a:8080/p"),
            ("http://u@secret:x@[::1]:4040", "http://[::1]:4040/"),
            ("https://a?x=secret", "https://a/"),
            ("unix:///run/dd.sock", "unix:///run/dd.sock/"),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!(address.to_string(), shown);
            assert!(!format!("{address:?}").contains("secret"), "{text}");
        }
        let address = Address::parse("http://user:pass@a:8080/p?x=1").expect("an address");
        assert_eq!(address.user.reveal(), "user:pass");
        assert_eq!((address.path.as_str(), address.port), ("/p?x=1", 8080));
        let encoded = Address::parse("http://me:p%40ss%2Fword@a").expect("an address");
        assert_eq!(encoded.user.reveal(), "me:p@ss/word");
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        for (text, why) in [
            ("", BadAddress::Scheme),
            ("localhost:8126", BadAddress::Scheme),
            ("ftp://a", BadAddress::Scheme),
            ("http://", BadAddress::NoHost),
            ("http://:80", BadAddress::NoHost),
            ("http://[::1", BadAddress::NoHost),
            ("http://a:0", BadAddress::Port),
            ("http://a:65536", BadAddress::Port),
            ("http://a:+1", BadAddress::Port),
            ("http://a:", BadAddress::Port),
            ("http://[::1]x", BadAddress::Port),
            ("http://a/\r\nHost: b", BadAddress::Letters),
            ("unix://relative", BadAddress::NoHost),
        ] {
            assert_eq!(Address::parse(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn a_path_is_added_after_its_own() {
        for (base, joined) in [
            ("http://a", "http://a/x/y"),
            ("http://a/", "http://a/x/y"),
            ("http://a/p/?q=1", "http://a/p/x/y"),
            ("unix:///s", "unix:///s/x/y"),
        ] {
            assert_eq!(Address::parse(base).expect(base).join("/x/y").to_string(), joined);
        }
    }
}
