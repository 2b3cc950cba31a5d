//! Many agents that push while somebody asks.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Agents that push at the same time.
const AGENTS: usize = 20;

#[test]
fn twenty_agents_push_while_it_is_asked() {
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let pushes = 6;
    let done = AtomicBool::new(false);
    let slowest = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut times = Vec::new();
            while !done.load(Ordering::Acquire) {
                let begin = Instant::now();
                whole(&server, "service=service-1&value=cpu");
                times.push(begin.elapsed());
            }
            times
        });
        let agents: Vec<_> = (0..AGENTS)
            .map(|agent| {
                let server = &server;
                scope.spawn(move || {
                    for push in 0..pushes {
                        let (_, bytes) = recent((agent * pushes + push) as u64, 200);
                        let path =
                            format!("/v1/push?service=service-{}&instance={agent}", agent % 4);
                        let answer = server.post(&path, &bytes);
                        assert_eq!(answer.status, 200, "{}", answer.text());
                    }
                })
            })
            .collect();
        agents.into_iter().for_each(|agent| agent.join().unwrap());
        done.store(true, Ordering::Release);
        asking.join().unwrap().into_iter().max()
    });
    println!("the slowest of the questions took {slowest:?}");
    assert_eq!(header(&server)["sources"].as_array().unwrap().len(), AGENTS * pushes);
    let mut expected = 0;
    for seed in 0..AGENTS * pushes {
        expected += recent(seed as u64, 200).0.total().cpu_ns;
    }
    assert_eq!(whole(&server, "value=cpu"), expected);
}

/// The long form: an hour of twenty agents is there, they push on, and the last hour of a service
/// is asked for, again and again, each time one that nobody has asked for before.
#[test]
fn an_hour_of_twenty_agents() {
    let seconds = std::env::var("SERVE_SECONDS").ok().and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else { return };
    let dir = Dir::new();
    let server = serve(&dir, &[]);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let push = |agent: usize, ago: u64, seed: u64| {
        let mut profile = made(seed, 1_500);
        profile.period.start_unix_ns = (now() - Duration::from_secs(ago)).as_nanos() as u64;
        let bytes = profile::pprof::write(&profile, Vec::new()).unwrap();
        let path = format!("/v1/push?service=service-{}&instance={agent}", agent % 4);
        let answer = server.post(&path, &bytes);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    // An hour, of each agent a profile a minute. As with programs, the same stacks come again.
    let seed = |agent: usize, minute: u64| (agent % 4) as u64 * 5 + minute % 5;
    thread::scope(|scope| {
        for agent in 0..AGENTS {
            let push = &push;
            scope.spawn(move || {
                (1..=60).rev().for_each(|minute| push(agent, minute * 60, seed(agent, minute)));
            });
        }
    });
    println!("memory with an hour in it: {} MiB", memory_mib(&server));
    let end = Instant::now() + Duration::from_secs(seconds);
    let pushed = std::sync::atomic::AtomicU64::new(AGENTS as u64 * 60);
    let mut times = thread::scope(|scope| {
        for agent in 0..AGENTS {
            let (push, pushed) = (&push, &pushed);
            scope.spawn(move || {
                let mut minute = 0;
                // Six times as often as agents do.
                while Instant::now() < end {
                    push(agent, 60, seed(agent, minute));
                    pushed.fetch_add(1, Ordering::Relaxed);
                    minute += 1;
                    thread::sleep(Duration::from_secs(10));
                }
            });
        }
        let mut times = Vec::new();
        while Instant::now() < end {
            let to = now().as_micros() as u64;
            let number = times.len();
            let query = format!(
                "service=service-{}&value={}&from={}&to={to}",
                number % 4,
                ["cpu", "wall"][number % 2],
                to - 3_600_000_000,
            );
            let begin = Instant::now();
            assert!(whole(&server, &query) > 0);
            times.push(begin.elapsed());
            thread::sleep(Duration::from_millis(100));
        }
        times
    });
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{} questions: half within {:?}, 99 of 100 within {:?}, the slowest {:?}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!("memory at the end: {} MiB", memory_mib(&server));
    let pushed = pushed.into_inner();
    println!("{pushed} profiles were pushed");
    assert_eq!(metric(&server, "corprof_store_profiles"), pushed);
    assert_eq!(header(&server)["sources"].as_array().unwrap().len() as u64, pushed);
    assert!(at(0.99) <= Duration::from_millis(300), "too slow");
}

/// What the server holds, in MiB.
fn memory_mib(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}
