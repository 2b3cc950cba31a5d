//! `count NAME`: does a part's operation so often, after so many times for warming up, and prints
//! how often that was, the allocations of one, and its nanoseconds. `cargo xtask bench micro` runs
//! it under callgrind and counts the instructions of `counted`.

use std::error::Error;
use std::time::Instant;

use micro::Operation;
use testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What callgrind counts.
#[inline(never)]
fn counted(operation: &mut Operation, times: u32) {
    (0..times).for_each(|_| operation());
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("usage: count NAME")?;
    let case = micro::case(&name).ok_or("there is no such part")?;
    let mut operation = (case.make)();
    (0..case.warm_up).for_each(|_| operation());
    let (calls, begin) = (Counting::calls(), Instant::now());
    counted(&mut operation, case.times);
    let each = |sum: f64| sum / f64::from(case.times);
    let nanos = each(begin.elapsed().as_nanos() as f64);
    let calls = each((Counting::calls() - calls) as f64);
    println!("{} {calls:.3} {nanos:.1}", case.times);
    Ok(())
}
