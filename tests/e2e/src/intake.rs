//! A server that takes profiles, strictly, and misbehaves if it is told to.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Longer ones are not taken, in bytes.
const BODY_MAX: usize = 64 << 20;

/// How it behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Takes everything.
    Good,
    /// Answers with a status, and with these further lines of the head.
    Status(u16, &'static str),
    /// Says a status before it has read the request, and hangs up.
    Early(u16),
    /// Takes the request and says nothing, a byte a second.
    Slow,
    /// Takes the request and hangs up.
    Closes,
    /// Hangs up at once.
    Resets,
    /// Answers with something that is no HTTP.
    Garbage,
    /// Answers with a head without end.
    Huge,
    /// Answers with these bytes, and keeps the connection for as long as the other side does.
    Keeps(&'static str),
    /// Answers with what it was sent: the headers, and the path.
    Echoes(u16),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its path.
    pub path: String,
    /// Its headers, by small names.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it was taken.
    pub taken: bool,
    /// The status that it was answered with; 0 if there was none.
    pub status: u16,
}

impl Received {
    /// A header's value; empty if it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

struct State {
    manners: Manners,
    received: Vec<Received>,
    /// What was wrong with requests.
    faults: Vec<String>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server; its threads end with the test's process.
pub struct Intake {
    shared: Arc<Shared>,
    /// Its port, 0 if it listens at a file.
    pub port: u16,
}

impl Intake {
    /// Listens at a port of this machine.
    ///
    /// # Errors
    /// If there is none.
    pub fn start() -> Result<Self> {
        Self::start_on(0)
    }

    /// The same at a port at which nobody listened before; any for 0.
    ///
    /// # Errors
    /// If it is somebody else's.
    pub fn start_on(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).context("no port")?;
        let port = listener.local_addr()?.port();
        let intake = Self { shared: shared(), port };
        let state = Arc::clone(&intake.shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(stream, &state));
            }
        });
        Ok(intake)
    }

    /// Listens at a socket that is a file.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn start_at(path: &Path) -> Result<Self> {
        let listener = UnixListener::bind(path).with_context(|| format!("no socket {path:?}"))?;
        let intake = Self { shared: shared(), port: 0 };
        let state = Arc::clone(&intake.shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(stream, &state));
            }
        });
        Ok(intake)
    }

    /// Serves one connection that somebody else has accepted.
    pub fn serve(&self, stream: impl Read + Write) {
        serve(Plain(stream), &self.shared);
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Behaves so from now on.
    pub fn be(&self, manners: Manners) {
        self.shared.lock().manners = manners;
    }

    /// All requests so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.lock().received.clone()
    }

    /// How many there were so far of a kind.
    #[must_use]
    pub fn count(&self, is_counted: impl Fn(&Received) -> bool) -> usize {
        self.shared.lock().received.iter().filter(|received| is_counted(received)).count()
    }

    /// Those that it took.
    #[must_use]
    pub fn taken(&self) -> Vec<Received> {
        self.received().into_iter().filter(|received| received.taken).collect()
    }

    /// Waits until so many were taken, or tried, and something holds.
    ///
    /// # Errors
    /// If it takes too long.
    pub fn wait(&self, holds: impl Fn(&[Received]) -> bool) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut state = self.shared.lock();
        while !holds(&state.received) {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "{} requests in a minute", state.received.len());
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Fails if any request was not as it should be.
    ///
    /// # Errors
    /// All that was wrong.
    pub fn check(&self) -> Result<()> {
        let faults = self.shared.lock().faults.join("\n");
        ensure!(faults.is_empty(), "requests that are none:\n{faults}");
        Ok(())
    }
}

fn shared() -> Arc<Shared> {
    let state = State { manners: Manners::Good, received: Vec::new(), faults: Vec::new() };
    Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() })
}

/// A connection that can be ended without its usual end.
trait Connection: Read + Write {
    /// Ends it as a crash would.
    fn reset(self);
}

impl Connection for TcpStream {
    fn reset(self) {
        // What was not read makes the kernel send a reset.
        drop(self);
    }
}

impl Connection for UnixStream {
    fn reset(self) {
        drop(self);
    }
}

struct Plain<S>(S);

impl<S: Read> Read for Plain<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Write> Write for Plain<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Read + Write> Connection for Plain<S> {
    fn reset(self) {}
}

