//! `cargo xtask bench attach`: what is left of the profiler in a service that it was attached to
//! and has left. Two processes of the same service run side by side; one is attached and left many
//! times, the other never. They are put under load in turns, for a few seconds each, every other
//! time the other way round: what the machine or the runtime does to both cancels out.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rig::{Net9, Rig};

use crate::product::Product;

/// How often the one is attached and left before it is measured.
const CYCLES: usize = 20;
/// How long a process is under load at a time.
const WINDOW: Duration = Duration::from_secs(5);
/// For how long it is first: the runtime compiles what is often called once more.
const WARM_UP: Duration = Duration::from_secs(10);
const CLIENTS: usize = 4;

/// Measures in so many rounds, and prints a table.
pub fn run(rounds: usize, rig: &Rig, product: &Product, target: &Path) -> Result<()> {
    let never = Service::start(rig)?;
    let left = Service::start(rig)?;
    for service in [&never, &left] {
        service.load(WARM_UP)?;
    }
    // What two processes of the same program differ by anyhow.
    let before = turns(rounds, &never, &left)?;
    let folder = target.join("bench/attach");
    eprintln!("bench: attach, {CYCLES} times attached and left");
    for _ in 0..CYCLES {
        let words = ["--for", "100ms", "--json=-"];
        let status = left.attach(product, &folder, &words).status().context("corprof attach")?;
        ensure!(status.success(), "corprof attach failed ({status})");
    }
    let after = turns(rounds, &never, &left)?;
    let mut attached = left.attach(product, &folder, &["--upload-period", "60s"]);
    let mut attached = attached.spawn().context("cannot start corprof attach")?;
    let during = turns(rounds, &never, &left);
    // It may have ended; the service is killed next.
    let _ended = attached.kill().and_then(|()| attached.wait());
    println!(
        "\nAnswers in {} s of a service that is never attached, and of another that is ({rounds} \
         rounds):\n",
        WINDOW.as_secs()
    );
    println!("| | the one | the other | ratio of a round's |\n|---|---|---|---|");
    println!("{}", row("before", &before)?);
    println!("{}", row(&format!("after {CYCLES} times attached and left"), &after)?);
    println!("{}", row("while attached", &during?)?);
    Ok(())
}

/// Answers of both, in each round.
fn turns(rounds: usize, never: &Service, other: &Service) -> Result<Vec<(u64, u64)>> {
    let mut answers = Vec::new();
    for round in 0..rounds {
        eprintln!("bench: attach, round {} of {rounds}", round + 1);
        let pair = if round % 2 == 0 {
            (never.load(WINDOW)?, other.load(WINDOW)?)
        } else {
            let others = other.load(WINDOW)?;
            (never.load(WINDOW)?, others)
        };
        answers.push(pair);
    }
    Ok(answers)
}

/// A row of the table: medians, from the least to the most.
fn row(what: &str, rounds: &[(u64, u64)]) -> Result<String> {
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
struct Service {
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
    fn start(rig: &Rig) -> Result<Self> {
        let mut command = rig.app("web")?.command(Net9)?;
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

    fn attach(&self, product: &Product, folder: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(&product.corprof);
        command.args(["attach", &self.child.id().to_string()]).args(options);
        command.arg("--out").arg(folder).arg("--agent").arg(&product.agent);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Answers in that time, to clients that each ask for the next as soon as they have one.
    fn load(&self, time: Duration) -> Result<u64> {
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
