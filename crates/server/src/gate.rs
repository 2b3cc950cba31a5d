//! Who may push and ask, where a server stays for long: everybody on this machine, if nobody else
//! can reach it; else whoever has the token.

use std::io;
use std::net::SocketAddr;

use crate::door::{Door, Verdict};
use crate::guard::equal;
use crate::http::{Request, Response};

/// Keeps a server's door.
#[derive(Debug)]
pub struct Gate {
    token: Option<String>,
    door: Door,
}

impl Gate {
    /// For a server at that address, which takes a token unless it is one of this machine alone.
    ///
    /// # Errors
    /// If there has to be one and is none ([`io::ErrorKind::PermissionDenied`]), or the system
    /// gives no random numbers.
    pub fn new(address: SocketAddr, token: Option<String>) -> io::Result<Self> {
        if token.is_none() && !address.ip().is_loopback() {
            let why = "others can reach this address, so it takes a token";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { token, door: Door::new(address)? })
    }

    /// Decides about a request.
    #[must_use]
    pub fn check(&self, request: &Request) -> Verdict {
        let Some(token) = &self.token else {
            if self.door.is_of_this_machine(request) {
                return Verdict::Passed;
            }
            let text = "without a token only this machine is answered, by its own names: ask \
                        127.0.0.1 or localhost, or start corprof serve with a token";
            return Verdict::refused(403, text);
        };
        let wrong = || Verdict::refused(403, "the token is wrong; see CORPROF_SERVE_TOKEN there");
        if let Some(given) = request.part("token").filter(|_| request.path == "/") {
            return if equal(given, token) { self.door.enter() } else { wrong() };
        }
        match request.header("authorization").map(given) {
            Some(Some(given)) if equal(&given, token) => Verdict::Passed,
            Some(_) => wrong(),
            None if self.door.has_cookie(request) => Verdict::Passed,
            None => {
                let text = "the token is missing: send Authorization: Bearer TOKEN, or open \
                            /?token=TOKEN";
                let response = Response::error(401, text).with("WWW-Authenticate", "Bearer");
                Verdict::Answered(Box::new(response))
            }
        }
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
    use crate::door::tests::{cookie, request, status};

    #[test]
    fn without_a_token_this_machine_may_ask_by_its_own_names() {
        let gate = Gate::new(SocketAddr::from(([127, 0, 0, 1], 4041)), None).unwrap();
        let ask = |headers: &[_]| status(&gate.check(&request("/api/header", &[], headers)));
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
        let ask = |headers: &[_]| status(&gate.check(&request("/v1/push", &[], headers)));
        assert_eq!(ask(&[host]), 401);
        assert_eq!(ask(&[host, ("authorization", "Bearer secret")]), 200);
        assert_eq!(ask(&[host, ("authorization", "Bearer other")]), 403);
        // `user:secret`, as senders of Pyroscope do it; and what is none.
        assert_eq!(ask(&[host, ("authorization", "Basic dXNlcjpzZWNyZXQ=")]), 200);
        assert_eq!(ask(&[host, ("authorization", "Basic dXNlcjpvdGhlcg==")]), 403);
        assert_eq!(ask(&[host, ("authorization", "Basic ?")]), 403);
        let open = |token| gate.check(&request("/", &[("token", token)], &[host]));
        let cookie = cookie(&open("secret"));
        assert_eq!(ask(&[host, ("cookie", &cookie)]), 200);
        assert_eq!(status(&open("secreT")), 403);
    }
}
