//! Who may push and ask, where a server stays for long: everybody on this machine, if nobody else
//! can reach it; else whoever has the token.

use std::io;
use std::net::SocketAddr;

use crate::guard::{Verdict, equal, random};
use crate::http::{Request, Response};

/// Keeps a server's door.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    token: Option<String>,
    /// What a browser has instead of the token, which would stay in its history.
    secret: String,
}

impl Gate {
    /// For a server at that address. Without a token it has to be one of this machine alone.
    ///
    /// # Errors
    /// If it is not, or the system gives no random numbers.
    pub fn new(address: SocketAddr, token: Option<String>) -> io::Result<Self> {
        if token.is_none() && !address.ip().is_loopback() {
            let why = "others can reach this address, so it takes a token";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { port: address.port(), token, secret: random()? })
    }

    /// Decides about a request.
    #[must_use]
    pub fn check(&self, request: &Request) -> Verdict {
        let refuse = |status, text| {
            let response = Response::error(status, text);
            Verdict::Answered(Box::new(if status == 401 {
                response.with("WWW-Authenticate", "Bearer")
            } else {
                response
            }))
        };
        let Some(token) = &self.token else {
            // A page of another site can have its own name point to this machine, and ask.
            let host = request.header("host").unwrap_or_default();
            let origin = request.header("origin").map(|origin| {
                origin.strip_prefix("http://").is_some_and(|host| self.is_of_this_machine(host))
            });
            return if self.is_of_this_machine(host) && origin.unwrap_or(true) {
                Verdict::Passed
            } else {
                refuse(403, "without a token only names of this machine are answered")
            };
        };
        if let Some(given) = request.part("token").filter(|_| request.path == "/") {
            return if equal(given, token) { self.enter() } else { refuse(403, "a wrong token") };
        }
        let has_cookie = request.cookie(&self.cookie()).is_some_and(|s| equal(s, &self.secret));
        match request.header("authorization").map(given) {
            Some(given) if given.as_deref().is_some_and(|given| equal(given, token)) => {
                Verdict::Passed
            }
            Some(_) => refuse(403, "a wrong token"),
            None if has_cookie => Verdict::Passed,
            None => refuse(401, "send the token: Authorization: Bearer …, or open /?token=…"),
        }
    }

    fn is_of_this_machine(&self, host: &str) -> bool {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        names.iter().any(|name| host == format!("{name}:{}", self.port))
    }

    fn cookie(&self) -> String {
        format!("corprof-{}", self.port)
    }

    fn enter(&self) -> Verdict {
        let attributes = "HttpOnly; SameSite=Strict; Path=/";
        let cookie = format!("{}={}; {attributes}", self.cookie(), self.secret);
        let response = Response { status: 303, ..Response::of("text/plain", "") };
        let response = response.with("Location", "/").with("Set-Cookie", cookie);
        Verdict::Answered(Box::new(response))
    }
}

/// The token in a header: a bearer's, or the password of whom the user's name is of no interest.
fn given(header: &str) -> Option<String> {
    let (kind, value) = header.split_once(' ')?;
    if kind.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_owned());
    }
    let plain = String::from_utf8(from_base64(value.trim())?).ok()?;
    let is_basic = kind.eq_ignore_ascii_case("basic");
    plain.split_once(':').filter(|_| is_basic).map(|(_, password)| password.to_owned())
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;

    fn request(path: &str, query: &[(&str, &str)], headers: &[(&str, &str)]) -> Request {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Request {
            method: Method::Get,
            path: path.to_owned(),
            query: query.iter().map(owned).collect(),
            headers: headers.iter().map(owned).collect(),
            body: Vec::new(),
            keeps_alive: true,
        }
    }

    fn status(gate: &Gate, request: &Request) -> u16 {
        match gate.check(request) {
            Verdict::Passed => 200,
            Verdict::Answered(response) => response.status,
        }
    }

    #[test]
    fn without_a_token_this_machine_may_ask_by_its_own_names() {
        let gate = Gate::new(SocketAddr::from(([127, 0, 0, 1], 4041)), None).unwrap();
        let ask = |headers: &[(&str, &str)]| status(&gate, &request("/api/header", &[], headers));
        assert_eq!(ask(&[("host", "127.0.0.1:4041")]), 200);
        assert_eq!(ask(&[("host", "localhost:4041"), ("origin", "http://localhost:4041")]), 200);
        assert_eq!(ask(&[("host", "evil.example:4041")]), 403);
        assert_eq!(ask(&[("host", "localhost:4041"), ("origin", "https://evil.example")]), 403);
        assert_eq!(ask(&[]), 403);
        assert!(Gate::new(SocketAddr::from(([0, 0, 0, 0], 4041)), None).is_err());
    }

    #[test]
    fn with_a_token_who_has_it_may() {
        let address = SocketAddr::from(([0, 0, 0, 0], 4041));
        let gate = Gate::new(address, Some("secret".into())).unwrap();
        let host = ("host", "profiles.example");
        let ask = |headers: &[(&str, &str)]| status(&gate, &request("/v1/push", &[], headers));
        assert_eq!(ask(&[host]), 401);
        assert_eq!(ask(&[host, ("authorization", "Bearer secret")]), 200);
        assert_eq!(ask(&[host, ("authorization", "Bearer other")]), 403);
        // `user:secret`, as senders of Pyroscope do it; and what is none.
        assert_eq!(ask(&[host, ("authorization", "Basic dXNlcjpzZWNyZXQ=")]), 200);
        assert_eq!(ask(&[host, ("authorization", "Basic dXNlcjpvdGhlcg==")]), 403);
        assert_eq!(ask(&[host, ("authorization", "Basic ?")]), 403);
        let Verdict::Answered(entered) = gate.check(&request("/", &[("token", "secret")], &[host]))
        else {
            unreachable!("a token is not a cookie");
        };
        let cookie = &entered.headers.iter().find(|(name, _)| *name == "Set-Cookie").unwrap().1;
        let cookie = cookie.split_once(';').unwrap().0;
        assert_eq!(ask(&[host, ("cookie", cookie)]), 200);
        assert_eq!(status(&gate, &request("/", &[("token", "secreT")], &[host])), 403);
    }
}
