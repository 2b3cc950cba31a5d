//! Who may ask the viewer: whoever opened the link once, from a page of this server itself. The
//! link has a token that is good for one use.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::door::{Door, Verdict};
use crate::http::Request;

/// Guards a server on the loopback interface.
#[derive(Debug)]
pub struct Guard {
    address: SocketAddr,
    token: String,
    is_used: AtomicBool,
    door: Door,
}

impl Guard {
    /// A guard with a token of its own.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let (token, door) = (random()?, Door::new(address)?);
        Ok(Self { address, token, is_used: AtomicBool::new(false), door })
    }

    /// The link that opens the page, once.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// Decides about a request.
    pub fn check(&self, request: &Request) -> Verdict {
        if !self.door.is_of_this_machine(request) {
            let text = "This is asked by another name than this server's, or by a page of another \
                        site. Open the link that corprof view printed.";
            return Verdict::refused(403, text);
        }
        if let Some(token) = request.part("token").filter(|_| request.path == "/") {
            if equal(token, &self.token) && !self.is_used.swap(true, Ordering::AcqRel) {
                return self.door.enter();
            }
            let text = "This link was used already, or it is of another server. Start corprof view \
                        anew for another link; a window that is open stays usable.";
            return Verdict::refused(403, text);
        }
        if self.door.has_cookie(request) {
            return Verdict::Passed;
        }
        Verdict::refused(
            403,
            "This browser has not opened the link that corprof view printed: open it.",
        )
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
    getrandom::getrandom(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::tests::{cookie, request, status};

    #[test]
    fn a_link_is_good_once_and_then_the_cookie_is() {
        let guard = Guard::new(SocketAddr::from(([127, 0, 0, 1], 4321))).unwrap();
        let host = ("host", "127.0.0.1:4321");
        let token = guard.link().split_once("token=").unwrap().1.to_owned();
        let open = |token: &str| guard.check(&request("/", &[("token", token)], &[host]));
        assert_eq!(status(&guard.check(&request("/", &[], &[host]))), 403);
        assert_eq!(status(&open("0123")), 403);
        let cookie = cookie(&open(&token));
        assert_eq!(status(&open(&token)), 403, "a second time");
        let with = |headers: &[_]| status(&guard.check(&request("/api/flame", &[], headers)));
        let cookie = ("cookie", cookie.as_str());
        assert_eq!(with(&[host, cookie]), 200);
        assert_eq!(with(&[host, ("cookie", "corprof-4321=0")]), 403);
        // A name of somebody else that leads here, and a page of somebody else.
        for other in ["evil.example:4321", "127.0.0.1", "localhost:4322", ""] {
            assert_eq!(with(&[("host", other), cookie]), 403);
        }
        assert_eq!(with(&[cookie]), 403);
        assert_eq!(with(&[host, ("origin", "http://evil.example"), cookie]), 403);
        assert_eq!(with(&[host, ("origin", "http://localhost:4321"), cookie]), 200);
    }
}
