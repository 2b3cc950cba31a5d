//! What a browser has to show before it is answered: a name of this machine in `Host`, and a cookie
//! that it got for a token.
//!
//! Names are checked so that no page of another site can have its own name point here and ask as if
//! it were ours. A token in an address stays in the browser's history; the cookie stands in its
//! place.

use std::io;
use std::net::SocketAddr;

use crate::guard::{equal, random};
use crate::http::{Request, Response};

/// What is said to a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is answered.
    Passed,
    /// This is the answer.
    Answered(Box<Response>),
}

impl Verdict {
    pub(crate) fn refused(status: u16, text: &str) -> Self {
        Self::Answered(Box::new(Response::error(status, text)))
    }
}

/// The door of a server at an address.
#[derive(Debug)]
pub(crate) struct Door {
    address: SocketAddr,
    /// Cookies are of a host and not of a port: two servers must not share one.
    cookie: String,
    secret: String,
}

impl Door {
    /// A door with a secret of its own.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { address, cookie: format!("corprof-{}", address.port()), secret: random()? })
    }

    /// Whether a request is for a name of this machine, and not from a page of another site.
    pub(crate) fn is_of_this_machine(&self, request: &Request) -> bool {
        let is_ours = |host: &str| {
            let mut names = ["127.0.0.1", "localhost", "[::1]"].into_iter();
            host == self.address.to_string()
                || names.any(|name| host == format!("{name}:{}", self.address.port()))
        };
        let origin = request.header("origin");
        request.header("host").is_some_and(is_ours)
            && origin.is_none_or(|origin| origin.strip_prefix("http://").is_some_and(is_ours))
    }

    /// Whether it has the cookie.
    pub(crate) fn has_cookie(&self, request: &Request) -> bool {
        request.cookie(&self.cookie).is_some_and(|secret| equal(secret, &self.secret))
    }

    /// Gives the cookie, and leads to the page. The browser keeps what stands after `#`.
    pub(crate) fn enter(&self) -> Verdict {
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.secret);
        let response = Response { status: 303, ..Response::of("text/plain", "") };
        Verdict::Answered(Box::new(response.with("Location", "/").with("Set-Cookie", cookie)))
    }
}

/// Requests for the tests of who may ask.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::http::Method;

    pub(crate) fn request(path: &str, query: &[(&str, &str)], headers: &[(&str, &str)]) -> Request {
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

    pub(crate) fn status(verdict: &Verdict) -> u16 {
        match verdict {
            Verdict::Passed => 200,
            Verdict::Answered(response) => response.status,
        }
    }

    /// The cookie that an answer gives.
    pub(crate) fn cookie(entered: &Verdict) -> String {
        let Verdict::Answered(entered) = entered else { unreachable!("a token is not a cookie") };
        assert_eq!(entered.status, 303);
        let cookie = &entered.headers.iter().find(|(name, _)| *name == "Set-Cookie").unwrap().1;
        cookie.split_once(';').unwrap().0.to_owned()
    }
}
