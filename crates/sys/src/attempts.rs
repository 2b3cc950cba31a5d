//! Calls that end after a part of the time there is, and are made again until all of it is over: an
//! end that is brought forward meanwhile is seen after such a part.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// Attempts something until it is done, for as long as `left` gives time: each attempt gets a part
/// of it, and `left` is asked again when that is over. Returns how many bytes it was.
///
/// # Errors
/// As `TimedOut`, if nothing has happened; whatever else an attempt says.
pub fn until_done(
    mut left: impl FnMut() -> Option<Duration>,
    mut attempt: impl FnMut(Duration) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        let slice = left().ok_or(ErrorKind::TimedOut)?;
        match attempt(slice) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(7);

    /// What comes of attempts with these ends, in so many parts of time; and how many were made.
    fn made(ends: &[Result<usize, ErrorKind>], slices: usize) -> (Result<usize, ErrorKind>, usize) {
        let (mut slices, mut made) = (slices, 0);
        let left = || {
            slices = slices.checked_sub(1)?;
            Some(SLICE)
        };
        let came = until_done(left, |slice| {
            assert_eq!(slice, SLICE);
            made += 1;
            ends[made - 1].map_err(io::Error::from)
        });
        (came.map_err(|error| error.kind()), made)
    }

    #[test]
    fn it_is_attempted_until_it_is_done_or_time_is_over() {
        use ErrorKind::{BrokenPipe, Interrupted, TimedOut, WouldBlock};
        let late = [Err(WouldBlock), Err(TimedOut), Err(Interrupted), Ok(5)];
        assert_eq!(made(&late, 4), (Ok(5), 4));
        assert_eq!(made(&late, 3), (Err(TimedOut), 3));
        assert_eq!(made(&late, 0), (Err(TimedOut), 0));
        assert_eq!(made(&[Ok(0)], 9), (Ok(0), 1), "an end");
        assert_eq!(made(&[Err(WouldBlock), Err(BrokenPipe)], 9), (Err(BrokenPipe), 2));
    }
}
