//! `cargo xtask bench wake`: what a thread costs that does nothing but wake a hundred times a
//! second, beside threads that compute. A profiler that looks at threads can't cost less.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::time::{ClockId, clock_gettime};

/// The wall sampler's beat.
const BEAT: Duration = Duration::from_millis(10);
const WAKES: u32 = 800;
const WAKES_QUICK: u32 = 50;
const WAKES_A_SECOND: f64 = 100.0;
/// Steps between two looks at whether it is over.
const STEPS: u64 = 1_000;

/// Measures in so many rounds, and prints each: milliseconds of CPU time in a second.
pub fn run(rounds: usize, quick: bool) -> Result<()> {
    let wakes = if quick { WAKES_QUICK } else { WAKES };
    println!("\nA thread that wakes a hundred times a second beside threads that compute:\n");
    for _ in 0..rounds {
        let cost_ms = one(wakes)? * 1e3 * WAKES_A_SECOND / f64::from(wakes);
        println!("{cost_ms:.2} ms of CPU time a second");
    }
    Ok(())
}

/// Seconds of CPU time for so many wakes, while all processors have something to do.
fn one(wakes: u32) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    let processors = thread::available_parallelism().context("how many processors?")?;
    thread::scope(|scope| {
        for _ in 0..processors.get() {
            scope.spawn(|| compute(&is_over));
        }
        let woken = scope.spawn(|| wake(wakes)).join();
        is_over.store(true, Ordering::Relaxed);
        woken.map_err(|_| anyhow!("the thread that wakes panicked"))?
    })
}

fn compute(is_over: &AtomicBool) {
    let mut number = 1_u64;
    while !is_over.load(Ordering::Relaxed) {
        for step in 0..STEPS {
            number = black_box(number.wrapping_mul(step | 1));
        }
    }
}

fn wake(wakes: u32) -> Result<f64> {
    let begin = own_cpu()?;
    (0..wakes).for_each(|_| thread::sleep(BEAT));
    Ok((own_cpu()? - begin).as_secs_f64())
}

fn own_cpu() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("no clock of CPU time")?;
    Ok(time.into())
}