fn serve(mut stream: impl Connection, shared: &Shared) {
    let manners = shared.lock().manners.clone();
    match manners {
        Manners::Resets => return stream.reset(),
        Manners::Early(status) => {
            let _gone = write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
            let _gone = stream.flush();
            let mut some = [0; 1];
            let _gone = stream.read(&mut some);
            return;
        }
        _ => {}
    }
    let request = match read_request(&mut stream) {
        Ok(request) => request,
        Err(error) => {
            let mut state = shared.lock();
            state.faults.push(format!("{error:#}"));
            shared.changed.notify_all();
            return;
        }
    };
    let echoed = format!("{} {:?}", request.path, request.headers);
    let taken = manners == Manners::Good;
    let status = match manners {
        Manners::Good => 200,
        Manners::Status(status, _) => status,
        _ => 0,
    };
    {
        let mut state = shared.lock();
        state.received.push(Received { taken, status, ..request });
        shared.changed.notify_all();
    }
    let _gone = match manners {
        Manners::Keeps(bytes) => keep(&mut stream, bytes),
        Manners::Echoes(status) => echo(&mut stream, status, &echoed),
        other => answer(&mut stream, &other),
    };
}

fn keep(stream: &mut (impl Read + Write), bytes: &str) -> io::Result<()> {
    stream.write_all(bytes.as_bytes())?;
    stream.flush()?;
    io::copy(stream, &mut io::sink()).map(|_| ())
}

fn echo(stream: &mut impl Write, status: u16, text: &str) -> io::Result<()> {
    let length = text.len();
    write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: {length}\r\n\r\n{text}")?;
    stream.flush()
}

fn answer(stream: &mut impl Write, manners: &Manners) -> io::Result<()> {
    match manners {
        Manners::Good => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")?,
        Manners::Status(status, lines) => {
            let text = "because";
            write!(stream, "HTTP/1.1 {status} No\r\n{lines}Content-Length: 7\r\n\r\n{text}")?;
        }
        Manners::Slow => {
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: very, very, very, very slow\r\n\r\n" {
                stream.write_all(&[*byte])?;
                stream.flush()?;
                thread::sleep(Duration::from_secs(1));
            }
        }
        Manners::Garbage => stream.write_all(b"\x00\xff\x16\x03\x01 hello\r\n\r\n")?,
        Manners::Huge => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX: ")?;
            let line = [b'x'; 4096];
            while stream.write_all(&line).is_ok() {}
        }
        Manners::Closes
        | Manners::Resets
        | Manners::Early(_)
        | Manners::Keeps(_)
        | Manners::Echoes(_) => {}
    }
    stream.flush()
}

fn read_length(stream: &mut impl Read, length: &str) -> Result<Vec<u8>> {
    let length: usize = length.parse().context("the length")?;
    ensure!(length < BODY_MAX, "{length} bytes");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).context("the body ends early")?;
    Ok(body)
}

/// Ours never sends chunks; the official exporter does.
fn read_chunks(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(&read_line(stream)?, 16).context("a chunk's size")?;
        ensure!(size < BODY_MAX - body.len(), "more than {BODY_MAX} bytes");
        let begin = body.len();
        body.resize(begin + size, 0);
        stream.read_exact(&mut body[begin..]).context("a chunk ends early")?;
        ensure!(read_line(stream)?.is_empty(), "no line after a chunk");
        if size == 0 {
            return Ok(body);
        }
    }
}

/// A line without its end.
fn read_line(stream: &mut impl Read) -> Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).context("a line ends early")?;
        line.push(byte[0]);
        ensure!(line.len() < 1024, "a line without end");
    }
    line.truncate(line.len() - 2);
    String::from_utf8(line).context("a line is no text")
}

/// Reads a request, and finds what is wrong with it.
fn read_request(stream: &mut impl Read) -> Result<Received> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut byte).context("in the head")?;
        ensure!(n == 1, "the head ends early: {:?}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
        ensure!(head.len() < 64 << 10, "a head without end");
    }
    let head = String::from_utf8(head).context("the head is no text")?;
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let first: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, version] = first[..] else { anyhow::bail!("no request: {first:?}") };
    ensure!(method == "POST" && version == "HTTP/1.1", "{method} {version}");
    let mut headers = BTreeMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").with_context(|| format!("no header: {line}"))?;
        let is_new = headers.insert(name.to_ascii_lowercase(), value.to_owned()).is_none();
        ensure!(is_new, "{name} is there twice");
    }
    for name in ["host", "user-agent", "content-type"] {
        ensure!(headers.contains_key(name), "no {name}");
    }
    let chunks = headers.get("transfer-encoding").map(String::as_str);
    let body = match (headers.get("content-length"), chunks) {
        (Some(length), None) => read_length(stream, length)?,
        (None, Some("chunked")) => read_chunks(stream)?,
        other => anyhow::bail!("either a length or chunks, and not {other:?}"),
    };
    ensure!(!body.is_empty(), "no body");
    Ok(Received { path: path.to_owned(), headers, body, taken: false, status: 0 })
}
