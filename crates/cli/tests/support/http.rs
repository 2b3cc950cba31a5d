//! Commands that answer over HTTP, and a client for them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.status, 200, "{} {}", self.head, self.text());
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A command that answers; killed when dropped.
pub struct Running {
    pub child: Child,
    /// As in `127.0.0.1:4711`.
    pub host: String,
    /// What it said on standard error up to its link's end.
    pub said: String,
}

impl Running {
    /// Starts it, and waits for the address that it tells.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut text = String::new();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        // A long line may be broken before the address.
        while !text.contains("http://") {
            assert!(err.read_line(&mut text).unwrap() > 0, "{text}");
        }
        let link = text.split("http://").nth(1).unwrap();
        let host = link.split('/').next().unwrap().to_owned();
        let said = text.clone();
        // Nobody reads further; what is said then must not stop it.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        Self { child, host, said }
    }

    pub fn get(&self, path: &str, headers: &str) -> Answer {
        ask(&self.host, "GET", path, headers, b"").unwrap()
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        let headers = format!("Host: {}\r\n", self.host);
        ask(&self.host, "POST", path, &headers, body).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own; `None` if the server went away.
pub fn ask(host: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(host).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {headers}\r\n"
    );
    // A server that refuses early does not read all of it.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head, body: bytes[end + 4..].to_vec() })
}
