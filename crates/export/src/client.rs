//! The HTTP client: one request a connection, and an end to everything.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use config::{ExportConfig, Secret};

use crate::address::{Address, BadAddress, Scheme};
use crate::deadline::{Cut, Deadline};
use crate::fault::{Fault, Stage};
use crate::proxy::Proxies;
use crate::request::{Answer, Post, Request};
use crate::socket::Socket;
use crate::tls::{Encrypted, Trust};
use crate::{answer, base64};

/// Sends requests over the network.
#[derive(Debug)]
pub struct Client {
    proxies: Proxies,
    trust: Trust,
    cut: Cut,
}

/// A connection to whom a request goes.
enum Connection {
    Plain(Socket),
    Encrypted(Box<Encrypted>),
}

impl Client {
    /// A client that has connected to nobody. `cut` ends what it does early.
    ///
    /// # Errors
    /// The option whose address is none, and why.
    pub fn new(config: &ExportConfig, cut: Cut) -> Result<Self, (&'static str, BadAddress)> {
        let proxies = Proxies::new(config)?;
        Ok(Self { proxies, trust: Trust::new(config.ca_file.clone()), cut })
    }

    fn connect(&mut self, address: &Address, deadline: &Deadline) -> Result<Connection, Fault> {
        let proxy = self.proxies.on_the_way_to(address).cloned();
        let mut socket = Socket::connect(proxy.as_ref().unwrap_or(address), deadline)?;
        if address.scheme != Scheme::Https {
            return Ok(Connection::Plain(socket));
        }
        if let Some(proxy) = proxy {
            tunnel(&mut socket, &proxy, address)?;
        }
        Ok(Connection::Encrypted(self.trust.encrypt(&address.host, socket)?))
    }
}

impl Post for Client {
    fn post(&mut self, request: &Request, limit: Duration) -> Result<Answer, Fault> {
        let begin = Instant::now();
        let deadline = Deadline::after(limit, &self.cut);
        let answer = self.attempt(request, &deadline);
        // Whoever ends the process may have ended it earlier.
        answer.map_err(|fault| if begin.elapsed() < limit { fault } else { fault.within(limit) })
    }
}

impl Client {
    fn attempt(&mut self, request: &Request, deadline: &Deadline) -> Result<Answer, Fault> {
        let mut connection = self.connect(&request.address, deadline)?;
        // Only in the clear the proxy has to be told where to; else it sees nothing.
        let proxy = match connection {
            Connection::Plain(_) => self.proxies.on_the_way_to(&request.address),
            Connection::Encrypted(_) => None,
        };
        let head = head(request, proxy);
        match &mut connection {
            Connection::Plain(socket) => exchange(socket, &head, &request.body),
            Connection::Encrypted(stream) => exchange(stream.as_mut(), &head, &request.body),
        }
    }
}

/// Sends, and reads the answer. Who refuses may do so before all is sent, and hang up: then the
/// answer says why, and not the error.
fn exchange(stream: &mut (impl Read + Write), head: &str, body: &[u8]) -> Result<Answer, Fault> {
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let sent = sent.and_then(|()| stream.flush());
    match (sent, answer::read(stream)) {
        (_, Ok(answer)) => Ok(answer),
        (Err(error), Err(_)) => Err(Fault::of(Stage::Sending, &error)),
        (Ok(()), Err(fault)) => Err(fault),
    }
}

/// The head of a request.
fn head(request: &Request, proxy: Option<&Address>) -> String {
    let address = &request.address;
    let target = match proxy {
        Some(_) => format!("http://{}{}", address.authority(), address.path),
        None => address.path.clone(),
    };
    let mut head = format!(
        "POST {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: corprof/{}\r\nContent-Length: {}\r\n\
         Connection: close\r\n",
        address.authority(),
        env!("CARGO_PKG_VERSION"),
        request.body.len(),
    );
    let has_own =
        request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if !has_own && let Some(value) = basic(&address.user) {
        add(&mut head, "Authorization", &value);
    }
    if let Some(value) = proxy.and_then(|proxy| basic(&proxy.user)) {
        add(&mut head, "Proxy-Authorization", &value);
    }
    for (name, value) in &request.headers {
        add(&mut head, name, value.reveal());
    }
    head.push_str("\r\n");
    head
}

/// Adds a header; what would end it early is left out.
fn add(head: &mut String, name: &str, value: &str) {
    let fits = |c: &char| !c.is_control();
    let is_name = |c: &char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c);
    head.extend(name.chars().filter(is_name));
    head.push_str(": ");
    head.extend(value.chars().filter(fits));
    head.push_str("\r\n");
}

/// Basic authentication; `None` if there is no user.
pub(crate) fn basic(user: &Secret) -> Option<String> {
    let user = user.reveal();
    (!user.is_empty()).then(|| format!("Basic {}", base64::encode(user.as_bytes())))
}

/// Has a proxy connect to where the request goes.
fn tunnel(socket: &mut Socket, proxy: &Address, to: &Address) -> Result<(), Fault> {
    let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
    let to = format!("{host}:{}", to.port);
    let mut head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some(value) = basic(&proxy.user) {
        add(&mut head, "Proxy-Authorization", &value);
    }
    head.push_str("\r\n");
    let sent = socket.write_all(head.as_bytes());
    sent.map_err(|error| Fault::of(Stage::Proxy, &error))?;
    match answer::read_head(socket)? {
        200..300 => Ok(()),
        status => Err(Fault::Proxy(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_header_begins_another_one() {
        let request = Request {
            address: Address::parse("http://u:p@host:81/a?b").expect("an address"),
            headers: vec![("X-Ä\r\nY".into(), Secret::new("1\r\nInjected: 2".into()))],
            body: vec![1, 2, 3].into(),
        };
        let direct = head(&request, None);
        assert!(direct.starts_with("POST /a?b HTTP/1.1\r\nHost: host:81\r\n"), "{direct}");
        assert!(direct.ends_with("\r\nX-Y: 1Injected: 2\r\n\r\n"), "{direct}");
        assert!(direct.contains("\r\nContent-Length: 3\r\n"));
        assert!(direct.contains("\r\nAuthorization: Basic dTpw\r\n"));
        let proxy = Address::parse("http://q:r@proxy").expect("an address");
        let over_proxy = head(&request, Some(&proxy));
        assert!(over_proxy.starts_with("POST http://host:81/a?b HTTP/1.1\r\n"), "{over_proxy}");
        assert!(over_proxy.contains("\r\nProxy-Authorization: Basic cTpy\r\n"));
    }

    #[test]
    fn an_own_authorization_counts_more_than_the_addresss() {
        let request = Request {
            address: Address::parse("http://u:p@host").expect("an address"),
            headers: vec![("authorization".into(), Secret::new("Bearer x".into()))],
            body: Vec::new().into(),
        };
        assert_eq!(head(&request, None).to_lowercase().matches("authorization").count(), 1);
    }
}
