//! Visitors who have said nothing yet, all waited for at once: none of them holds up the others.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// How many are waited for. Their descriptors are the program's, which may have few.
const VISITORS_MAX: usize = 8;
/// How long one may say nothing.
const SILENCE: Duration = Duration::from_secs(2);

/// Those who have said nothing yet, who came first first, and until when each may.
#[derive(Debug)]
pub(super) struct Silent<V> {
    visitors: VecDeque<(V, Instant)>,
}

/// Why a wait has ended; neither if its time is over.
pub(super) struct Wakes<V> {
    /// Somebody has begun to speak, or has gone.
    pub(super) speaker: Option<V>,
    /// Somebody wants to come in.
    pub(super) has_visitor: bool,
}

impl<V> Silent<V> {
    /// Nobody.
    pub(super) fn new() -> Self {
        Self { visitors: VecDeque::new() }
    }

    /// One more, in the place of the first one if there are too many.
    pub(super) fn add(&mut self, visitor: V, now: Instant) {
        if self.visitors.len() >= VISITORS_MAX {
            self.visitors.pop_front();
        }
        self.visitors.push_back((visitor, now + SILENCE));
    }

    /// Has those go whose time is over.
    pub(super) fn hang_up(&mut self, now: Instant) {
        self.visitors.retain(|(_, until)| *until > now);
    }
}

impl<V: AsRawFd> Silent<V> {
    /// Waits until one of them speaks, somebody comes to `door`, the time of one is over, or it is
    /// that late.
    ///
    /// # Errors
    /// Whatever the kernel says, but for signals: then it is over.
    pub(super) fn wait(&mut self, door: RawFd, until: Option<Instant>) -> io::Result<Wakes<V>> {
        let first = self.visitors.front().map(|(_, until)| *until);
        let until = [first, until].into_iter().flatten().min();
        let visitors = self.visitors.iter().map(|(visitor, _)| visitor.as_raw_fd());
        let mut asked =
            [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; VISITORS_MAX + 1];
        let descriptors = std::iter::once(door).chain(visitors);
        asked.iter_mut().zip(descriptors).for_each(|(asked, fd)| asked.fd = fd);
        // SAFETY: as many valid elements as is said; those of no descriptor are passed over.
        let answer =
            unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, millis(until)) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
            return Ok(Wakes { speaker: None, has_visitor: false });
        }
        let [door, visitors @ ..] = asked;
        let speaker = visitors.iter().position(|visitor| visitor.revents != 0);
        let speaker = speaker.and_then(|at| self.visitors.remove(at));
        Ok(Wakes { speaker: speaker.map(|(visitor, _)| visitor), has_visitor: door.revents != 0 })
    }
}

/// The time that is left, as the kernel wants it: rounded up, or the wait would be over before it.
fn millis(until: Option<Instant>) -> libc::c_int {
    let Some(until) = until else { return -1 };
    let left = until.saturating_duration_since(Instant::now());
    libc::c_int::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_has_its_time_and_its_number() {
        let mut silent = Silent::new();
        let begin = Instant::now();
        for number in 0..VISITORS_MAX as u32 + 2 {
            silent.add(number, begin + SILENCE * number);
        }
        assert_eq!(silent.visitors.len(), VISITORS_MAX);
        // Two had to go for the last two; the third one's time is over at three times the silence.
        silent.hang_up(begin + SILENCE * 3 - Duration::from_nanos(1));
        assert_eq!(silent.visitors.len(), VISITORS_MAX);
        silent.hang_up(begin + SILENCE * 3);
        assert_eq!(silent.visitors.len(), VISITORS_MAX - 1);
        assert_eq!(silent.visitors.front().map(|(number, _)| *number), Some(3));
    }

    #[test]
    fn a_wait_ends_in_time_without_anybody() {
        assert_eq!(millis(None), -1);
        assert_eq!(millis(Some(Instant::now())), 0);
        let left = millis(Some(Instant::now() + Duration::from_secs(3_600)));
        assert!((3_599_000..=3_600_000).contains(&left), "{left}");
    }
}
