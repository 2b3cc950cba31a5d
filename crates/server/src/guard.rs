//! Who may ask: whoever opened the link once, from a page of this server itself.
//!
//! The link has a token that is good for one use. It is turned into a cookie, so that it stays
//! neither in the history nor in what is copied. Names in `Host` are checked, so that no page of
//! another site can have its own name point here and ask as if it were ours.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::http::{Request, Response};

/// Guards a server on the loopback interface.
#[derive(Debug)]
pub struct Guard {
    address: SocketAddr,
    token: String,
    is_used: AtomicBool,
    cookie: String,
    secret: String,
}

/// What the guard says to a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is answered.
    Passed,
    /// This is the answer.
    Answered(Box<Response>),
}

impl Guard {
    /// A guard with a token and a secret of its own.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            address,
            token: random()?,
            is_used: AtomicBool::new(false),
            // Cookies are of a host and not of a port: two viewers must not share one.
            cookie: format!("corprof-{}", address.port()),
            secret: random()?,
        })
    }

    /// The link that opens the page, once.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// Decides about a request.
    pub fn check(&self, request: &Request) -> Verdict {
        let refuse = |text: &str| Verdict::Answered(Box::new(Response::error(403, text)));
        if !request.header("host").is_some_and(|host| self.is_ours(host)) {
            return refuse("this is not a name of this server");
        }
        if request.header("origin").is_some_and(|origin| !self.is_own_origin(origin)) {
            return refuse("pages of others may not ask here");
        }
        if let Some(token) = request.part("token").filter(|_| request.path == "/") {
            return self.enter(token).unwrap_or_else(|| {
                refuse(
                    "This link was used already, or it is of another server. Start corprof view \
                     anew for another link; a window that is open stays usable.",
                )
            });
        }
        if request.cookie(&self.cookie).is_some_and(|secret| equal(secret, &self.secret)) {
            return Verdict::Passed;
        }
        refuse("Open the link that corprof view printed.")
    }

    fn enter(&self, token: &str) -> Option<Verdict> {
        if !equal(token, &self.token) || self.is_used.swap(true, Ordering::AcqRel) {
            return None;
        }
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.secret);
        // The browser keeps what stands after #.
        let response = Response { status: 303, ..Response::of("text/plain", "") };
        Some(Verdict::Answered(Box::new(response.with("Location", "/").with("Set-Cookie", cookie))))
    }

    fn is_ours(&self, host: &str) -> bool {
        let port = self.address.port();
        host == self.address.to_string() || host == format!("localhost:{port}")
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_ours(host))
    }
}

/// Compares secrets in a time that does not depend on where they differ.
#[must_use]
pub fn equal(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differing == 0
}

/// 32 random hexadecimal digits.
///
/// # Errors
/// If the system gives no random numbers.
pub fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;

    fn request(path: &str, token: Option<&str>, headers: &[(&str, &str)]) -> Request {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Request {
            method: Method::Get,
            path: path.to_owned(),
            query: token.iter().map(|token| ("token".to_owned(), (*token).to_owned())).collect(),
            headers: headers.iter().map(owned).collect(),
            body: Vec::new(),
            keeps_alive: true,
        }
    }

    fn status(guard: &Guard, request: &Request) -> u16 {
        match guard.check(request) {
            Verdict::Passed => 200,
            Verdict::Answered(response) => response.status,
        }
    }

    #[test]
    fn a_link_is_good_once_and_then_the_cookie_is() {
        let guard = Guard::new(SocketAddr::from(([127, 0, 0, 1], 4321))).unwrap();
        let host = ("host", "127.0.0.1:4321");
        let token = guard.link().split_once("token=").unwrap().1.to_owned();
        assert_eq!(status(&guard, &request("/", None, &[host])), 403);
        assert_eq!(status(&guard, &request("/", Some("0123"), &[host])), 403);
        let Verdict::Answered(entered) = guard.check(&request("/", Some(&token), &[host])) else {
            unreachable!("a token is not a cookie");
        };
        assert_eq!(entered.status, 303);
        let cookie = &entered.headers.iter().find(|(name, _)| *name == "Set-Cookie").unwrap().1;
        let cookie = cookie.split_once(';').unwrap().0;
        assert_eq!(status(&guard, &request("/", Some(&token), &[host])), 403, "a second time");
        let with = |headers: &[(&str, &str)]| request("/api/flame", None, headers);
        assert_eq!(status(&guard, &with(&[host, ("cookie", cookie)])), 200);
        assert_eq!(status(&guard, &with(&[host, ("cookie", "corprof-4321=0")])), 403);
        // A name of somebody else that leads here, and a page of somebody else.
        for other in ["evil.example:4321", "127.0.0.1", "localhost:4322", ""] {
            assert_eq!(status(&guard, &with(&[("host", other), ("cookie", cookie)])), 403);
        }
        assert_eq!(status(&guard, &with(&[("cookie", cookie)])), 403);
        let origin = ("origin", "http://evil.example");
        assert_eq!(status(&guard, &with(&[host, origin, ("cookie", cookie)])), 403);
        let origin = ("origin", "http://localhost:4321");
        assert_eq!(status(&guard, &with(&[host, origin, ("cookie", cookie)])), 200);
    }
}
