//! A web service that waits for requests, and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

/// What clients ask for, in turn: most requests are small, and each fifth computes a little.
pub const MIX: [&str; 5] = ["/order/1", "/order/22", "/order/33", "/order/44", "/cpu/100"];
/// How long a client waits for an answer before it takes the service for dead.
const ANSWER: Duration = Duration::from_secs(20);

/// The service.
pub struct Service {
    child: Child,
    port: u16,
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended; there is nobody to tell.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Service {
    /// Starts it; returns when it listens.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let output = child.stdout.take().context("no output")?;
        let mut service = Self { child, port: 0 };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim_end().strip_prefix("LISTENING ").context("it does not listen")?;
        service.port = port.parse()?;
        Ok(service)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Answers in that time, to clients that each ask for the next of those paths as soon as they
    /// have an answer.
    pub fn load(&self, time: Duration, clients: usize, paths: &[&str]) -> Result<u64> {
        let (answers, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let client = |first| self.insist(paths, first, &answers, &over);
        let client = &client;
        thread::scope(|scope| {
            let clients: Vec<_> =
                (0..clients).map(|first| scope.spawn(move || client(first))).collect();
            let began = Instant::now();
            while began.elapsed() < time {
                thread::sleep(time.saturating_sub(began.elapsed()));
            }
            over.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().map_err(|_| anyhow!("a client panicked"))??;
            }
            Ok(answers.load(Ordering::Relaxed))
        })
    }

    fn insist(
        &self,
        paths: &[&str],
        first: usize,
        answers: &AtomicU64,
        over: &AtomicBool,
    ) -> Result<()> {
        let mut client = Client::connect(self.port)?;
        for path in paths.iter().cycle().skip(first) {
            if over.load(Ordering::Relaxed) {
                break;
            }
            client.ask(path)?;
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How long each answer took, in microseconds, of so many requests a second in all, for that
    /// time. A request has its time, whether or not the one before has been answered: what waits
    /// for that waits longer, as it does where real people ask.
    pub fn latencies(&self, time: Duration, clients: usize, a_second: f64) -> Result<Vec<f64>> {
        let began = Instant::now();
        let client = |number: usize| {
            let mut client = Client::connect(self.port)?;
            let step = clients as f64 / a_second;
            let mut due_s = step * number as f64 / clients as f64;
            let mut took = Vec::new();
            for path in MIX.iter().cycle().skip(number) {
                if due_s > time.as_secs_f64() {
                    break;
                }
                let due = Duration::from_secs_f64(due_s);
                thread::sleep(due.saturating_sub(began.elapsed()));
                client.ask(path)?;
                took.push((began.elapsed().saturating_sub(due)).as_secs_f64() * 1e6);
                due_s += step;
            }
            Ok(took)
        };
        let client = &client;
        thread::scope(|scope| {
            let clients: Vec<_> =
                (0..clients).map(|number| scope.spawn(move || client(number))).collect();
            let mut all = Vec::new();
            for client in clients {
                let took: Result<Vec<f64>> =
                    client.join().map_err(|_| anyhow!("a client panicked"))?;
                all.extend(took?);
            }
            Ok(all)
        })
    }
}

/// One connection, kept.
struct Client {
    stream: TcpStream,
    bytes: [u8; 4096],
    text: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER))?;
        Ok(Self { stream, bytes: [0; 4096], text: Vec::new() })
    }

    /// Asks, and reads the answer to its end.
    fn ask(&mut self, path: &str) -> Result<()> {
        self.stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())?;
        self.text.clear();
        while !is_whole(&self.text) {
            let count = self.stream.read(&mut self.bytes).context("no answer")?;
            ensure!(count > 0, "the service has hung up");
            self.text.extend_from_slice(&self.bytes[..count]);
        }
        ensure!(self.text.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&self.text));
        Ok(())
    }
}

/// Whether an answer is there to its end: it has a length, or chunks, the last of which is empty.
fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => body.len() >= length,
        None => body.ends_with("0\r\n\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_it_is() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n123";
        for answer in [&chunked[..], &sized[..]] {
            assert!(is_whole(answer));
            assert!((0..answer.len()).all(|length| !is_whole(&answer[..length])));
        }
    }
}
