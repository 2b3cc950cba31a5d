//! What is answered.

use std::io::{self, Write};

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// HTTP's number.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Bytes of some kind.
    #[must_use]
    pub fn of(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type, headers: Vec::new(), body: body.into() }
    }

    /// JSON.
    #[must_use]
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::of("application/json", body)
    }

    /// A line that says what went wrong.
    #[must_use]
    pub fn error(status: u16, text: &str) -> Self {
        let body = format!("{text}\n");
        Self { status, ..Self::of("text/plain; charset=utf-8", body) }
    }

    /// The same with another header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn write(&self, to: &mut impl Write, keeps_alive: bool) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\n",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len(),
            if keeps_alive { "keep-alive" } else { "close" },
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        // In one piece: two would wait for each other's acknowledgement.
        let mut all = head.into_bytes();
        all.extend_from_slice(&self.body);
        to.write_all(&all)?;
        to.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        _ => "Error",
    }
}
