//! How much of the processors this process may use.

use super::api;

/// Processors that this process may use at once: its affinity.
#[must_use]
pub fn allowed() -> f64 {
    let (mut own, mut system) = (0_usize, 0_usize);
    // SAFETY: the process's own handle, and two valid places.
    let told = unsafe {
        api::GetProcessAffinityMask(api::GetCurrentProcess(), &raw mut own, &raw mut system)
    };
    // With processors in several groups it is 0: then all of them.
    if told == 0 || own == 0 {
        let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        return u32::try_from(all).map_or(1.0, f64::from);
    }
    f64::from(own.count_ones())
}
