//! Connections: a thread each, no more than so many, none for longer than it is of use.
//!
//! Whoever is slow is left in the end: with its head soon, with a body and an answer after a while.
//! And where there is no place for one more, the one goes that is waited for longest, so that many
//! who are slow keep nobody out.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::connections::{Connection, Connections};
use super::request::{Head, Refused, Request};
use super::response::Response;

/// How long a client may take to send a body.
const BODY: Duration = Duration::from_secs(60);
/// The least of it that has to arrive in each stretch of [`Limits::pace`], in bytes, once there are
/// so many: by the default some 17 KiB in a second. What is smaller has the whole time: an agent
/// may be behind a thin line, and its profile of a minute is smaller.
const PACE_BYTES: usize = 256 << 10;
/// How long it may take to take an answer, some tens of megabytes over a thin line.
const ANSWER: Duration = Duration::from_secs(300);
/// How long it may take nothing of it.
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
    /// Connections at once. For one more another goes that is waited for; if all are at work, it
    /// is answered with 503.
    pub connections: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of all bodies that are held, as far as they have arrived; those beyond are answered
    /// with 503.
    pub bodies: usize,
    /// In what time a body that is not whole, and has [`PACE_BYTES`] already, has to go on by as
    /// many: one that drips would hold what it has sent for long.
    pub pace: Duration,
    /// How long a client may take to send the whole head of a request.
    pub head: Duration,
    /// How long a connection may be idle between two requests.
    pub idle: Duration,
    /// How long a client that sends a body, or takes an answer, is not sent away for another.
    pub undisturbed: Duration,
}

impl Limits {
    /// So many connections and bytes of a body, 16 of the largest bodies; five seconds for a head,
    /// and half a minute between two.
    #[must_use]
    pub const fn new(connections: usize, body: usize) -> Self {
        Self {
            connections,
            body,
            bodies: body.saturating_mul(16),
            pace: Duration::from_secs(15),
            head: Duration::from_secs(5),
            idle: Duration::from_secs(30),
            undisturbed: Duration::from_secs(5),
        }
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
        let connections = Connections::new(self.limits.connections);
        let held = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else {
                thread::sleep(BREATH);
                continue;
            };
            let connection = match connections.admit(stream) {
                Ok(connection) => connection,
                Err(stream) => {
                    say_last(
                        &stream,
                        &Response::error(503, "too many connections; try again later"),
                    );
                    continue;
                }
            };
            let (handler, limits, held) = (Arc::clone(handler), self.limits, Arc::clone(&held));
            let serve = move || Serving { connection: &connection, limits, held }.serve(&*handler);
            // Without a thread the client sees its connection closed.
            let _ = thread::Builder::new().name("http".to_owned()).spawn(serve);
        }
    }
}

/// The bytes of one body, until it is dropped: so many as have arrived, since whoever announces
/// much and sends nothing must take no room from others.
struct Held {
    /// Those of all bodies.
    all: Arc<AtomicUsize>,
    most: usize,
    count: usize,
}

impl Held {
    /// `None` if so many would be too many, with what has arrived of others.
    fn room_for(all: &Arc<AtomicUsize>, count: usize, most: usize) -> Option<Self> {
        let has_room = all.load(Ordering::Acquire).saturating_add(count) <= most;
        has_room.then(|| Self { all: Arc::clone(all), most, count: 0 })
    }

    /// Whether there was room for so many more.
    fn grow(&mut self, count: usize) -> bool {
        let before = self.all.fetch_add(count, Ordering::AcqRel);
        self.count = self.count.saturating_add(count);
        before.saturating_add(count) <= self.most
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::AcqRel);
    }
}

/// By when a body has to go on.
#[derive(Debug)]
struct Pace {
    /// How long it may take for [`PACE_BYTES`].
    stretch: Duration,
    /// By when the whole of it has to be there.
    end: Instant,
    /// What has still to come of a stretch's bytes.
    left: usize,
}

impl Pace {
    fn new(now: Instant, stretch: Duration) -> Self {
        Self { stretch, end: now + BODY, left: PACE_BYTES }
    }

