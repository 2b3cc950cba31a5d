//! What a client asks.

use std::io::{self, BufRead, Read};

/// Bytes of a request's first line and headers.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Show something.
    Get,
    /// Take something.
    Post,
}

/// A request, read whole.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// Without the query, as it was sent.
    pub path: String,
    /// Names and values, decoded.
    pub query: Vec<(String, String)>,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    /// As it was sent.
    pub body: Vec<u8>,
    /// Whether another request may follow.
    pub keeps_alive: bool,
}

/// Why a request is not read.
#[derive(Debug)]
pub enum Refused {
    /// The client has gone, or takes too long.
    Gone,
    /// There is no room for its body.
    TooMuch,
    /// What to answer: status and reason.
    With(u16, &'static str),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::QuotaExceeded => Self::TooMuch,
            _ => Self::Gone,
        }
    }
}

/// The head of a request, before its body.
#[derive(Debug)]
pub(super) struct Head {
    /// The request, still without its body.
    pub(super) request: Request,
    /// Bytes of the body.
    pub(super) length: usize,
    /// Whether the client waits for a word before it sends the body.
    pub(super) expects: bool,
}

impl Request {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The value of a part of the query.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The value of a cookie.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';');
        cookies
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }
}

impl Head {
    /// Reads a head; `None` if the client has nothing more to ask.
    pub(super) fn read(from: &mut impl BufRead, body_max: usize) -> Result<Option<Self>, Refused> {
        let mut bytes = Vec::new();
        let mut limited = from.take(HEAD_BYTES_MAX as u64 + 1);
        loop {
            let begin = bytes.len();
            if limited.read_until(b'\n', &mut bytes)? == 0 {
                return if bytes.is_empty() { Ok(None) } else { Err(Refused::Gone) };
            }
            if bytes.len() > HEAD_BYTES_MAX {
                return Err(Refused::With(431, "the head of the request is too long"));
            }
            if matches!(bytes.get(begin..), Some(b"\r\n" | b"\n")) {
                break;
            }
        }
        Self::parse(&bytes, body_max).map(Some)
    }

    fn parse(bytes: &[u8], body_max: usize) -> Result<Self, Refused> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(bytes) {
            Ok(status) if status.is_complete() => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refused::With(431, "the request has too many headers"));
            }
            _ => return Err(Refused::With(400, "this is no HTTP request")),
        }
        let method = match parsed.method {
            Some("GET") => Method::Get,
            Some("POST" | "PUT") => Method::Post,
            _ => return Err(Refused::With(405, "only GET and POST are known")),
        };
        let target = parsed.path.unwrap_or("/");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers: Vec<(String, String)> = parsed
            .headers
            .iter()
            .map(|header| {
                let value = String::from_utf8_lossy(header.value).trim().to_owned();
                (header.name.to_ascii_lowercase(), value)
            })
            .collect();
        let request = Request {
            method,
            path: path.to_owned(),
            query: pairs(query),
            headers,
            body: Vec::new(),
            keeps_alive: parsed.version == Some(1),
        };
        Self::with_length(request, body_max)
    }

    fn with_length(mut request: Request, body_max: usize) -> Result<Self, Refused> {
        if request.header("transfer-encoding").is_some() {
            return Err(Refused::With(411, "a body needs a Content-Length"));
        }
        let mut lengths =
            request.headers.iter().filter(|(name, _)| name == "content-length").map(|(_, v)| v);
        let length = match (lengths.next(), lengths.next()) {
            (None, _) => 0,
            (Some(text), None) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map_err(|_| Refused::With(413, "the body is too large"))?
            }
            _ => return Err(Refused::With(400, "Content-Length is no number")),
        };
        if length > body_max {
            return Err(Refused::With(413, "the body is too large"));
        }
        let closes = request.header("connection").is_some_and(|c| c.eq_ignore_ascii_case("close"));
        request.keeps_alive &= !closes;
        let expects =
            request.header("expect").is_some_and(|e| e.eq_ignore_ascii_case("100-continue"));
        Ok(Self { request, length, expects })
    }

    /// Reads the body.
    pub(super) fn body(mut self, from: &mut impl Read) -> Result<Request, Refused> {
        // Not more is taken from the allocator than is there.
        from.take(self.length as u64).read_to_end(&mut self.request.body)?;
        if self.request.body.len() < self.length {
            return Err(Refused::Gone);
        }
        Ok(self.request)
    }
}

/// The parts of a query, decoded.
fn pairs(query: &str) -> Vec<(String, String)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    };
    parts.map(pair).collect()
}

/// Text with `%41` and `+` written out; what makes no sense stays.
fn decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let code = match byte {
            b'+' => {
                plain.push(b' ');
                continue;
            }
            b'%' => digit(bytes.get(at)).zip(digit(bytes.get(at + 1))),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                plain.push((high * 16 + low) as u8);
                at += 2;
            }
            None => plain.push(*byte),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Request>, Refused> {
        let mut from = text.as_bytes();
        match Head::read(&mut from, 10)? {
            Some(head) => head.body(&mut from).map(Some),
            None => Ok(None),
        }
    }

    #[test]
    fn requests_are_read() {
        let text = "POST /a/b?name=GET%20%2Fx+y&flag&bad=%zz HTTP/1.1\r\nHost: h:1\r\n\
                    Cookie: a=1; corprof=s\r\nContent-Length: 3\r\n\r\nabcd";
        let request = read(text).unwrap().unwrap();
        assert_eq!((request.method, request.path.as_str()), (Method::Post, "/a/b"));
        let parts = ["name", "flag", "bad", "none"].map(|name| request.part(name));
        assert_eq!(parts, [Some("GET /x y"), Some(""), Some("%zz"), None]);
        assert_eq!((request.header("host"), request.cookie("corprof")), (Some("h:1"), Some("s")));
        assert_eq!((request.body.as_slice(), request.keeps_alive), (b"abc".as_slice(), true));
        let old = read("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert!(!old.keeps_alive);
        assert!(read("").unwrap().is_none());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(HEAD_BYTES_MAX));
        let refused = |text: &str| match read(text) {
            Err(Refused::With(status, _)) => status,
            _ => 0,
        };
        assert_eq!(refused("nonsense\r\n\r\n"), 400);
        assert_eq!(refused(&long), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(refused(&many), 431);
        assert_eq!(refused("DELETE / HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(refused("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n"), 413);
        assert_eq!(refused("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
        let two = "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!(refused(two), 400);
        assert_eq!(refused("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
        assert!(matches!(read("GET / HT"), Err(Refused::Gone)));
        let short = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab";
        assert!(matches!(read(short), Err(Refused::Gone)));
    }
}
