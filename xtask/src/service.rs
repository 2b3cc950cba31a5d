//! A web service that is put under load, and what came of it in windows that alternate.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rig::{Net9, Rig};

const CLIENTS: usize = 4;

/// A row of a table, of the answers of two in each round: medians, from the least to the most.
pub fn row(what: &str, rounds: &[(u64, u64)]) -> Result<String> {
    let never = rounds.iter().map(|(never, _)| *never as f64).collect();
    let other = rounds.iter().map(|(_, other)| *other as f64).collect();
    let ratio = rounds.iter().map(|(never, other)| *other as f64 / *never as f64).collect();
    let mut text = format!("| {what} |");
    for (numbers, digits) in [(never, 0), (other, 0), (ratio, 3)] {
        let mut numbers: Vec<f64> = numbers;
        numbers.sort_by(f64::total_cmp);
        let (least, most) = numbers.first().zip(numbers.last()).context("no round")?;
        let median = numbers[numbers.len() / 2];
        write!(text, " {median:.digits$} ({least:.digits$} to {most:.digits$}) |")?;
    }
    Ok(text)
}

/// A service that waits for requests.
#[derive(Debug)]
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
    /// Starts it, with further variables of the environment.
    pub fn start(rig: &Rig, variables: &[(&str, String)]) -> Result<Self> {
        let mut command = rig.app("web")?.command(Net9)?;
        command.envs(variables.iter().map(|(name, value)| (name, value)));
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

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads since its start, in nanoseconds, to 10 ms.
    pub fn cpu_ns(&self) -> Result<u64> {
        const TICK_NS: u64 = 10_000_000;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // After the name, which may have blanks: the state is the third field, these are 14 and 15.
        let (_, fields) = stat.rsplit_once(") ").context("no fields")?;
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
        Ok(ticks.sum::<Result<u64, _>>()? * TICK_NS)
    }

    /// Answers in that time, to clients that each ask for the next as soon as they have one.
    pub fn load(&self, time: Duration) -> Result<u64> {
        let (answers, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let client = || self.client(&answers, &over);
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            let began = Instant::now();
            while began.elapsed() < time {
                thread::sleep(time.saturating_sub(began.elapsed()));
            }
            let counted = answers.load(Ordering::Relaxed);
            over.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().map_err(|_| anyhow!("a client panicked"))??;
            }
            Ok(counted)
        })
    }

    /// One connection, kept. The answers have known lengths, all of them less than a buffer.
    fn client(&self, answers: &AtomicU64, over: &AtomicBool) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        let mut bytes = [0; 4096];
        while !over.load(Ordering::Relaxed) {
            stream.write_all(b"GET /cpu/10 HTTP/1.1\r\nHost: a\r\n\r\n")?;
            let mut text = Vec::new();
            // Its body is one chunk or has a length; either way it ends with what tells the end.
            while !is_whole(&text) {
                let count = stream.read(&mut bytes)?;
                ensure!(count > 0, "the service has hung up");
                text.extend_from_slice(&bytes[..count]);
            }
            ensure!(text.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&text));
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether an answer is there to its end.
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

    #[test]
    fn a_row_has_medians_and_the_median_of_the_ratios() {
        let text = row("so", &[(100, 50), (200, 200), (300, 330)]).unwrap();
        let expected = "| so | 200 (100 to 300) | 200 (50 to 330) | 1.000 (0.500 to 1.100) |";
        assert_eq!(text, expected);
    }
}