    /// So much has come: until when the next is waited for, if that is another time than before.
    fn came(&mut self, count: usize, now: Instant) -> Option<Instant> {
        self.left = self.left.saturating_sub(count);
        if self.left > 0 {
            return None;
        }
        self.left = PACE_BYTES;
        Some(self.end.min(now + self.stretch))
    }
}

/// A body as it arrives.
struct Arriving<'a, 'b> {
    from: &'a mut BufReader<Patient<'b>>,
    held: &'a mut Held,
    pace: Pace,
}

impl Read for Arriving<'_, '_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(to)?;
        if !self.held.grow(count) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if let Some(until) = self.pace.came(count, Instant::now()) {
            self.from.get_mut().until = until;
        }
        Ok(count)
    }
}

/// A stream up to some time: a client that drips would otherwise stay for ever.
struct Patient<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Patient<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        (&mut &*self.stream).read(to)
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?.min(SLOW)))?;
        (&mut &*self.stream).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection and what it may take.
struct Serving<'a> {
    connection: &'a Connection,
    limits: Limits,
    /// Bytes of the bodies of all connections.
    held: Arc<AtomicUsize>,
}

/// Why no further request is read.
enum End {
    /// The client has gone, or has to.
    Gone,
    /// It is told why.
    Refused(Response),
}

impl End {
    /// Goes on, or ends without a word.
    fn unless(goes_on: bool) -> Result<(), Self> {
        if goes_on { Ok(()) } else { Err(Self::Gone) }
    }
}

/// More bodies arrive than are held.
fn too_much() -> End {
    End::Refused(Response::error(503, "too much is being sent at once; try again later"))
}

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Gone => Self::Gone,
            Refused::TooMuch => too_much(),
            Refused::With(status, why) => Self::Refused(Response::error(status, why)),
        }
    }
}

impl Serving<'_> {
    /// Answers requests, one after the other.
    fn serve(&self, handler: &dyn Handler) {
        let stream = self.connection.stream();
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(Patient { stream, until: Instant::now() });
        loop {
            match self.exchange(&mut reader, handler) {
                Ok(()) => {}
                Err(End::Gone) => return,
                Err(End::Refused(answer)) => {
                    say_last(stream, &answer);
                    return self.linger();
                }
            }
            // Up to the first byte of the next request.
            reader.get_mut().until = Instant::now() + self.limits.idle;
            if !self.connection.waits(Instant::now()) || reader.fill_buf().is_err() {
                return;
            }
        }
    }

    /// A request and its answer.
    fn exchange(
        &self,
        reader: &mut BufReader<Patient<'_>>,
        handler: &dyn Handler,
    ) -> Result<(), End> {
        let now = Instant::now();
        reader.get_mut().until = now + self.limits.head;
        End::unless(self.connection.waits(now))?;
        let head = Head::read(reader, self.limits.body)?.ok_or(End::Gone)?;
        End::unless(self.connection.works())?;
        if head.length > 0
            && let Ok(Some(answer)) =
                catch_unwind(AssertUnwindSafe(|| handler.refuses(&head.request)))
        {
            return Err(End::Refused(answer));
        }
        let held = Held::room_for(&self.held, head.length, self.limits.bodies);
        let mut held = held.ok_or_else(too_much)?;
        let request = self.body(head, reader, &mut held)?;
        End::unless(self.connection.works())?;
        // Whatever one request does, others are answered.
        let answer = catch_unwind(AssertUnwindSafe(|| handler.answer(&request)));
        let answer = answer
            .unwrap_or_else(|_| Response::error(500, "a fault of corprof's own; please report it"));
        let now = Instant::now();
        End::unless(self.connection.waits(now + self.limits.undisturbed))?;
        let mut to = Patient { stream: self.connection.stream(), until: now + ANSWER };
        let written = answer.write(&mut to, request.keeps_alive);
        End::unless(written.is_ok() && request.keeps_alive)
    }

    fn body(
        &self,
        head: Head,
        reader: &mut BufReader<Patient<'_>>,
        held: &mut Held,
    ) -> Result<Request, End> {
        let now = Instant::now();
        reader.get_mut().until = now + BODY;
        End::unless(self.connection.waits(now + self.limits.undisturbed))?;
        if head.expects {
            let mut to = Patient { stream: self.connection.stream(), until: now + SLOW };
            let asked = to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            End::unless(asked.is_ok())?;
        }
        let pace = Pace::new(now, self.limits.pace);
        Ok(head.body(&mut Arriving { from: reader, held, pace })?)
    }

    /// Takes what is under way: closed with something unread, a connection is reset, and its
    /// client may not see the answer.
    fn linger(&self) {
        let now = Instant::now();
        if self.connection.waits(now) {
            let mut from = Patient { stream: self.connection.stream(), until: now + LINGER };
            // It ends by an error, if not before.
            let _ = io::copy(&mut from, &mut io::sink());
        }
    }
}

