//! `cargo xtask bench export`: what sending costs a service, whatever its target does. Two
//! processes of the same service run side by side under the agent; one writes files, the other
//! sends its profiles, too. They are put under load in turns, each for a window, every other time
//! the other way round, while the target is up, down or slow.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use rig::{Net9, Rig};

use crate::attach_cost::{CLIENTS, PATHS, row};
use crate::cost::process;
use crate::cost::service::Service;
use crate::product::Product;

/// How long a process is under load at a time: two periods.
const WINDOW: Duration = Duration::from_secs(5);
/// Far shorter than a service's, so that each window has what sending costs.
const PERIOD: &str = "2s";
/// For how long it is first: the runtime compiles what is often called once more.
const WARM_UP: Duration = Duration::from_secs(10);

/// How the target behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manners {
    /// Takes all.
    Up,
    /// Hangs up.
    Down,
    /// Answers a byte a second.
    Slow,
}

const ALL: [Manners; 3] = [Manners::Up, Manners::Down, Manners::Slow];

/// Measures in so many rounds, and prints a table.
pub fn run(rounds: usize, rig: &Rig, product: &Product, target: &Path) -> Result<()> {
    let manners = Arc::new(AtomicU8::new(0));
    let (port, requests) = (listen(&manners)?, &manners);
    let folder = target.join("bench/export");
    let start = |name: &str, export: &str| {
        let [enable, class, path] = config::agent_variables(&product.agent.to_string_lossy());
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let variables = [
            enable,
            class,
            path,
            ("CORPROF_OUTPUT_DIR", text(&folder.join(name))),
            ("CORPROF_SPOOL_DIR", text(&folder.join("spool"))),
            ("CORPROF_UPLOAD_PERIOD", PERIOD.to_owned()),
            ("CORPROF_EXPORT", export.to_owned()),
            ("CORPROF_PYROSCOPE_URL", format!("http://127.0.0.1:{port}")),
        ];
        let mut command = rig.app("web")?.command(Net9)?;
        command.envs(variables);
        Service::start(command)
    };
    let files = start("files", "file")?;
    let sends = start("sends", "file,pyroscope")?;
    for service in [&files, &sends] {
        service.load(WARM_UP, CLIENTS, &PATHS)?;
    }
    let (mut answers, mut cpu) = (vec![Vec::new(); ALL.len()], vec![Vec::new(); ALL.len()]);
    for round in 0..rounds {
        for (position, one) in ALL.into_iter().enumerate() {
            eprintln!("bench: export, round {} of {rounds}: {one:?}", round + 1);
            requests.store(one as u8, Ordering::Relaxed);
            let (one, other) = if (round + position) % 2 == 0 {
                (window(&files)?, window(&sends)?)
            } else {
                let sending = window(&sends)?;
                (window(&files)?, sending)
            };
            answers[position].push((one.0, other.0));
            cpu[position].push((one.1, other.1));
        }
    }
    drop((files, sends));
    ensure!(folder.join("sends").is_dir(), "the agent was not there");
    println!(
        "\nAnswers in {} s of a service that writes files, and of another that sends its profiles, \
         too, one each {PERIOD} ({rounds} rounds):\n",
        WINDOW.as_secs()
    );
    println!("| target | files | files and Pyroscope | ratio of a round's |\n|---|---|---|---|");
    for (what, rounds) in [("answers", &answers), ("ns of CPU an answer", &cpu)] {
        for (one, rounds) in ALL.iter().zip(rounds) {
            println!("{}", row(&format!("{one:?}, {what}").to_lowercase(), rounds)?);
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Answers in a window, and the CPU time of the whole process for one of them, the profiler's own
/// in it: that is steadier where others are at work.
fn window(service: &Service) -> Result<(u64, u64)> {
    let before = process::cpu_ns(service.pid())?;
    let answers = service.load(WINDOW, CLIENTS, &PATHS)?;
    let used = process::cpu_ns(service.pid())?.saturating_sub(before);
    Ok((answers, used / answers.max(1)))
}

/// A target that behaves as it is told; gives its port. Its threads end with the process.
fn listen(manners: &Arc<AtomicU8>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let manners = Arc::clone(manners);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let now = manners.load(Ordering::Relaxed);
            if now != Manners::Down as u8 {
                // Whoever it is has gone, or has not; both is fine.
                thread::spawn(move || serve(stream, now == Manners::Slow as u8));
            }
        }
    });
    Ok(port)
}

fn serve(mut stream: TcpStream, is_slow: bool) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    std::io::copy(&mut Read::by_ref(&mut stream).take(length), &mut std::io::sink())?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    if !is_slow {
        return stream.write_all(answer);
    }
    for byte in answer {
        stream.write_all(&[*byte])?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
