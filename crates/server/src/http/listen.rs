//! Connections: a thread each, no more than so many, none for longer than it is of use.

use std::io::{self, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::request::{Head, Refused, Request};
use super::response::Response;

/// How long a client may take to send a body.
const BODY: Duration = Duration::from_secs(60);
/// How long it may take nothing of what it is sent.
const SLOW: Duration = Duration::from_secs(10);
/// Pause after an error of accepting, such as one of too many open files.
const BREATH: Duration = Duration::from_millis(50);

/// Who answers requests, from several threads.
pub trait Handler: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, request: &Request) -> Response;
}

/// What is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; those beyond are closed with 503.
    pub connections: usize,
    /// Bytes of a body.
    pub body: usize,
    /// How long a connection waits for the whole head of its next request.
    pub patience: Duration,
}

impl Limits {
    /// So many connections and bytes, and half a minute.
    #[must_use]
    pub const fn new(connections: usize, body: usize) -> Self {
        Self { connections, body, patience: Duration::from_secs(30) }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
}

impl Server {
    /// Listens at an address; with port 0 at one that is free.
    ///
    /// # Errors
    /// That of the system.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, limits })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// That of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`, which is looked at with each connection.
    pub fn run(&self, handler: &Arc<dyn Handler>, stop: &AtomicBool) {
        let open = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else {
                thread::sleep(BREATH);
                continue;
            };
            let place = Place::take(&open);
            if open.load(Ordering::Acquire) > self.limits.connections {
                refuse(&stream, 503, "too many connections; try again later");
                continue;
            }
            let (handler, limits) = (Arc::clone(handler), self.limits);
            let serve = move || {
                let _place = place;
                serve(&stream, &*handler, limits);
            };
            // Without a thread the client sees its connection closed.
            let _ = thread::Builder::new().name("http".to_owned()).spawn(serve);
        }
    }
}

/// A place among the connections, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a client sends, up to some time: one that drips would otherwise stay for ever.
struct Patient<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Patient<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(to)
    }
}

/// Answers a connection's requests, one after the other.
fn serve(stream: &TcpStream, handler: &dyn Handler, limits: Limits) {
    let _ = stream.set_nodelay(true);
    let _ = stream.set_write_timeout(Some(SLOW));
    let mut reader = BufReader::new(Patient { stream, until: Instant::now() });
    loop {
        reader.get_mut().until = Instant::now() + limits.patience;
        let head = match Head::read(&mut reader, limits.body) {
            Ok(Some(head)) => head,
            Ok(None) | Err(Refused::Gone) => return,
            Err(Refused::With(status, why)) => return refuse(stream, status, why),
        };
        reader.get_mut().until = Instant::now() + BODY;
        if head.expects && (&*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            return;
        }
        let Ok(request) = head.body(&mut reader) else { return };
        // Whatever one request does, others are answered.
        let answer = catch_unwind(AssertUnwindSafe(|| handler.answer(&request)));
        let answer = answer
            .unwrap_or_else(|_| Response::error(500, "a fault of corprof's own; please report it"));
        if answer.write(&mut &*stream, request.keeps_alive).is_err() || !request.keeps_alive {
            return;
        }
    }
}

fn refuse(stream: &TcpStream, status: u16, why: &str) {
    let _ = stream.set_write_timeout(Some(SLOW));
    let _ = Response::error(status, why).write(&mut &*stream, false);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Handler for Echo {
        fn answer(&self, request: &Request) -> Response {
            Response::of("text/plain", request.path.as_str())
        }
    }

    #[test]
    fn a_client_that_drips_is_left_and_others_are_answered() {
        let patience = Duration::from_millis(300);
        let limits = Limits { patience, ..Limits::new(4, 10) };
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), limits).unwrap();
        let address = server.address().unwrap();
        let handler: Arc<dyn Handler> = Arc::new(Echo);
        thread::spawn(move || server.run(&handler, &AtomicBool::new(false)));
        let mut dripping = TcpStream::connect(address).unwrap();
        dripping.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // A byte at a time, until nobody listens any more.
        let begin = Instant::now();
        let mut answer = [0; 1];
        while dripping.write_all(b"G").is_ok() && !matches!(dripping.read(&mut answer), Ok(0)) {
            assert!(begin.elapsed() < Duration::from_secs(60), "it is waited for");
        }
        let mut other = TcpStream::connect(address).unwrap();
        // Two requests on one connection.
        for path in ["/a", "/b"] {
            write!(other, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
            let mut text = Vec::new();
            while !text.ends_with(path.as_bytes()) {
                let mut byte = [0; 1];
                other.read_exact(&mut byte).unwrap();
                text.extend(byte);
            }
        }
    }
}
