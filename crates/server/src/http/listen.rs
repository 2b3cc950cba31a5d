//! Connections: a thread each, no more than so many, none for longer than it is of use.

use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::request::{Head, Refused, Request};
use super::response::Response;

/// How long a connection waits for its next request.
const IDLE: Duration = Duration::from_secs(30);
/// How long a client may take for a part of what it sends or takes.
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
            let (handler, body_max) = (Arc::clone(handler), self.limits.body);
            let serve = move || {
                let _place = place;
                serve(&stream, &*handler, body_max);
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

/// Answers a connection's requests, one after the other.
fn serve(stream: &TcpStream, handler: &dyn Handler, body_max: usize) {
    let _ = stream.set_nodelay(true);
    let _ = stream.set_write_timeout(Some(SLOW));
    let mut reader = BufReader::new(stream);
    loop {
        let _ = stream.set_read_timeout(Some(IDLE));
        let head = match Head::read(&mut reader, body_max) {
            Ok(Some(head)) => head,
            Ok(None) | Err(Refused::Gone) => return,
            Err(Refused::With(status, why)) => return refuse(stream, status, why),
        };
        let _ = stream.set_read_timeout(Some(SLOW));
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
