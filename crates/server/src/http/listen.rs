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

/// How long a client that was refused may go on sending.
const LINGER: Duration = Duration::from_secs(2);

/// Who answers requests, from several threads.
pub trait Handler: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, request: &Request) -> Response;

    /// The answer to a request whose body is not worth being read, by its head: who may not come in
    /// would hold a place by sending slowly.
    fn refuses(&self, _head: &Request) -> Option<Response> {
        None
    }
}

/// What is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; those beyond are closed with 503.
    pub connections: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of all bodies that are held; those beyond are answered with 503.
    pub bodies: usize,
    /// How long a connection waits for the whole head of its next request.
    pub patience: Duration,
}

impl Limits {
    /// So many connections and bytes of a body, 16 of the largest bodies, and half a minute.
    #[must_use]
    pub const fn new(connections: usize, body: usize) -> Self {
        let bodies = body.saturating_mul(16);
        Self { connections, body, bodies, patience: Duration::from_secs(30) }
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
        let held = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else {
                thread::sleep(BREATH);
                continue;
            };
            let Some(place) = Place::take(&open, 1, self.limits.connections) else {
                refuse(&stream, 503, "too many connections; try again later");
                continue;
            };
            let (handler, limits, held) = (Arc::clone(handler), self.limits, Arc::clone(&held));
            let serve = move || {
                let _place = place;
                serve(&stream, &*handler, limits, &held);
            };
            // Without a thread the client sees its connection closed.
            let _ = thread::Builder::new().name("http".to_owned()).spawn(serve);
        }
    }
}

/// Places among the connections, or bytes of the bodies, until it is dropped.
struct Place {
    taken: Arc<AtomicUsize>,
    count: usize,
}

impl Place {
    /// `None` if more than `most` would be taken.
    fn take(taken: &Arc<AtomicUsize>, count: usize, most: usize) -> Option<Self> {
        let before = taken.fetch_add(count, Ordering::AcqRel);
        let place = Self { taken: Arc::clone(taken), count };
        (before.saturating_add(count) <= most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, Ordering::AcqRel);
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
fn serve(stream: &TcpStream, handler: &dyn Handler, limits: Limits, held: &Arc<AtomicUsize>) {
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
        if head.length > 0
            && let Ok(Some(answer)) =
                catch_unwind(AssertUnwindSafe(|| handler.refuses(&head.request)))
        {
            say_last(stream, &answer);
            return linger(stream);
        }
        let Some(_held) = Place::take(held, head.length, limits.bodies) else {
            return refuse(stream, 503, "too much is being sent at once; try again later");
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
    say_last(stream, &Response::error(status, why));
}

/// Answers, and hears no more.
fn say_last(stream: &TcpStream, answer: &Response) {
    let _ = stream.set_write_timeout(Some(SLOW));
    let _ = answer.write(&mut &*stream, false);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Takes what is under way: closed with something unread, a connection is reset, and its client may
/// not see the answer.
fn linger(stream: &TcpStream) {
    let until = Instant::now() + LINGER;
    // It ends by an error, if not before.
    let _ = io::copy(&mut Patient { stream, until }, &mut io::sink());
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;

    use super::*;

    struct Echo;

    impl Handler for Echo {
        fn answer(&self, request: &Request) -> Response {
            Response::of("text/plain", request.path.as_str())
        }

        fn refuses(&self, head: &Request) -> Option<Response> {
            (head.path == "/secret").then(|| Response::error(401, "who are you?"))
        }
    }

    fn started(limits: Limits) -> SocketAddr {
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), limits).unwrap();
        let address = server.address().unwrap();
        let handler: Arc<dyn Handler> = Arc::new(Echo);
        thread::spawn(move || server.run(&handler, &AtomicBool::new(false)));
        address
    }

    /// Asks to send a body of ten bytes, and gives the first line of the answer.
    fn asked(address: SocketAddr) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /a HTTP/1.1\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        (stream, line)
    }

    #[test]
    fn no_more_bodies_are_held_than_there_may_be() {
        let address = started(Limits { bodies: 25, ..Limits::new(9, 10) });
        let [(mut one, first), (_two, second), (_three, third)] = [(); 3].map(|()| asked(address));
        assert!(first.contains(" 100 ") && second.contains(" 100 "), "{first}{second}");
        assert!(third.contains(" 503 "), "{third}");
        one.write_all(b"0123456789").unwrap();
        let mut rest = String::new();
        let mut reader = BufReader::new(&one);
        while !rest.contains("200 OK") {
            assert!(reader.read_line(&mut rest).unwrap() > 0, "{rest}");
        }
        drop(one);
        // Once its answer has gone, there is room again; that takes a moment.
        let again = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(10));
            asked(address).1.contains(" 100 ")
        });
        assert!(again, "what was sent is held for ever");
    }

    #[test]
    fn a_stranger_is_told_before_his_body_is_read() {
        let address = started(Limits::new(4, 10));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"POST /secret HTTP/1.1\r\nContent-Length: 10\r\n\r\n0").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains(" 401 ") && text.contains("who are you?"), "{text}");
    }

    #[test]
    fn a_client_that_drips_is_left_and_others_are_answered() {
        let patience = Duration::from_millis(300);
        let address = started(Limits { patience, ..Limits::new(4, 10) });
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