/// Answers, and hears no more.
fn say_last(stream: &TcpStream, answer: &Response) {
    let _ = answer.write(&mut Patient { stream, until: Instant::now() + SLOW }, false);
    let _ = stream.shutdown(Shutdown::Write);
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

    /// Whether one more body of ten bytes is let in, or refused, in the end.
    fn in_the_end(address: SocketAddr, status: &str) -> bool {
        (0..500).any(|_| {
            thread::sleep(Duration::from_millis(10));
            asked(address).1.contains(status)
        })
    }

    #[test]
    fn no_more_bodies_are_held_than_there_may_be() {
        let pace = Duration::from_secs(3_600);
        let address = started(Limits { bodies: 25, pace, ..Limits::new(1_000, 10) });
        // What was only announced takes no room.
        let silent = [(); 4].map(|()| asked(address));
        assert!(silent.iter().all(|(_, line)| line.contains(" 100 ")), "{silent:?}");
        drop(silent);
        let [(mut one, _), (mut two, _)] = [(); 2].map(|()| asked(address));
        for arriving in [&mut one, &mut two] {
            arriving.write_all(b"012345678").unwrap();
        }
        assert!(in_the_end(address, " 503 "), "two bodies and one more are too many");
        one.write_all(b"9").unwrap();
        let mut rest = String::new();
        let mut reader = BufReader::new(&one);
        while !rest.contains("200 OK") {
            assert!(reader.read_line(&mut rest).unwrap() > 0, "{rest}");
        }
        drop(one);
        // Once its answer has gone, there is room again; that takes a moment.
        assert!(in_the_end(address, " 100 "), "what was sent is held for ever");
    }

    /// Those that were let in together may be too many once they arrive.
    #[test]
    fn a_body_for_which_there_is_no_room_any_more_is_refused() {
        let pace = Duration::from_secs(3_600);
        let address = started(Limits { bodies: 15, pace, ..Limits::new(1_000, 10) });
        let [(mut one, _), (mut two, second)] = [(); 2].map(|()| asked(address));
        assert!(second.contains(" 100 "), "{second}");
        one.write_all(b"012345678").unwrap();
        assert!(in_the_end(address, " 503 "), "it does not arrive");
        two.write_all(b"012345678").unwrap();
        let mut text = String::new();
        let _ = two.read_to_string(&mut text);
        assert!(text.contains(" 503 "), "{text}");
    }

    /// A byte at a time, what has come before would be held until the time of a whole body is over.
    #[test]
    fn a_body_that_drips_is_left() {
        let pace = Duration::from_millis(300);
        let address = started(Limits { pace, ..Limits::new(4, 1 << 20) });
        let mut dripping = TcpStream::connect(address).unwrap();
        dripping.write_all(b"POST /a HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n").unwrap();
        dripping.write_all(&[b'0'; PACE_BYTES]).unwrap();
        dripping.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let begin = Instant::now();
        while dripping.write_all(b"0").is_ok() && !matches!(dripping.read(&mut [0; 1]), Ok(0)) {
            assert!(begin.elapsed() < BODY / 2, "it is waited for");
        }
    }

    /// A profile of a minute, over a line of some bytes a second.
    #[test]
    fn a_small_body_may_drip() {
        let pace = Duration::from_millis(1);
        let address = started(Limits { pace, ..Limits::new(4, 1 << 20) });
        let mut dripping = TcpStream::connect(address).unwrap();
        dripping.write_all(b"POST /a HTTP/1.1\r\nContent-Length: 20\r\n\r\n").unwrap();
        for _ in 0..20 {
            // Longer than the pace allows: how much longer is of no matter.
            thread::sleep(Duration::from_millis(5));
            dripping.write_all(b"0").unwrap();
        }
        let mut line = String::new();
        BufReader::new(&dripping).read_line(&mut line).unwrap();
        assert!(line.contains("200 OK"), "{line}");
    }

    #[test]
    fn a_body_that_goes_on_is_waited_for_up_to_its_end() {
        let (begin, stretch) = (Instant::now(), Duration::from_secs(5));
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut pace = Pace::new(begin, stretch);
        assert_eq!(pace.came(PACE_BYTES - 1, at(4)), None, "it is not enough yet");
        assert_eq!(pace.came(1, at(4)), Some(at(9)));
        assert_eq!(pace.came(1, at(8)), None);
        assert_eq!(pace.came(10 * PACE_BYTES, at(8)), Some(at(13)), "much at once is no advance");
        assert_eq!(pace.came(PACE_BYTES, at(58)), Some(at(60)), "its time is over");
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
        let head = Duration::from_millis(300);
        let address = started(Limits { head, ..Limits::new(4, 10) });
        let mut dripping = TcpStream::connect(address).unwrap();
        dripping.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // A byte at a time, until nobody listens any more.
        let begin = Instant::now();
        let mut answer = [0; 1];
        while dripping.write_all(b"G").is_ok() && !matches!(dripping.read(&mut answer), Ok(0)) {
            assert!(begin.elapsed() < Duration::from_secs(60), "it is waited for");
        }
        assert!(two_requests(address));
    }

    /// Two requests on one connection; whether they are answered.
    fn two_requests(address: SocketAddr) -> bool {
        let mut stream = TcpStream::connect(address).unwrap();
        ["/a", "/b"].iter().all(|path| {
            let mut text = Vec::new();
            let mut byte = [0; 1];
            let asked = write!(stream, "GET {path} HTTP/1.1\r\n\r\n").is_ok();
            while !text.ends_with(path.as_bytes()) && stream.read_exact(&mut byte).is_ok() {
                text.extend(byte);
            }
            asked && text.ends_with(path.as_bytes())
        })
    }

    /// Nobody's time is over here: an answer can only come since there was made room for it.
    #[test]
    fn whoever_is_waited_for_keeps_nobody_out() {
        let for_ever = Duration::from_secs(3_600);
        let limits = Limits { head: for_ever, idle: for_ever, ..Limits::new(6, 10) };
        let address = started(limits);
        let connected = |begun: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(begun.as_bytes()).unwrap();
            stream
        };
        // Nothing is sent, a head stops, an answered one is idle, a refused one goes on sending.
        let idle = "GET /a HTTP/1.1\r\n\r\n";
        let refused = "POST /secret HTTP/1.1\r\nContent-Length: 10\r\n\r\n";
        for begun in ["", "GET / HT", idle, refused] {
            let _slow: Vec<TcpStream> = (0..6).map(|_| connected(begun)).collect();
            // While all of them are being answered there is no place, for a moment.
            let begin = Instant::now();
            while !two_requests(address) {
                assert!(begin.elapsed() < Duration::from_secs(60), "{begun:?} keeps others out");
            }
        }
    }

    /// What is being sent, or answered, is not cut off for somebody new.
    #[test]
    fn a_body_under_way_stays() {
        let undisturbed = Duration::from_secs(3_600);
        let address = started(Limits { undisturbed, ..Limits::new(1, 10) });
        let (mut sending, first) = asked(address);
        assert!(first.contains(" 100 "), "{first}");
        let (_other, refused) = asked(address);
        assert!(refused.contains(" 503 "), "{refused}");
        sending.write_all(b"0123456789").unwrap();
        let mut text = String::new();
        let mut reader = BufReader::new(&sending);
        while !text.contains("200 OK") {
            assert!(reader.read_line(&mut text).unwrap() > 0, "{text}");
        }
    }
}
