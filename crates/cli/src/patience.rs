//! Waiting for an answer no longer than there is a reason to: the other process may be stopped
//! meanwhile, and whoever called us may want no more of it.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Between two looks at whether there is a reason to give up.
const LOOK: Duration = Duration::from_millis(20);

/// Has a thread do what may take long, and gives its answer; or the reason to wait no longer for
/// it, which is asked for again and again. The thread then goes on, until we end.
///
/// # Errors
/// If there can be no thread, or it panicked.
pub fn unless<T: Send + 'static, Why>(
    work: impl FnOnce() -> T + Send + 'static,
    mut give_up: impl FnMut() -> Option<Why>,
) -> io::Result<Result<T, Why>> {
    let (tell, answer) = mpsc::sync_channel(1);
    let body = move || {
        // Whoever gave up hears nothing of it.
        let _unheard = tell.send(work());
    };
    thread::Builder::new().name("asks".into()).spawn(body)?;
    loop {
        match answer.recv_timeout(LOOK) {
            Ok(answer) => return Ok(Ok(answer)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("a fault of corprof's own; please report it"));
            }
        }
        if let Some(why) = give_up() {
            return Ok(Err(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_until_there_is_a_reason_not_to() {
        assert_eq!(unless(|| 7, || None::<()>).unwrap(), Ok(7));
        let (_keep, never) = mpsc::channel::<()>();
        let mut looks = 0;
        let third = || {
            looks += 1;
            (looks == 3).then_some("enough")
        };
        assert_eq!(unless(move || never.recv(), third).unwrap(), Err("enough"));
    }
}
